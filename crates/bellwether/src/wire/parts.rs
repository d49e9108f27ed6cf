//! Parts: what is too long for one frame.
//!
//! ```text
//! body of AskPart, Ask, AnswerPart, Answer:   number of the ask, then a piece of the whole
//! ```
//!
//! Pieces of one ask come in order; frames of others may stand between them. The last piece is in
//! a frame of the kind without `Part`.

use bellwether_core::codec::{Reader, put_number};
use bytes::{Buf as _, Bytes, BytesMut};

use super::frame::{begin_frame, end_frame, put_frame};
use super::numbered::Numbered;
use super::{FRAME_BYTES_MAX, Frame, Kind, WireError};

/// A number takes at most ten bytes, a kind one.
const PIECE_BYTES_MAX: usize = FRAME_BYTES_MAX as usize - 11;

/// What one that is not whole yet takes beside its bytes.
const UNFINISHED_BYTES: usize = 64;

/// Appends an ask or answer that `put` appends, in as many frames as it takes; how long it is.
pub fn put_whole(kind: Kind, ask: u64, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    begin_frame(kind, out);
    put_number(ask, out);
    let whole_at = out.len();
    put(out);
    let len = out.len() - whole_at;
    if len <= PIECE_BYTES_MAX {
        end_frame(start, out);
    } else {
        let whole = out.split_off(whole_at);
        out.truncate(start);
        put_parts(kind, ask, &whole, out);
    }
    len
}

/// Appends a whole ask or answer, in as many frames as it takes.
pub fn put_parts(kind: Kind, ask: u64, whole: &[u8], out: &mut Vec<u8>) {
    let part = if kind == Kind::Ask { Kind::AskPart } else { Kind::AnswerPart };
    let mut rest = whole;
    while rest.len() > PIECE_BYTES_MAX {
        let (piece, after) = rest.split_at(PIECE_BYTES_MAX);
        put_piece(part, ask, piece, out);
        rest = after;
    }
    put_piece(kind, ask, rest, out);
}

fn put_piece(kind: Kind, ask: u64, piece: &[u8], out: &mut Vec<u8>) {
    put_frame(kind, out, |out| {
        put_number(ask, out);
        out.extend_from_slice(piece);
    });
}

/// Puts asks or answers together again.
#[derive(Debug)]
pub struct Parts {
    unfinished: Numbered<BytesMut>,
    bytes: usize,
    bytes_max: usize,
}

impl Parts {
    /// Holds at most so many bytes of what is not whole yet.
    pub fn new(bytes_max: usize) -> Self {
        Self { unfinished: Numbered::default(), bytes: 0, bytes_max }
    }

    /// Takes a frame of an ask or answer; its number and the whole of it, once it is whole.
    pub fn take(&mut self, frame: Frame) -> Result<Option<(u64, Bytes)>, WireError> {
        let Frame { kind, mut body } = frame;
        let mut reader = Reader::new(&body);
        let ask = reader.number().map_err(WireError::of("a part"))?;
        let head = reader.position();
        body.advance(head);
        if matches!(kind, Kind::AskPart | Kind::AnswerPart) {
            let is_new = !self.unfinished.contains_key(&ask);
            self.bytes += body.len() + if is_new { UNFINISHED_BYTES } else { 0 };
            if self.bytes > self.bytes_max {
                return Err(WireError::Parts { max: self.bytes_max });
            }
            self.unfinished.entry(ask).or_default().extend_from_slice(&body);
            return Ok(None);
        }
        let Some(mut whole) = self.unfinished.remove(&ask) else { return Ok(Some((ask, body))) };
        self.bytes -= whole.len() + UNFINISHED_BYTES;
        whole.extend_from_slice(&body);
        Ok(Some((ask, whole.freeze())))
    }

    /// Bytes that are held of what is not whole yet.
    #[cfg(feature = "listen")]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What has come of an ask is thrown away.
    #[cfg(feature = "listen")]
    pub(crate) fn forget(&mut self, ask: u64) {
        if let Some(unfinished) = self.unfinished.remove(&ask) {
            self.bytes -= unfinished.len() + UNFINISHED_BYTES;
        }
    }

    /// Nothing is kept for asks to come.
    #[cfg(feature = "listen")]
    pub(crate) fn give_back_room(&mut self) {
        self.unfinished.shrink_to_fit();
    }
}
