//! What a guardian hears: words, as they come or all that are left.

use std::io;

use tokio::net::UnixStream;

use super::word::{LINE_BYTES_MAX, Word};

/// See the module.
#[derive(Debug)]
pub(super) struct Ear {
    socket: UnixStream,
    bytes: Vec<u8>,
    /// Nobody is at the other end, or nobody who makes sense.
    pub(super) is_over: bool,
}

impl Ear {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, bytes: Vec::new(), is_over: false }
    }

    /// The words that have come, at least one unless it is over. Safe to drop and call again.
    pub(super) async fn hear(&mut self) -> Vec<Word> {
        while !self.is_over {
            if self.socket.readable().await.is_err() {
                self.is_over = true;
            }
            let words = self.rest();
            if !words.is_empty() {
                return words;
            }
        }
        Vec::new()
    }

    /// What was said and not yet heard. Whoever has died has said it before.
    pub(super) fn rest(&mut self) -> Vec<Word> {
        let mut chunk = [0; 4096];
        while !self.is_over {
            match self.socket.try_read(&mut chunk) {
                Ok(0) => self.is_over = true,
                Ok(bytes) => self.bytes.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_over = true,
            }
        }
        let Some(end) = self.bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.is_over |= self.bytes.len() > LINE_BYTES_MAX;
            return Vec::new();
        };
        let lines: Vec<u8> = self.bytes.drain(..=end).collect();
        String::from_utf8_lossy(&lines).lines().filter_map(Word::parse).collect()
    }
}
