//! What a look at the ledger shows from outside, for whoever measures it.
//!
//! Reading changes nothing and is done in slices ([`crate::ledger::Ledger::queue_stats`]), so that
//! a hundred thousand queues do not hold up the writer.

use crate::message::Reason;
use crate::name::{LeaseName, QueueId, QueueName, Term};
use crate::outcome::{Counts, LeaseState, Totals};
use crate::time::WallTime;

/// What has happened in a queue in this life of the store, dead letters included. Unlike
/// [`Totals`] it is not journaled: it starts at zero when the store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Handed out.
    pub delivered: u64,
    /// Given back by a handler that failed.
    pub abandoned: u64,
    /// Given back unused.
    pub released: u64,
    /// Set aside by number.
    pub deferred: u64,
    /// Locks that were started anew.
    pub locks_renewed: u64,
    /// Locks that ran out: their receivers are taken for dead.
    pub locks_lost: u64,
    dead_lettered: [u64; Reason::ALL.len()],
    /// Completed, by how many deliveries it took; the last is for what took more.
    completed: [u64; DELIVERIES.len() + 1],
    completed_deliveries: u64,
}

/// Up to so many deliveries are told apart.
const DELIVERIES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

impl Activity {
    /// Moved to the dead letters, by reason.
    pub fn dead_lettered(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.dead_lettered)
    }

    /// Completed after at most so many deliveries, and more than the number before; `None` is for
    /// what took more than all of these.
    pub fn completed(&self) -> impl Iterator<Item = (Option<u32>, u64)> {
        DELIVERIES.into_iter().map(Some).chain([None]).zip(self.completed)
    }

    /// All deliveries together of what was completed.
    pub fn completed_deliveries(&self) -> u64 {
        self.completed_deliveries
    }

    pub(crate) fn count_completed(&mut self, deliveries: u32) {
        let index = DELIVERIES.partition_point(|max| *max < deliveries);
        if let Some(count) = self.completed.get_mut(index) {
            *count += 1;
        }
        self.completed_deliveries += u64::from(deliveries);
    }

    pub(crate) fn count_dead_letter(&mut self, reason: Reason) {
        let index = Reason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = index.and_then(|index| self.dead_lettered.get_mut(index)) {
            *count += 1;
        }
    }
}

impl std::ops::AddAssign for Activity {
    fn add_assign(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.abandoned += other.abandoned;
        self.released += other.released;
        self.deferred += other.deferred;
        self.locks_renewed += other.locks_renewed;
        self.locks_lost += other.locks_lost;
        for (count, more) in self.dead_lettered.iter_mut().zip(other.dead_lettered) {
            *count += more;
        }
        for (count, more) in self.completed.iter_mut().zip(other.completed) {
            *count += more;
        }
        self.completed_deliveries += other.completed_deliveries;
    }
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Its number; the older the smaller.
    pub id: QueueId,
    /// Its name.
    pub name: QueueName,
    /// What is in it.
    pub counts: Counts,
    /// What has passed through it since it was created.
    pub totals: Totals,
    /// What has happened in it in this life.
    pub activity: Activity,
    /// When the oldest message that waits for a receiver was enqueued; `None` if none does, or if
    /// it stands behind very many that wait for something else.
    pub oldest_ready: Option<WallTime>,
    /// It has paused itself because its messages fail in a row.
    pub in_outage: bool,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStats {
    /// Its name.
    pub name: LeaseName,
    /// In which of the five states it is.
    pub state: LeaseState,
    /// The newest term.
    pub term: Term,
    /// How often it was granted in this life.
    pub grants: u64,
    /// How many wait for it.
    pub waiting: u64,
}
