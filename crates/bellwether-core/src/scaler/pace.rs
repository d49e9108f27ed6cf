//! How fast messages come and go, over a window.

use std::collections::VecDeque;

use super::{Reading, at_most};
use crate::time::BootTime;

/// A window has so many parts: what is older leaves it a part at a time.
const PARTS: u64 = 16;

/// Counters at two ends of a window, and how busy workers were between. Asking more often does not
/// make the window shorter.
#[derive(Clone, Debug)]
pub struct Pace {
    window_ms: u64,
    /// The first is the window's beginning.
    samples: VecDeque<Sample>,
    last: Option<(Sample, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: BootTime,
    arrived: u64,
    completed: u64,
    /// All workers' busy time together, from the first reading on.
    busy_ms: u64,
}

impl Pace {
    pub(super) fn new(window_ms: u64) -> Self {
        Self { window_ms, samples: VecDeque::new(), last: None }
    }

    pub(super) fn add(&mut self, now: BootTime, reading: &Reading) {
        let (arrived, completed) = (reading.arrived, reading.completed);
        let mut busy_ms = 0;
        if let Some((last, busy)) = self.last {
            if arrived < last.arrived || completed < last.completed {
                // Another queue of the same name.
                self.samples.clear();
            }
            busy_ms = last.busy_ms + last.at.ms_until(now) * u64::from(busy);
        }
        let sample = Sample { at: now, arrived, completed, busy_ms };
        self.last = Some((sample, reading.busy));
        let part_ms = self.window_ms / PARTS;
        if self.samples.back().is_none_or(|back| back.at.plus_ms(part_ms) <= now) {
            self.samples.push_back(sample);
        }
        while self.samples.get(1).is_some_and(|next| next.at.plus_ms(self.window_ms) <= now) {
            self.samples.pop_front();
        }
    }

    fn ends(&self) -> Option<(&Sample, &Sample)> {
        Some((self.samples.front()?, self.last.as_ref().map(|(last, _)| last)?))
    }

    /// How many came in within the window.
    pub fn arrived(&self) -> u64 {
        self.ends().map_or(0, |(from, to)| to.arrived.saturating_sub(from.arrived))
    }

    /// How many were dealt with.
    pub fn completed(&self) -> u64 {
        self.ends().map_or(0, |(from, to)| to.completed.saturating_sub(from.completed))
    }

    /// How long the window is; shorter than asked for until enough was seen.
    pub fn over_ms(&self) -> u64 {
        self.ends().map_or(0, |(from, to)| from.at.ms_until(to.at))
    }

    /// All workers' busy time in the window together.
    pub fn busy_ms(&self) -> u64 {
        self.ends().map_or(0, |(from, to)| to.busy_ms.saturating_sub(from.busy_ms))
    }

    /// How many workers would be busy for that part of their time with what was done.
    pub(super) fn busy_workers(&self, percent: u64) -> u32 {
        let time = u128::from(self.over_ms()) * u128::from(percent);
        let busy = u128::from(self.busy_ms()) * 100;
        if time == 0 { 0 } else { at_most(u64::try_from(busy.div_ceil(time)).unwrap_or(u64::MAX)) }
    }

    /// How many it takes to deal with what comes in and to be done with `waiting` as well after
    /// `within_ms`. `None` if nobody has been seen to complete anything.
    pub(super) fn workers_to_drain(&self, waiting: u64, within_ms: u64) -> Option<u64> {
        let (completed, busy_ms) = (u128::from(self.completed()), u128::from(self.busy_ms()));
        let (over_ms, within_ms) = (u128::from(self.over_ms()), u128::from(within_ms));
        if completed == 0 || busy_ms == 0 {
            return None;
        }
        // (arrived / over + waiting / within) / (completed / busy), and one division only.
        let due = u128::from(self.arrived()) * within_ms + u128::from(waiting) * over_ms;
        let wants = due.saturating_mul(busy_ms).div_ceil(over_ms * within_ms * completed);
        Some(u64::try_from(wants).unwrap_or(u64::MAX))
    }

    /// How long until nothing waits with so many workers; [`u64::MAX`] if more comes in than they
    /// complete.
    pub fn drained_in_ms(&self, waiting: u64, workers: u32) -> u64 {
        if waiting == 0 {
            return 0;
        }
        let (over, busy) = (u128::from(self.over_ms()), u128::from(self.busy_ms()));
        // Per busy · over milliseconds.
        let done = u128::from(self.completed()) * u128::from(workers) * over;
        let due = u128::from(self.arrived()) * busy;
        if done <= due {
            return u64::MAX;
        }
        let time = u128::from(waiting).saturating_mul(busy * over);
        u64::try_from(time / (done - due)).unwrap_or(u64::MAX)
    }
}
