//! How much of the disk is to stay free.

use crate::config::Config;

/// Beyond this nobody needs more: what is left is for those who settle, and for other programs.
const FREE_BYTES_MIN_MAX: u64 = 1 << 30;
/// One part in so many of the disk.
const PARTS: u64 = 20;

/// What is to stay free: what was set, or what the disk is large enough for.
pub(crate) fn free_bytes_min(config: &Config) -> u64 {
    match config.disk_free_bytes_min.get() {
        0 => look(config).map_or(0, |disk| (disk.bytes / PARTS).min(FREE_BYTES_MIN_MAX)),
        bytes => bytes,
    }
}

/// What is free.
pub(crate) fn free_bytes(config: &Config) -> Option<u64> {
    look(config).map(|disk| disk.free_bytes)
}

struct Disk {
    bytes: u64,
    free_bytes: u64,
}

/// The disk on which the folder of the store is, if it has one.
fn look(config: &Config) -> Option<Disk> {
    if config.memory {
        return None;
    }
    let found = rustix::fs::statvfs(&config.data).ok()?;
    let bytes_of = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Disk { bytes: bytes_of(found.f_blocks), free_bytes: bytes_of(found.f_bavail) })
}
