//! The ready set: messages that wait for a receiver, in lanes.
//!
//! A lane is a row of messages that are given out in the order of their numbers; today every
//! session is a lane and everything else is lane zero. Messages mostly arrive in order, so a lane
//! keeps runs of consecutive numbers: ten million waiting messages in one lane are one run. A
//! message that comes back after a delivery returns to its place.
//!
//! A lane may name a message that has left in the meantime (expired, purged): whoever picks looks
//! at the record and picks again. It never names one twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which lane; zero is the lane of messages without a session.
pub(crate) type LaneId = u32;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// Lane zero, which is there even if it is empty.
    common: Lane,
    sessions: BTreeMap<LaneId, Lane>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
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

    /// The first message of a lane.
    pub(crate) fn first(&self, lane: LaneId) -> Option<u64> {
        if lane == 0 { self.common.first() } else { self.sessions.get(&lane)?.first() }
    }
}

impl Lane {
    fn insert(&mut self, sequence: u64) {
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

    fn first(&self) -> Option<u64> {
        let fresh = self.runs.front().map(|(first, _)| *first);
        let returned = self.returned.first().copied();
        match (fresh, returned) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn pop(&mut self) -> Option<u64> {
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
