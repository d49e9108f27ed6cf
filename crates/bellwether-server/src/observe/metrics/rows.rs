//! What is told of one queue or election, and of the rest together.

use bellwether::stats::{Activity, LeaseStats, QueueStats};
use bellwether_core::outcome::{Counts, LeaseState, Totals};
use bellwether_core::time::WallTime;

/// The label that the rest share.
pub(super) const OTHER: &str = "_other";

/// Rows with names of their own, as many as there may be, and one for the rest.
#[derive(Debug)]
pub(super) struct Labelled<T> {
    names_max: usize,
    named: Vec<(String, T)>,
    other: Option<T>,
}

/// A row that can take in another one.
pub(super) trait Row: Clone {
    fn take_in(&mut self, other: &Self);
}

impl<T: Row> Labelled<T> {
    pub(super) fn new(names_max: usize) -> Self {
        Self { names_max, named: Vec::new(), other: None }
    }

    pub(super) fn add(&mut self, name: &str, row: &T) {
        // Somebody may have given the label of the rest as a name.
        if self.named.len() < self.names_max && name != OTHER {
            self.named.push((name.into(), row.clone()));
            return;
        }
        match &mut self.other {
            Some(other) => other.take_in(row),
            None => self.other = Some(row.clone()),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        let named = self.named.iter().map(|(name, row)| (name.as_str(), row));
        named.chain(self.other.iter().map(|row| (OTHER, row)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut T)> {
        let named = self.named.iter_mut().map(|(name, row)| (name.as_str(), row));
        named.chain(self.other.iter_mut().map(|row| (OTHER, row)))
    }
}

/// One queue.
#[derive(Clone, Debug)]
pub(super) struct QueueRow {
    pub(super) counts: Counts,
    pub(super) totals: Totals,
    pub(super) activity: Activity,
    pub(super) oldest_ready: Option<WallTime>,
    /// How many are in an outage.
    pub(super) outages: u64,
    /// Seconds until nothing waits if nothing more came in; `None` if that is not known yet.
    pub(super) drained_in: Option<f64>,
}

impl From<&QueueStats> for QueueRow {
    fn from(stats: &QueueStats) -> Self {
        Self {
            counts: stats.counts,
            totals: stats.totals,
            activity: stats.activity,
            oldest_ready: stats.oldest_ready,
            outages: stats.in_outage.into(),
            drained_in: None,
        }
    }
}

impl QueueRow {
    /// How many have left what waits, whichever way.
    pub(super) fn left(&self) -> u64 {
        let Totals { completed, expired, purged, forwarded, dead_lettered, .. } = self.totals;
        completed + expired + purged + forwarded + dead_lettered
    }
}

impl Row for QueueRow {
    fn take_in(&mut self, other: &Self) {
        // Taken apart, so that a field that is added is not forgotten here.
        let Counts { ready, locked, scheduled, deferred, dead_letters, size_bytes } = other.counts;
        let counts = &mut self.counts;
        counts.ready += ready;
        counts.locked += locked;
        counts.scheduled += scheduled;
        counts.deferred += deferred;
        counts.dead_letters += dead_letters;
        counts.size_bytes += size_bytes;
        let Totals {
            sent,
            duplicates,
            completed,
            expired,
            purged,
            cancelled,
            forwarded,
            dead_lettered,
        } = other.totals;
        let totals = &mut self.totals;
        totals.sent += sent;
        totals.duplicates += duplicates;
        totals.completed += completed;
        totals.expired += expired;
        totals.purged += purged;
        totals.cancelled += cancelled;
        totals.forwarded += forwarded;
        totals.dead_lettered += dead_lettered;
        self.activity += other.activity;
        self.outages += other.outages;
        self.oldest_ready = self.oldest_ready.into_iter().chain(other.oldest_ready).min();
    }
}

/// One election.
#[derive(Clone, Debug)]
pub(super) struct ElectionRow {
    /// The newest term and whether somebody leads; of the rest together neither means anything.
    pub(super) leader: Option<(u64, bool)>,
    pub(super) grants: u64,
    pub(super) waiting: u64,
}

impl From<&LeaseStats> for ElectionRow {
    fn from(stats: &LeaseStats) -> Self {
        let has_leader = matches!(stats.state, LeaseState::Leased | LeaseState::Breaking);
        let leader = Some((stats.term.0, has_leader));
        Self { leader, grants: stats.grants, waiting: stats.waiting }
    }
}

impl Row for ElectionRow {
    fn take_in(&mut self, other: &Self) {
        self.leader = None;
        self.grants += other.grants;
        self.waiting += other.waiting;
    }
}

/// How many leases are in which state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseCounts([u64; 5]);

impl LeaseCounts {
    const STATES: [(LeaseState, &'static str); 5] = [
        (LeaseState::Available, "available"),
        (LeaseState::Leased, "leased"),
        (LeaseState::Expired, "expired"),
        (LeaseState::Breaking, "breaking"),
        (LeaseState::Broken, "broken"),
    ];

    pub(super) fn add(&mut self, state: LeaseState) {
        let states = Self::STATES.iter().zip(&mut self.0);
        for ((known, _), count) in states {
            *count += u64::from(*known == state);
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::STATES.into_iter().map(|(_, word)| word).zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sent: u64, oldest: Option<u64>) -> QueueRow {
        QueueRow {
            counts: Counts::default(),
            totals: Totals { sent, ..Totals::default() },
            activity: Activity::default(),
            oldest_ready: oldest.map(WallTime),
            outages: 0,
            drained_in: None,
        }
    }

    #[test]
    fn no_more_names_than_may_be_and_nothing_is_left_out() {
        let mut rows = Labelled::new(2);
        rows.add("_other", &row(1, None));
        for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            rows.add(name, &row(10, Some(100 - index as u64)));
        }
        let told: Vec<_> = rows.iter().map(|(name, row)| (name, row.totals.sent)).collect();
        assert_eq!(told, [("a", 10), ("b", 10), ("_other", 21)]);
        let oldest = rows.iter().last().and_then(|(_, row)| row.oldest_ready);
        assert_eq!(oldest, Some(WallTime(97)));
    }
}
