//! The store that the child works on, as the child and the one who kills it both know it.

use std::fmt::Write as _;

use bellwether::Open;
use bellwether::core::chance::Chance;
use bellwether::journal::file::FileOptions;

pub(crate) const QUEUE: &str = "orders";
pub(crate) const SESSIONS: &str = "sessions";

/// Small units and early snapshots: all that a long life brings happens in a short one.
pub(crate) fn open(folder: &str) -> Open {
    let options = FileOptions {
        segment_bytes_max: 256 << 10,
        segment_bytes_first: 64 << 10,
        snapshot_after_bytes: 512 << 10,
        snapshot_room_bytes: 64 << 10,
        ..FileOptions::default()
    };
    Open::new(format!("file:{folder}")).file_options(options)
}

/// The body of a message, from its id: long enough to be torn.
pub(crate) fn body_of(id: &str) -> String {
    let seed = id.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
    let mut chance = Chance::new(seed);
    let words = 1 + chance.below(200);
    let mut body = id.to_owned();
    for _ in 0..words {
        write!(body, " {:016x}", chance.bits()).unwrap();
    }
    body
}
