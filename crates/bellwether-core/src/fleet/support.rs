//! The majority rule: support given, and support counted on.
//!
//! It is given from when the ask was *heard* for 105 % of the silence, and counted on from before
//! the ask was *sent* for 80 %: on any one supporter two claims never count at the same moment.

use std::collections::{BTreeMap, VecDeque};

use super::{Config, FleetId};
use crate::time::BootTime;

/// Asks whose answers may still come; older ones are not worth anything any more.
const ASKS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Support {
    /// How many make a majority; none without the rule.
    majority: Option<usize>,
    promise_ms: u64,
    trust_ms: u64,
    promise: Option<Promise>,
    /// Our asks: number of the beat, and when it was sent.
    asks: VecDeque<(u64, BootTime)>,
    /// Until when each supporter of ours is counted on.
    counted: BTreeMap<FleetId, BootTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    to: FleetId,
    life: u64,
    until: BootTime,
}

impl Support {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            majority: config.majority_of.map(|ids| ids as usize / 2 + 1),
            promise_ms: config.promise_ms(),
            trust_ms: config.trust_ms(),
            promise: None,
            asks: VecDeque::new(),
            counted: BTreeMap::new(),
        }
    }

    /// How many a leader needs, itself included; none without the rule.
    pub(super) fn majority(&self) -> Option<usize> {
        self.majority
    }

    /// Supports a claim, unless another one is supported.
    pub(super) fn promise(&mut self, now: BootTime, to: FleetId, life: u64) -> bool {
        #[cfg(not(planted_bug = "support_two"))]
        if self.promise.is_some_and(|promise| promise.to != to && now < promise.until) {
            return false;
        }
        self.promise = Some(Promise { to, life, until: now.plus_ms(self.promise_ms) });
        true
    }

    /// Whoever was supported claims nothing any more, by its own word.
    pub(super) fn release(&mut self, to: FleetId, life: u64) {
        self.promise.take_if(|promise| promise.to == to && promise.life == life);
    }

    /// Beat `count` asks everybody for support, ourselves first.
    pub(super) fn ask(&mut self, now: BootTime, count: u64, me: FleetId, life: u64) {
        if self.asks.len() >= ASKS_MAX {
            self.asks.pop_front();
        }
        self.asks.push_back((count, now));
        if self.promise(now, me, life) {
            self.counted.insert(me, now.plus_ms(self.trust_ms));
        }
    }

    /// A member supports what was asked in beat `count`.
    pub(super) fn given(&mut self, by: FleetId, count: u64) {
        let Some((_, sent_at)) = self.asks.iter().find(|(ask, _)| *ask == count) else { return };
        let until = sent_at.plus_ms(self.trust_ms);
        let counted = self.counted.entry(by).or_insert(until);
        *counted = until.max(*counted);
    }

    /// Until when a majority is counted on; zero if it is not.
    pub(super) fn trusted_until(&self) -> BootTime {
        let Some(majority) = self.majority else { return BootTime::NEVER };
        let mut until: Vec<BootTime> = self.counted.values().copied().collect();
        until.sort_unstable_by(|a, b| b.cmp(a));
        until.get(majority - 1).copied().unwrap_or_default()
    }

    /// The claim is given up: support for it does not count for the next one. What we promised to
    /// ourselves runs out like any other promise, because the work may still be ending.
    pub(super) fn give_up(&mut self) {
        self.asks.clear();
        self.counted.clear();
    }
}
