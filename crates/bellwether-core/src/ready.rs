//! The ready set: messages that wait for a receiver, in lanes.
//!
//! A lane is a row of messages that are given out in the order of their numbers: those of one
//! session, or of one key and priority, or all that have neither. Messages mostly arrive in order,
//! so a lane keeps runs of consecutive numbers: ten million waiting messages in one lane are one
//! run. A message that comes back after a delivery returns to its place.
//!
//! Lane zero is what whoever receives without a session receives from. While some message there
//! has a rank of its own, it is many lanes ([`Bands`]); else it is one.
//!
//! A lane may name a message that has left in the meantime (expired, purged): whoever picks looks
//! at the record and picks again. It never names one twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::bands::Bands;
use crate::message::Message;
use crate::table::Table;

/// Up to so many names are looked at to count those that are of the present.
const COUNTED_MAX: u64 = 1024;

/// Which lane; zero is the lane of messages without a session.
pub(crate) type LaneId = u32;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// Lane zero, which is there even if it is empty.
    common: Lane,
    sessions: BTreeMap<LaneId, Lane>,
    /// What lane zero is made of instead, while some message has a rank of its own.
    pub(crate) bands: Option<Box<Bands>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Runs of consecutive numbers (first, how many), growing.
    runs: VecDeque<(u64, u32)>,
    /// Numbers that came back, or came late.
    returned: BTreeSet<u64>,
}

impl Ready {
    /// Puts a message into its lane.
    pub(crate) fn insert(&mut self, lane: LaneId, sequence: u64) {
        let row = match lane {
            0 => &mut self.common,
            _ => self.sessions.entry(lane).or_default(),
        };
        row.insert(sequence);
    }

    /// Takes the first message out of a lane.
    pub(crate) fn pop(&mut self, lane: LaneId) -> Option<u64> {
        if lane == 0 {
            return self.common.pop();
        }
        let row = self.sessions.get_mut(&lane)?;
        let first = row.pop();
        if row.is_empty() {
            self.sessions.remove(&lane);
        }
        first
    }

    /// From now on lane zero is many; so many of its messages are ready.
    pub(crate) fn divide(&mut self, ready: u64, messages: &Table<Message>) -> &mut Bands {
        let common = &mut self.common;
        self.bands
            .get_or_insert_with(|| Box::new(Bands::new(std::mem::take(common), ready, messages)))
    }

    /// Lane zero is one again, if nothing in it has a rank of its own any more.
    pub(crate) fn unite(&mut self) {
        if let Some(common) = self.bands.as_mut().and_then(|bands| bands.dissolve()) {
            self.common = common;
            self.bands = None;
        }
    }

    /// The first message of a lane that is one.
    pub(crate) fn first(&self, lane: LaneId) -> Option<u64> {
        if lane == 0 { self.common.first() } else { self.sessions.get(&lane)?.first() }
    }
}

impl Lane {
    pub(crate) fn insert(&mut self, sequence: u64) {
        match self.runs.back_mut() {
            Some((first, count)) if sequence < *first + u64::from(*count) => {
                self.returned.insert(sequence);
            }
            Some((first, count)) if sequence == *first + u64::from(*count) && *count < u32::MAX => {
                *count += 1;
            }
            _ => self.runs.push_back((sequence, 1)),
        }
    }

    pub(crate) fn first(&self) -> Option<u64> {
        let fresh = self.runs.front().map(|(first, _)| *first);
        let returned = self.returned.first().copied();
        match (fresh, returned) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The first that is wanted; those before it go.
    pub(crate) fn first_that(&mut self, is_wanted: impl Fn(u64) -> bool) -> Option<u64> {
        loop {
            let first = self.first()?;
            if is_wanted(first) {
                return Some(first);
            }
            self.pop();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u64> {
        let sequence = self.first()?;
        if self.returned.first() == Some(&sequence) {
            self.returned.pop_first();
            return Some(sequence);
        }
        if let Some((first, count)) = self.runs.front_mut() {
            *first += 1;
            *count -= 1;
            if *count == 0 {
                self.runs.pop_front();
                // What a burst left behind must not keep a burst's memory.
                if self.runs.capacity() > 4 * self.runs.len().max(16) {
                    self.runs.shrink_to(2 * self.runs.len());
                }
            }
        }
        Some(sequence)
    }

    /// Whether a number has a name here.
    pub(crate) fn contains(&self, sequence: u64) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= sequence);
        let run = after.checked_sub(1).and_then(|i| self.runs.get(i));
        run.is_some_and(|(first, count)| sequence < first + u64::from(*count))
            || self.returned.contains(&sequence)
    }

    /// How many are wanted; of very many all are taken for that.
    pub(crate) fn count_that(&self, is_wanted: impl Fn(u64) -> bool) -> u64 {
        let runs = self.runs.iter().map(|(_, count)| u64::from(*count));
        let all = runs.sum::<u64>() + self.returned.len() as u64;
        if all > COUNTED_MAX {
            return all;
        }
        let names = self.runs.iter().flat_map(|(first, count)| *first..first + u64::from(*count));
        names.chain(self.returned.iter().copied()).filter(|n| is_wanted(*n)).count() as u64
    }

    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.returned.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A redelivered message returns to its place.
    #[test]
    fn what_comes_back_returns_to_its_place() {
        let mut ready = Ready::default();
        (1..=5).for_each(|n| ready.insert(0, n));
        assert_eq!(ready.pop(0), Some(1));
        assert_eq!(ready.pop(0), Some(2));
        ready.insert(0, 1);
        ready.insert(0, 9);
        let rest: Vec<_> = std::iter::from_fn(|| ready.pop(0)).collect();
        assert_eq!(rest, [1, 3, 4, 5, 9]);
        assert_eq!(ready.first(0), None);
    }

    #[test]
    fn an_emptied_lane_takes_an_old_number_back() {
        let mut ready = Ready::default();
        ready.insert(0, 7);
        assert_eq!(ready.pop(0), Some(7));
        ready.insert(0, 3);
        ready.insert(0, 8);
        assert_eq!((ready.pop(0), ready.pop(0)), (Some(3), Some(8)));
    }
}
