//! One block of a backup, as bytes.

use bellwether_core::codec::{BadBytes, Reader, put_number, put_text};
use bellwether_core::time::WallTime;

use super::{FORMAT, Head};

pub(super) const MAGIC: [u8; 8] = *b"BWback\r\n";
pub(super) const START_BYTES: usize = 12;
/// Before the kind.
pub(super) const BLOCK_HEADER_BYTES: usize = 16;

/// What a block is. A kind keeps its meaning for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// What the backup says of itself; the first.
    Head = 1,
    /// A row of changes, each content behind its change.
    State = 2,
    /// The number of a frame, 8 bytes, and its payload.
    Frame = 3,
    /// The number of the last frame that counts, 8 bytes; the last.
    End = 4,
}

impl Kind {
    pub(super) fn of(byte: u8) -> Option<Self> {
        [Self::Head, Self::State, Self::Frame, Self::End].into_iter().find(|k| *k as u8 == byte)
    }
}

/// How every backup begins.
pub(super) fn start() -> [u8; START_BYTES] {
    let mut start = [0; START_BYTES];
    start[..8].copy_from_slice(&MAGIC);
    start[8..].copy_from_slice(&FORMAT.to_le_bytes());
    start
}

/// Appends a block whose bytes are those of all parts.
pub(super) fn put_block(index: u64, kind: Kind, parts: &[&[u8]], out: &mut Vec<u8>) {
    let len = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let len = u32::try_from(len).expect("a block is a step of a backup, and that is bounded");
    let crc =
        checksum(len, index, std::iter::once([kind as u8].as_slice()).chain(parts.iter().copied()));
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.push(kind as u8);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Over the length, the index and the bytes.
pub(super) fn checksum<'a>(len: u32, index: u64, parts: impl Iterator<Item = &'a [u8]>) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&len.to_le_bytes()), &index.to_le_bytes());
    parts.fold(crc, crc32c::crc32c_append)
}

impl Head {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.taken_at.0, self.frame, self.bytes] {
            put_number(number, out);
        }
        put_text(&self.program, out);
    }

    /// A later program of the same format may append fields; these are not read.
    pub(super) fn get(bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut r = Reader::new(bytes);
        let (taken_at, frame, bytes) = (WallTime(r.number()?), r.number()?, r.number()?);
        Ok(Self { taken_at, frame, bytes, program: r.text()?.to_owned() })
    }
}
