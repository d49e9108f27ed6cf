//! Frames: how the stream is cut.
//!
//! ```text
//! 0        4      5
//! │length  │kind  │body …        length: of kind and body, little-endian
//! ```

use bytes::{Buf as _, Bytes, BytesMut};

use super::{MAGIC, WireError};

/// The longest frame, without its length.
pub const FRAME_BYTES_MAX: u32 = 64 * 1024;
const LENGTH_BYTES: usize = 4;

/// What a frame is. A kind keeps its meaning for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The client says who it is; the first frame.
    Hello = 1,
    /// The server says what it allows; its first frame.
    Welcome = 2,
    /// A call, or the last part of one.
    Ask = 3,
    /// A part of a call, to which more belong.
    AskPart = 4,
    /// An answer, or the last part of one.
    Answer = 5,
    /// A part of an answer, to which more belong.
    AnswerPart = 6,
    /// The client does not wait for this answer any more.
    Withdraw = 7,
    /// Asks for a [`Kind::Pong`] with the same body.
    Ping = 8,
    /// See [`Kind::Ping`].
    Pong = 9,
    /// The last frame: why the connection ends.
    Goodbye = 10,
}

impl Kind {
    fn of(byte: u8) -> Result<Self, WireError> {
        Ok(match byte {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Ask,
            4 => Self::AskPart,
            5 => Self::Answer,
            6 => Self::AnswerPart,
            7 => Self::Withdraw,
            8 => Self::Ping,
            9 => Self::Pong,
            10 => Self::Goodbye,
            other => return Err(WireError::Kind(other)),
        })
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// What stands in it.
    pub body: Bytes,
}

/// Takes the magic off the front of `read`. False if it is not all there yet.
pub fn take_magic(read: &mut BytesMut) -> Result<bool, WireError> {
    let len = read.len().min(MAGIC.len());
    if read[..len] != MAGIC[..len] {
        return Err(WireError::Magic);
    }
    if len < MAGIC.len() {
        return Ok(false);
    }
    read.advance(len);
    Ok(true)
}

/// Takes the next frame off the front of `read`, if it is all there.
pub fn take_frame(read: &mut BytesMut) -> Result<Option<Frame>, WireError> {
    take_frame_within(read, FRAME_BYTES_MAX)
}

/// The same, where a frame may have so many bytes; never more than [`FRAME_BYTES_MAX`].
pub fn take_frame_within(read: &mut BytesMut, max: u32) -> Result<Option<Frame>, WireError> {
    let max = max.min(FRAME_BYTES_MAX);
    let Some((length, rest)) = read.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let len = u32::from_le_bytes(*length);
    if len > max {
        return Err(WireError::TooLong { len, max });
    }
    // Before the rest is there: nobody waits for a body that will not be understood.
    let Some(kind) = rest.first() else {
        return if len == 0 { Err(WireError::Kind(0)) } else { Ok(None) };
    };
    let kind = if len == 0 { Err(WireError::Kind(0)) } else { Kind::of(*kind) }?;
    if rest.len() < len as usize {
        return Ok(None);
    }
    read.advance(LENGTH_BYTES + 1);
    Ok(Some(Frame { kind, body: read.split_to(len as usize - 1).freeze() }))
}

/// Appends a frame whose body `put` appends. The body must be short enough for one frame.
pub fn put_frame(kind: Kind, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    begin_frame(kind, out);
    put(out);
    end_frame(start, out);
}

/// Appends the front of a frame whose length is not known yet.
pub(super) fn begin_frame(kind: Kind, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0, 0, kind as u8]);
}

/// The frame that begins at `start` is whole. Its body must be short enough for one frame.
pub(super) fn end_frame(start: usize, out: &mut [u8]) {
    let len = (out.len() - start - LENGTH_BYTES) as u32;
    assert!(len <= FRAME_BYTES_MAX, "what does not fit into one frame travels in parts");
    out[start..start + LENGTH_BYTES].copy_from_slice(&len.to_le_bytes());
}
