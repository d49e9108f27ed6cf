//! The input, line by line, read where nobody waits for it: whoever wants to stop while it is silent
//! is heard at once.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};

use tokio::sync::mpsc;

use super::failure::Failure;

/// So many bytes of lines are handed over at a time, or what there is without waiting.
const CHUNK_BYTES: usize = 64 * 1024;
/// So many times as much is read ahead.
const CHUNKS_AHEAD: usize = 4;

/// See the module.
pub(crate) struct Lines {
    what: String,
    chunks: mpsc::Receiver<io::Result<Vec<Vec<u8>>>>,
    /// Of the chunk that came last, those that nobody has asked for.
    left: VecDeque<Vec<u8>>,
}

impl Lines {
    /// The lines of `input`, which errors call `what`.
    pub(crate) fn of(what: &str, input: impl Read + Send + 'static) -> Result<Self, Failure> {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        // Nobody joins it: nothing wakes a thread that reads from a silent terminal, so it ends with
        // the process.
        std::thread::Builder::new()
            .name("input".into())
            .spawn(move || read_ahead(BufReader::with_capacity(CHUNK_BYTES, input), &sender))
            .map_err(|e| Failure::Internal(format!("cannot start a thread: {e}")))?;
        Ok(Self { what: what.into(), chunks, left: VecDeque::new() })
    }

    /// The next line, without its end; `None` after the last. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        while self.left.is_empty() {
            match self.chunks.recv().await {
                None => return Ok(None),
                Some(Ok(chunk)) => self.left = chunk.into(),
                Some(Err(error)) => {
                    return Err(Failure::Input { what: self.what.clone(), error });
                }
            }
        }
        Ok(self.left.pop_front())
    }
}

fn read_ahead(mut input: BufReader<impl Read>, chunks: &mpsc::Sender<io::Result<Vec<Vec<u8>>>>) {
    loop {
        let chunk = read_chunk(&mut input);
        if chunk.as_ref().is_ok_and(Vec::is_empty) {
            return;
        }
        let is_last = chunk.is_err();
        let nobody_listens = chunks.blocking_send(chunk).is_err();
        if is_last || nobody_listens {
            return;
        }
    }
}

/// At least one line unless there is none, and no more than can be had without waiting.
fn read_chunk(input: &mut BufReader<impl Read>) -> io::Result<Vec<Vec<u8>>> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while bytes < CHUNK_BYTES && (lines.is_empty() || input.buffer().contains(&b'\n')) {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        bytes += line.len() + 1;
        lines.push(line);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_as_they_are_whether_they_are_many_or_long() {
        let long = "x".repeat(3 * CHUNK_BYTES);
        let mut wanted: Vec<String> = (0..50_000).map(|number| format!("line {number}")).collect();
        wanted.extend([long, String::new(), "the last has no end".into()]);
        let input = io::Cursor::new(wanted.join("\n").into_bytes());
        let mut lines = Lines::of("the input", input).unwrap();
        for wanted in &wanted {
            assert_eq!(lines.next().await.unwrap().as_deref(), Some(wanted.as_bytes()));
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_input_that_cannot_be_read_is_named() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("torn out"))
            }
        }
        let mut lines = Lines::of("the input", Broken).unwrap();
        let failure = lines.next().await.unwrap_err().to_string();
        assert_eq!(failure, "cannot read the input: torn out");
    }
}
