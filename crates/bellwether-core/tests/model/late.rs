//! The ledger alone.

pub fn lag(_seed: u64) {}
