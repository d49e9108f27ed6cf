//! A look from outside, in slices.

use std::ops::Bound::{Excluded, Unbounded};

use crate::message::State;
use crate::name::{LeaseName, QueueId};
use crate::queue::Queue;
use crate::stats::{LeaseStats, QueueStats};
use crate::time::{Now, WallTime};

use super::Ledger;

/// How many messages are looked at in search of the oldest one that is ready.
const OLDEST_LOOKS_MAX: usize = 1024;

impl Ledger {
    /// Queues after `after` in the order they were created, at most `max`.
    pub fn queue_stats(&self, after: QueueId, max: usize) -> Vec<QueueStats> {
        let queues = self.queues.range((Excluded(after), Unbounded)).take(max);
        queues.map(|(_, queue)| queue.stats()).collect()
    }

    /// Leases whose names come after `after`, at most `max`.
    pub fn lease_stats(&self, now: Now, after: Option<&LeaseName>, max: usize) -> Vec<LeaseStats> {
        let from = after.map_or(Unbounded, Excluded);
        let names = self.lease_names.range::<LeaseName, _>((from, Unbounded)).take(max);
        names
            .filter_map(|(name, index)| {
                let entry = self.leases.get(index)?;
                let at = self.lease_at(now, name);
                Some(LeaseStats {
                    name: name.clone(),
                    state: at.state(),
                    term: entry.records().map(|(_, lease)| lease.term).max().unwrap_or_default(),
                    grants: entry.grants,
                    waiting: entry.line.len() as u64,
                })
            })
            .collect()
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// How many names have a lease, or had one.
    pub fn lease_count(&self) -> usize {
        self.lease_from((0, 0)).filter(|((_, slot), ..)| *slot == 0).count()
    }

    /// How many members are here.
    pub fn members_present(&self) -> usize {
        self.members.values().filter(|member| member.gone_at.is_none()).count()
    }
}

impl Queue {
    fn stats(&self) -> QueueStats {
        let info = self.info();
        QueueStats {
            id: self.id,
            name: info.name,
            counts: info.counts,
            totals: info.totals,
            activity: self.activity,
            oldest_ready: self.oldest_ready(),
            in_outage: self.outage.is_on(),
        }
    }

    fn oldest_ready(&self) -> Option<WallTime> {
        if self.main.tally.ready == 0 {
            return None;
        }
        let mut messages = self.main.messages.range(0).take(OLDEST_LOOKS_MAX);
        let first = messages.find(|(_, message)| message.standing.state == State::Ready);
        let first = first.map(|(_, message)| message).or_else(|| {
            // Behind a long row of locked or set-aside ones: the lane knows, unless its first name
            // is that of a message that left.
            let message = self.main.messages.get(self.main.ready.first(0)?)?;
            (message.standing.state == State::Ready).then_some(message)
        });
        first.map(|message| message.enqueued_at)
    }
}
