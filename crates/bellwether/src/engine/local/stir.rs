//! Tells whoever waits for it that the store is not as it was.
//!
//! So nobody has to look again and again at a store that nobody uses.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::engine::ask::Asker;
use crate::engine::shard::Shard;

const CLOSED: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Stir {
    /// Grows when something has changed.
    count: AtomicU64,
    bell: Notify,
}

/// How a store is: what it holds, in a number, and whether it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    changes: u64,
    is_short_of_space: bool,
    is_broken: bool,
}

impl Condition {
    pub(super) fn of(shard: &Shard<Asker>) -> Self {
        Self {
            changes: shard.changes(),
            is_short_of_space: shard.is_short_of_space(),
            is_broken: shard.fault().is_some(),
        }
    }
}

impl Default for Stir {
    fn default() -> Self {
        // Zero is for those who have seen nothing.
        Self { count: AtomicU64::new(1), bell: Notify::new() }
    }
}

impl Stir {
    /// Something has changed.
    pub(super) fn ring(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    /// Nothing will change any more.
    pub(super) fn close(&self) {
        self.count.store(CLOSED, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    /// Until the count is another one than `seen`; which. `None` when it was closed.
    pub(super) async fn after(&self, seen: u64) -> Option<u64> {
        loop {
            // Before the look: from here on it hears the bell.
            let rung = self.bell.notified();
            match self.count.load(Ordering::SeqCst) {
                CLOSED => return None,
                count if count != seen => return Some(count),
                _ => rung.await,
            }
        }
    }
}
