//! What lies behind the first frame that does not check: a torn tail, or damage?

use super::frame::{self, FrameKey, claimed_len, frame_bytes};
use super::segment::UnitHeader;

/// Bytes that recovery leaves behind a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) unit: u64,
    pub(super) offset: u32,
    pub(super) end: u32,
}

/// What was found in one unit behind a given offset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Sound frames of this unit.
    pub(super) frames: u64,
    /// Highest frame any of them calls durable.
    pub(super) flushed: u64,
    /// Something at the offset itself looks like a frame of this unit.
    pub(super) torn_here: bool,
    /// End of the last byte that this life may have written.
    pub(super) end: usize,
}

impl Evidence {
    /// Looks for frames from `offset` on, at every multiple of 8: the first may have lost its
    /// header, and with it the way to the second.
    pub(super) fn look(bytes: &[u8], header: &UnitHeader, offset: u32, expected: u64) -> Self {
        let key = FrameKey::of(header);
        let mut found = Self::default();
        let mut at = offset as usize;
        if let Some(len) = bytes.get(at..).and_then(|b| claimed_len(b, key)) {
            found.torn_here = true;
            found.end = at.saturating_add(frame_bytes(len)).min(bytes.len());
        }
        while at < bytes.len() {
            match frame::decode(&bytes[at..], key) {
                Some(frame) if frame.number >= expected && frame.flushed < frame.number => {
                    found.frames += 1;
                    found.flushed = found.flushed.max(frame.flushed);
                    at += frame_bytes(frame.payload.len());
                    found.end = found.end.max(at);
                }
                _ => at += 8,
            }
        }
        if header.zero_filled {
            let last = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
            found.end = found.end.max(last);
        }
        found
    }

    pub(super) fn tail(&self, unit: u64, offset: u32) -> Option<Tail> {
        let end = self.end as u32;
        (end > offset).then_some(Tail { unit, offset, end })
    }
}
