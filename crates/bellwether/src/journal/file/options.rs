//! Sizes and names a file journal is opened with.

use std::hash::{BuildHasher as _, Hasher as _};

use super::segment::UNIT_HEADER_BYTES;

/// Long writes are flushed piece by piece, so that they do not stand in the way of log flushes.
pub(super) const SYNC_EVERY_BYTES: u64 = 8 << 20;
/// No unit is smaller: a header and room for a few frames.
pub(super) const UNIT_BYTES_MIN: u32 = 2 * UNIT_HEADER_BYTES;
/// How many dead units are tolerated before live contents are carried forward.
pub(super) const SPARSE_UNITS_SLACK: u64 = 8;
/// How many copies of what was cut off are kept, the newest. They are there to be looked at after a
/// crash: of a process that crashes again and again the last few tell as much as all.
pub(super) const CUT_FILES_MAX: usize = 8;

/// Sizes and names a file journal is opened with.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Size of a unit. Bounds the largest frame, and how long a unit takes to fill with zeros.
    pub segment_bytes_max: u32,
    /// Size of a life's first unit where no blank one is at hand: small, because opening waits.
    pub segment_bytes_first: u32,
    /// A snapshot is not wanted before so many bytes were appended since the last.
    pub snapshot_after_bytes: u64,
    /// Room kept for the next snapshot beyond 1.25 times the last.
    pub snapshot_room_bytes: u64,
    /// Less free space than this on the disk, and senders are refused: settling needs some, too, and
    /// so do others. Zero is no limit: then they are refused when there is none left.
    pub free_bytes_min: u64,
    /// What the lock file says of this process.
    pub holder: String,
    /// Start value of the frames' checksums. Unknown to those who send messages, so that no body
    /// can pass for a frame when recovery looks for frames behind a torn one.
    pub salt: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        Self {
            segment_bytes_max: 16 << 20,
            segment_bytes_first: 1 << 20,
            snapshot_after_bytes: 64 << 20,
            snapshot_room_bytes: 4 << 20,
            free_bytes_min: 0,
            holder: format!("pid {}", std::process::id()),
            salt: chance as u32,
        }
    }
}

impl FileOptions {
    /// Sizes brought within what the format allows.
    pub(super) fn checked(mut self) -> Self {
        let align = |bytes: u32| bytes.max(UNIT_BYTES_MIN) & !4095;
        self.segment_bytes_max = align(self.segment_bytes_max);
        self.segment_bytes_first = align(self.segment_bytes_first).min(self.segment_bytes_max);
        self
    }
}
