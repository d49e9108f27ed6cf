//! Reads one unit's frames in pieces.

use std::io;

use super::disk::read_full;
use super::frame::{FRAME_HEADER_BYTES, FrameKey, claimed_len, decode, frame_bytes};
use super::segment::{UNIT_HEADER_BYTES, Unit};
use crate::journal::{FrameNumber, Prepared};

/// Visits the frames from `offset` on (0: from the start), about `bytes_max` of them. Stops at the
/// first that does not check, which is where the unit ends or where it was cut.
pub(super) fn scan(
    unit: &Unit,
    offset: u32,
    bytes_max: usize,
    visit: &mut dyn FnMut(Prepared, &[u8]),
) -> io::Result<Option<u32>> {
    let key = FrameKey::of(&unit.header);
    let offset = offset.max(UNIT_HEADER_BYTES);
    let left = unit.header.file_bytes.saturating_sub(offset) as usize;
    let mut window = vec![0; bytes_max.clamp(FRAME_HEADER_BYTES, left.max(FRAME_HEADER_BYTES))];
    let n = read_full(&*unit.file, &mut window, u64::from(offset))?;
    window.truncate(n);
    if let Some(len) = claimed_len(&window, key) {
        // A single frame may be longer than what was asked for.
        let whole = frame_bytes(len).min(left);
        if whole > window.len() {
            window.resize(whole, 0);
            let n = read_full(&*unit.file, &mut window, u64::from(offset))?;
            window.truncate(n);
        }
    }
    let mut at = 0;
    while let Some(frame) = decode(&window[at..], key) {
        if !frame.payload.is_empty() {
            let payload_offset = offset + (at + FRAME_HEADER_BYTES) as u32;
            let number = FrameNumber(frame.number);
            visit(Prepared { number, unit: unit.header.number, payload_offset }, frame.payload);
        }
        at = (at + frame_bytes(frame.payload.len())).min(window.len());
    }
    // A frame that begins in the window but does not end in it is left for the next call.
    let more = at > 0 && at < left && (window.len() < left || at == window.len());
    Ok(more.then(|| offset + at as u32))
}
