//! The line between a candidate and its server: it can be cut, held, delayed, and says things twice.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::wire::{FRAME_BYTES_MAX, MAGIC};

/// How the line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Everything comes through.
    #[default]
    Well,
    /// Nothing does.
    Held,
    /// Questions come through, answers are lost.
    Deaf,
    /// Everything is late by so much, in the order in which it was said.
    Late(Duration),
    /// Every question comes through twice, the second time after the next one.
    Twice,
}

#[derive(Debug, Default)]
struct State {
    mood: Mood,
    open: Vec<TcpStream>,
}

/// See the module. Its threads end with its connections.
#[derive(Clone, Debug)]
pub struct Line {
    at: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Line {
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Self { at: listener.local_addr().unwrap(), state: Arc::default() };
        let state = Arc::clone(&line.state);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // A server that is not there is one more that does not answer.
                let Ok(far) = TcpStream::connect(server) else { continue };
                let ends = (near.try_clone().unwrap(), far.try_clone().unwrap());
                state.lock().unwrap().open.extend([ends.0, ends.1]);
                let (questions, answers) = (Arc::clone(&state), Arc::clone(&state));
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                std::thread::spawn(move || carry(near, far, true, &questions));
                std::thread::spawn(move || carry(back.0, back.1, false, &answers));
            }
        });
        line
    }

    pub fn address(&self) -> String {
        format!("bellwether://{}", self.at)
    }

    /// From now on it is so.
    pub fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// Closes every connection; new ones are let through.
    pub fn cut(&self) {
        for stream in self.state.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Carries whole frames one way, until one end is closed.
fn carry(mut from: TcpStream, mut to: TcpStream, is_question: bool, state: &Mutex<State>) {
    let mut again: Option<Vec<u8>> = None;
    let mut said = || -> io::Result<()> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic)?;
        to.write_all(&magic)?;
        loop {
            let frame = frame(&mut from)?;
            let mood = state.lock().unwrap().mood;
            match mood {
                Mood::Held => continue,
                Mood::Deaf if !is_question => continue,
                Mood::Late(by) => std::thread::sleep(by),
                _ => {}
            }
            to.write_all(&frame)?;
            if let Some(before) = again.take() {
                to.write_all(&before)?;
            }
            if is_question && mood == Mood::Twice {
                again = Some(frame);
            }
        }
    };
    let _ended = said();
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let len = u32::from_le_bytes(length);
    if len > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = length.to_vec();
    frame.resize(4 + len as usize, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}
