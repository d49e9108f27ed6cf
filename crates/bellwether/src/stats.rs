//! What a store tells of itself, for whoever measures it.
//!
//! Everything here is counted anyway, or costs a few nanoseconds a flush. Looking waits for the
//! writer as a caller does, for microseconds; long lists come in slices.

use std::sync::atomic::{AtomicU64, Ordering};

use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseName, QueueId};

use crate::engine::Engine;
use crate::engine::local::Local;
use crate::error::Error;
use crate::handle::Bellwether;
use crate::journal::JournalFault;

pub use bellwether_core::stats::{Activity, LeaseStats, QueueStats};

/// How a store is.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Whether it works.
    pub health: Health,
    /// How many members are here.
    pub members: u64,
    /// What messages and ids take of the memory budget.
    pub memory_bytes: u64,
    /// How often the limits of the store were reached.
    pub refused: Refused,
    /// How long flushes took, in microseconds.
    pub flush_us: Histogram,
    /// How many answers waited for the same flush.
    pub batch: Histogram,
}

/// Requests that were refused because a limit was reached, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The memory budget.
    pub busy: u64,
    /// The disk.
    pub disk_full: u64,
    /// The size of a queue.
    pub queue_full: u64,
    /// The size of what was asked.
    pub too_large: u64,
    /// A number of things.
    pub too_many: u64,
}

impl Refused {
    pub(crate) fn count(&mut self, refusal: &Refusal) {
        let count = match refusal {
            Refusal::Busy { .. } => &mut self.busy,
            Refusal::DiskFull => &mut self.disk_full,
            Refusal::QueueFull { .. } => &mut self.queue_full,
            Refusal::TooLarge { .. } => &mut self.too_large,
            Refusal::TooMany { .. } => &mut self.too_many,
            _ => return,
        };
        *count += 1;
    }
}

/// Whether a store works.
#[derive(Clone, Debug)]
pub enum Health {
    /// It does.
    Sound,
    /// The disk is full, or nearly: senders are refused, receiving and settling go on while the reserve
    /// lasts, and everything resumes by itself when there is space.
    ShortOfSpace,
    /// The machinery failed: nothing more is answered in this life.
    Broken(JournalFault),
}

/// How often values were how large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Values up to this one, and above the one before: how many. Values above the last are only
    /// in `count`.
    pub buckets: Vec<(u64, u64)>,
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

/// Bounds are powers of two, from one to about eight million: microseconds up to eight seconds.
const BUCKETS: usize = 24;

/// Counts values into a [`Histogram`], from any thread.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    buckets: [AtomicU64; BUCKETS],
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl Tally {
    pub(crate) fn record(&self, value: u64) {
        let index = value.max(1).checked_next_power_of_two().map(u64::trailing_zeros);
        let bucket = index.and_then(|index| self.buckets.get(index as usize));
        bucket.unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> =
            counts.enumerate().map(|(index, count)| (1 << index, count)).collect();
        let count: u64 = buckets.iter().map(|(_, count)| count).sum();
        let count = count + self.beyond.load(Ordering::Relaxed);
        Histogram { buckets, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl Bellwether {
    /// How the store is, at this moment; only the process that has it open can say. Blocks while
    /// the writer is busy, which is microseconds unless the disk hangs.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.local()?.stats().ok_or(Error::Closed)
    }

    /// Until something has changed in the store, or whether it works, since this said `seen`: a
    /// number to ask with the next time; the first time zero. What is only looked at or renewed does
    /// not change, so whoever keeps an eye on a store need not look at one that nobody uses.
    pub async fn changed(&self, seen: u64) -> Result<u64, Error> {
        self.local()?.changed(seen).await.ok_or(Error::Closed)
    }

    /// Queues after `after` (zero for the first) in the order they were created, at most `max`.
    /// A thousand at a time keep the writer for about a tenth of a millisecond.
    pub fn queue_stats(&self, after: QueueId, max: usize) -> Result<Vec<QueueStats>, Error> {
        let seen = self.local()?.look(|shard| shard.ledger().queue_stats(after, max));
        seen.ok_or(Error::Closed)
    }

    /// Leases whose names come after `after`, at most `max`.
    pub fn lease_stats(
        &self,
        after: Option<&LeaseName>,
        max: usize,
    ) -> Result<Vec<LeaseStats>, Error> {
        let now = self.inner.clock.now();
        let seen = self.local()?.look(|shard| shard.ledger().lease_stats(now, after, max));
        seen.ok_or(Error::Closed)
    }

    fn local(&self) -> Result<&Local, Error> {
        match &self.inner.engine {
            Engine::Local { local, .. } => Ok(local),
            Engine::Remote(remote) => {
                let address = remote.options().address.to_string();
                let why = "a server's numbers are at its own /metrics, not on the wire".into();
                Err(Error::Address { address, why })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use bellwether_core::settings::QueueSettings;

    use super::*;

    #[tokio::test]
    async fn a_store_that_is_only_looked_at_does_not_change() {
        let bw = Bellwether::open("memory:").await.unwrap();
        let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
        let seen = bw.changed(0).await.unwrap();
        let (watched, mut cx) = (bw.clone(), Context::from_waker(Waker::noop()));
        let mut changed = pin!(watched.changed(seen));
        for _ in 0..10 {
            queue.info().await.unwrap();
            bw.stats().unwrap();
            assert!(changed.as_mut().poll(&mut cx).is_pending(), "nothing has changed");
        }
        queue.send("a coffee").await.unwrap();
        let seen = changed.await.unwrap();
        let closing = bw.clone();
        let (changed, ()) = tokio::join!(bw.changed(seen), closing.close());
        assert!(matches!(changed, Err(Error::Closed)));
    }

    #[test]
    fn a_value_is_counted_where_it_belongs() {
        let tally = Tally::default();
        for value in [0, 1, 2, 3, 4, 5, u64::from(u32::MAX), u64::MAX / 2] {
            tally.record(value);
        }
        let read = tally.read();
        assert_eq!(read.buckets[..4], [(1, 2), (2, 1), (4, 2), (8, 1)]);
        assert_eq!((read.count, read.buckets.len()), (8, BUCKETS));
        assert_eq!(read.sum, 15 + u64::from(u32::MAX) + u64::MAX / 2);
    }
}
