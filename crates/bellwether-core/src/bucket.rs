//! A bucket of tokens: so many messages in so long, and no more than that at once.
//!
//! It counts in parts of a token, a `per_ms`th each: every millisecond brings `messages` of them,
//! so that nothing is ever rounded.

use crate::settings::Rate;
use crate::time::BootTime;

/// See the module. One that is new is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    parts: u64,
    at: BootTime,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(rate: Rate, now: BootTime) -> Self {
        Self { parts: full(rate), at: now }
    }

    /// Takes a token out, which must be there.
    pub(crate) fn take(&mut self, rate: Rate, now: BootTime) {
        self.fill(rate, now);
        debug_assert!(self.parts >= rate.per_ms.into(), "nobody takes what is not there");
        self.parts = self.parts.saturating_sub(rate.per_ms.into());
    }

    /// When there is a token; `None` if there is one now.
    pub(crate) fn next(&mut self, rate: Rate, now: BootTime) -> Option<BootTime> {
        self.fill(rate, now);
        self.when(rate.per_ms.into(), rate)
    }

    /// When it is full again; `None` if it is.
    pub(crate) fn full_at(&mut self, rate: Rate, now: BootTime) -> Option<BootTime> {
        self.fill(rate, now);
        self.when(full(rate), rate)
    }

    fn fill(&mut self, rate: Rate, now: BootTime) {
        let ms = self.at.ms_until(now);
        let more = ms.saturating_mul(rate.messages.into());
        self.parts = self.parts.saturating_add(more).min(full(rate));
        self.at = self.at.max(now);
    }

    fn when(&self, wanted: u64, rate: Rate) -> Option<BootTime> {
        let missing = wanted.saturating_sub(self.parts);
        (missing > 0).then(|| self.at.plus_ms(missing.div_ceil(rate.messages.into())))
    }
}

fn full(rate: Rate) -> u64 {
    u64::from(rate.messages) * u64::from(rate.per_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst, then one by one; and what was not used is not saved beyond the burst.
    #[test]
    fn a_burst_and_then_one_by_one() {
        let rate = Rate { messages: 3, per_ms: 1000 };
        let mut bucket = Bucket::new(rate, BootTime(5));
        for _ in 0..3 {
            assert_eq!(bucket.next(rate, BootTime(5)), None);
            bucket.take(rate, BootTime(5));
        }
        assert_eq!(bucket.next(rate, BootTime(5)), Some(BootTime(5 + 334)));
        assert_eq!(bucket.next(rate, BootTime(338)), Some(BootTime(339)));
        bucket.take(rate, BootTime(339));
        assert_eq!(bucket.full_at(rate, BootTime(339)), Some(BootTime(5 + 1334)));
        let later = BootTime(1_000_000);
        (0..3).for_each(|_| bucket.take(rate, later));
        assert!(bucket.next(rate, later).is_some());
    }

    /// What is asked at every millisecond gives as much as what is asked once.
    #[test]
    fn asking_often_loses_nothing() {
        let rate = Rate { messages: 7, per_ms: 900 };
        let (mut often, mut taken) = (Bucket::new(rate, BootTime(0)), 0);
        for ms in 0..9_000 {
            while often.next(rate, BootTime(ms)).is_none() {
                often.take(rate, BootTime(ms));
                taken += 1;
            }
        }
        assert_eq!(taken, 7 + 69, "a burst, and what 8,999 ms bring");
    }
}
