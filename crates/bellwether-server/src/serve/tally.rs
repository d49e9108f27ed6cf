//! How often each limit of a door was hit.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter for each reason.
#[derive(Debug)]
pub(crate) struct Tally<const N: usize> {
    reasons: [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> Tally<N> {
    pub(super) const fn new(reasons: [&'static str; N]) -> Self {
        Self { reasons, counts: [const { AtomicU64::new(0) }; N] }
    }

    /// Once more, for this reason.
    pub(crate) fn count(&self, reason: &'static str) {
        let at = self.reasons.iter().position(|known| *known == reason);
        let at = at.expect("a reason is counted that the tally was made with");
        self.counts[at].fetch_add(1, Ordering::Relaxed);
    }

    /// How often, by reason.
    pub(crate) fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        self.reasons.into_iter().zip(counts)
    }
}
