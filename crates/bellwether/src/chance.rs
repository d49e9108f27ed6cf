//! Chance for ids and jitter, from the seed of the standard library's hash maps: unpredictable
//! enough to be unique, never used for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn random_u128() -> u128 {
    // One hasher's keys differ from the next one's by a counter only; the process id and a second
    // finish keep two processes and two calls apart.
    let state = RandomState::new();
    let mut high = state.build_hasher();
    high.write_u32(std::process::id());
    let mut low = state.build_hasher();
    low.write_u64(high.finish());
    (u128::from(high.finish()) << 64) | u128::from(low.finish())
}
