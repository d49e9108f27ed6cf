//! What all who ask may have unanswered together.
//!
//! A limit for each connection is none for all of them: ten thousand within theirs are too many. So
//! every connection, and whatever else takes asks in, has a share of one budget, and an ask for which
//! there is no room is refused before it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of one share so much is not counted: few small asks cost no more than an idle connection does.
const FREE_BYTES: usize = 16 * 1024;
/// Shares grow and shrink by so much, so that not every ask touches what all have in common.
const STEP_BYTES: u64 = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// What one has of it; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    taken: AtomicU64,
}

impl Budget {
    /// Of so many bytes.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { bytes_max, taken, refused })
    }

    /// A share, of nothing yet.
    pub fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), taken: AtomicU64::new(0) }
    }

    /// How many bytes there may be.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// How many there are now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How often there was no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.bytes_max {
            return true;
        }
        self.give_back(bytes);
        self.refused.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Share {
    /// Makes it one of so many bytes. False if there is no room for that: then it is what it was.
    pub fn hold(&self, bytes: usize) -> bool {
        let wanted = steps(bytes);
        // One share is one task's: nobody changes it in between.
        let taken = self.taken.load(Ordering::Relaxed);
        if wanted > taken && !self.budget.take(wanted - taken) {
            return false;
        }
        if wanted < taken {
            self.budget.give_back(taken - wanted);
        }
        self.taken.store(wanted, Ordering::Relaxed);
        true
    }
}

fn steps(bytes: usize) -> u64 {
    if bytes <= FREE_BYTES {
        0
    } else {
        (bytes as u64).saturating_add(STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(*self.taken.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_is_missing_for_others_until_it_is_given_back() {
        let budget = Budget::new(256 * 1024);
        let (first, second) = (budget.share(), budget.share());
        assert!(first.hold(100_000) && second.hold(100_000));
        assert_eq!(budget.taken(), 256 * 1024);
        assert!(!second.hold(200_000), "there is no room");
        assert!(second.hold(131_072) && second.hold(70_000), "it is what it was");
        assert!(budget.share().hold(FREE_BYTES), "small ones are always welcome");
        assert!(first.hold(0) && second.hold(196_608));
        drop(second);
        assert_eq!((budget.taken(), budget.refused()), (0, 1));
    }
}
