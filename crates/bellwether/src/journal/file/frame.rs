//! A frame: 32 bytes of header, the payload, zeros up to the next multiple of 8.
//!
//! ```text
//! 0      4            8           12     16        24         32
//! │magic │payload_len │generation │crc   │number   │flushed   │payload …
//! ```
//!
//! The checksum covers the header (without itself) and the payload, and starts from the unit's
//! salt. The generation is the low half of the unit's number.

use super::segment::UnitHeader;

pub(super) const FRAME_HEADER_BYTES: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"BWfr");

/// What tells the frames of one unit from all other bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameKey {
    generation: u32,
    salt: u32,
}

impl FrameKey {
    pub(super) fn of(unit: &UnitHeader) -> Self {
        Self { generation: unit.number as u32, salt: unit.salt }
    }
}

/// A frame that checked out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) number: u64,
    /// Highest frame known durable when this one was appended.
    pub(super) flushed: u64,
    pub(super) payload: &'a [u8],
}

/// Bytes a payload of `len` takes up in a unit.
pub(super) const fn frame_bytes(len: usize) -> usize {
    (FRAME_HEADER_BYTES + len).next_multiple_of(8)
}

/// What stands before the payload.
pub(super) fn header(
    key: FrameKey,
    number: u64,
    flushed: u64,
    payload: &[u8],
) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&key.generation.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[24..32].copy_from_slice(&flushed.to_le_bytes());
    let crc = checksum(key, &header, payload);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The zeros behind a payload of `len`.
pub(super) fn padding(len: usize) -> &'static [u8] {
    &[0; 8][..frame_bytes(len) - FRAME_HEADER_BYTES - len]
}

/// The sound frame at the start of `bytes`, if there is one.
pub(super) fn decode(bytes: &[u8], key: FrameKey) -> Option<Frame<'_>> {
    let len = claimed_len(bytes, key)?;
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>()?;
    let payload = rest.get(..len)?;
    if u32_at(header, 12) != checksum(key, header, payload) {
        return None;
    }
    Some(Frame { number: u64_at(header, 16), flushed: u64_at(header, 24), payload })
}

/// How long the payload of the frame that seems to start here says it is; `None` if nothing here
/// looks like a frame of this unit.
pub(super) fn claimed_len(bytes: &[u8], key: FrameKey) -> Option<usize> {
    let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    let ours = u32_at(header, 0) == MAGIC && u32_at(header, 8) == key.generation;
    ours.then(|| u32_at(header, 4) as usize)
}

fn checksum(key: FrameKey, header: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(key.salt, &header[..12]);
    let crc = crc32c::crc32c_append(crc, &header[16..]);
    crc32c::crc32c_append(crc, payload)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
