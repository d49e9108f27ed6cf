//! One end of a connection: frames in, frames out, over any stream of bytes.
//!
//! What is to be sent is collected and written at once; so many small answers are one packet. While
//! nothing happens a pipe holds no buffers: ten thousand idle connections take little room.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::frame::{put_frame, take_frame_within, take_magic};
use super::{FRAME_BYTES_MAX, Frame, Kind, MAGIC, WireError};

/// Read at once, at most.
const READ_BYTES: usize = 32 * 1024;
/// A buffer that was needed once is not kept for good.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pipe<S> {
    stream: S,
    read: BytesMut,
    is_magic_read: bool,
    write: Vec<u8>,
    written: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Pipe<S> {
    /// Begins with the magic.
    pub(crate) fn new(stream: S) -> Self {
        let write = MAGIC.to_vec();
        Self { stream, read: BytesMut::new(), is_magic_read: false, write, written: 0 }
    }

    /// Reads what is there. How much; zero at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = tokio_util::io::poll_read_buf(Pin::new(&mut self.stream), cx, {
            self.read.reserve(READ_BYTES);
            &mut self.read
        });
        if read.is_pending() && self.read.is_empty() {
            self.read = BytesMut::new();
        }
        read
    }

    /// The next frame of what was read, if it is all there.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        self.next_frame_within(FRAME_BYTES_MAX)
    }

    /// The same, where a frame may have so many bytes.
    pub(crate) fn next_frame_within(&mut self, max: u32) -> Result<Option<Frame>, WireError> {
        if !self.is_magic_read {
            if !take_magic(&mut self.read)? {
                return Ok(None);
            }
            self.is_magic_read = true;
        }
        take_frame_within(&mut self.read, max)
    }

    /// Whether the front of a frame was read whose end was not. Only after all frames were taken.
    #[cfg(feature = "listen")]
    pub(crate) fn is_within_frame(&self) -> bool {
        !self.read.is_empty()
    }

    /// Where what is to be written is put.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.write
    }

    /// Puts a short frame there.
    pub(crate) fn put(&mut self, kind: Kind, put: impl FnOnce(&mut Vec<u8>)) {
        put_frame(kind, &mut self.write, put);
    }

    /// What is still to be written.
    #[cfg(feature = "listen")]
    pub(crate) fn backlog(&self) -> usize {
        self.write.len() - self.written
    }

    /// Writes as much as the stream takes; ready when that is all.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.write.len() {
            let rest = &self.write[self.written..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        self.written = 0;
        // Written twice in a row with nothing in between: nothing happens any more.
        if self.write.is_empty() || self.write.capacity() > KEPT_BYTES_MAX {
            self.write = Vec::new();
        }
        self.write.clear();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
