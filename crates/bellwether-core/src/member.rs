//! Members: processes that take part, and what they believe they hold.

use crate::name::{LeaseName, Term};

/// Digest of a set of held leases, independent of order (FNV-1a per lease, summed).
pub fn digest<'a>(held: impl IntoIterator<Item = (&'a LeaseName, Term)>) -> u64 {
    held.into_iter().fold(0, |sum, (name, term)| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.as_str().bytes().chain([0]).chain(term.0.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        sum.wrapping_add(hash)
    })
}
