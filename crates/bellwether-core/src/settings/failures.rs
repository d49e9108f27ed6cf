//! What a queue does about deliveries that fail: when a message comes back, when one that kills its
//! receivers is set aside, and when so many fail that none of them is to blame.

use super::invalid;
use crate::chance::Chance;
use crate::error::Refusal;
use crate::limits;

/// What a queue does about deliveries that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How long a message stays away that was given back without a word about that; `None` is not
    /// at all.
    pub retry: Option<Backoff>,
    /// A message whose receiver crashed is a suspect and is handed out alone from then on. After so
    /// many further crashes it is a dead letter. With zero nobody is suspected; that is fixed at
    /// creation.
    pub crashes_max: u32,
    /// When the queue pauses itself; `None` is never.
    pub outage: Option<OutagePolicy>,
}

/// How long a failed message stays away: doubled with each of its failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first_ms: u64,
    /// Never longer.
    pub max_ms: u64,
    /// Shortened by up to so many percent, so that what failed together does not come back together.
    pub jitter_percent: u32,
}

/// When a queue takes failures for an outage of something that all its messages need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutagePolicy {
    /// So many different messages failed in a row, and none was completed in between.
    pub failures: u32,
    /// How long nothing is handed out before one message is tried.
    pub pause_ms_min: u64,
    /// The pause is doubled with each try that fails, up to this one.
    pub pause_ms_max: u64,
}

/// Never changed: what is as it is by default is not written down.
impl Default for Failures {
    fn default() -> Self {
        let outage = OutagePolicy { failures: 10, pause_ms_min: 1_000, pause_ms_max: 60_000 };
        Self { retry: None, crashes_max: 3, outage: Some(outage) }
    }
}

impl Failures {
    /// What Azure does: whatever happened, messages are handed out and counted, and that is all.
    pub(super) fn azure() -> Self {
        Self { retry: None, crashes_max: 0, outage: None }
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let between = |value: u64, min: u64, max: u64, of: &str| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(invalid("failures", format!("{of}: {value} is not between {min} and {max}")))
            }
        };
        let ms_max = limits::FAILURE_PAUSE_MS_MAX;
        if let Some(retry) = self.retry {
            between(retry.first_ms, 1, ms_max, "retry.first_ms")?;
            between(retry.max_ms, retry.first_ms, ms_max, "retry.max_ms")?;
            between(retry.jitter_percent.into(), 0, 100, "retry.jitter_percent")?;
        }
        between(self.crashes_max.into(), 0, 1_000, "crashes_max")?;
        if let Some(outage) = self.outage {
            let failures_max = limits::OUTAGE_FAILURES_MAX.into();
            between(outage.failures.into(), 2, failures_max, "outage.failures")?;
            between(outage.pause_ms_min, 1, ms_max, "outage.pause_ms_min")?;
            between(outage.pause_ms_max, outage.pause_ms_min, ms_max, "outage.pause_ms_max")?;
        }
        Ok(())
    }
}

impl Backoff {
    /// How long a message stays away after its `count`th failure. The same message and count always
    /// give the same answer.
    pub fn delay_ms(&self, count: u32, sequence: u64) -> u64 {
        let ms = doubled(self.first_ms, count.saturating_sub(1), self.max_ms);
        shortened(ms, self.jitter_percent, sequence.rotate_left(20) ^ u64::from(count))
    }
}

impl OutagePolicy {
    /// How long the pause is after `tries` tries have failed.
    pub fn pause_ms(&self, tries: u32, seed: u64) -> u64 {
        let ms = doubled(self.pause_ms_min, tries, self.pause_ms_max);
        shortened(ms, PAUSE_JITTER_PERCENT, seed.rotate_left(20) ^ u64::from(tries))
    }
}

/// Queues that need the same thing do not all try it in the same moment.
const PAUSE_JITTER_PERCENT: u32 = 20;

fn doubled(ms: u64, times: u32, max_ms: u64) -> u64 {
    ms.saturating_mul(2_u64.saturating_pow(times)).min(max_ms)
}

/// `ms`, less up to `percent` of it, and at least 1.
fn shortened(ms: u64, percent: u32, seed: u64) -> u64 {
    let spread_ms = ms / 100 * u64::from(percent) + ms % 100 * u64::from(percent) / 100;
    let less_ms = Chance::new(seed).below(spread_ms.saturating_add(1));
    (ms - less_ms).max(1)
}

/// Changes to [`Failures`]; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub struct FailuresPatch {
    /// See [`Failures::retry`].
    pub retry: Option<Option<Backoff>>,
    /// See [`Failures::crashes_max`].
    pub crashes_max: Option<u32>,
    /// See [`Failures::outage`].
    pub outage: Option<Option<OutagePolicy>>,
}

impl FailuresPatch {
    pub(super) fn apply(self, old: Failures) -> Result<Failures, Refusal> {
        let crashes_max = self.crashes_max.unwrap_or(old.crashes_max);
        if (crashes_max == 0) != (old.crashes_max == 0) {
            let why = "crashes_max: whether there are suspects is decided at creation only";
            return Err(invalid("failures", why.into()));
        }
        Ok(Failures {
            retry: self.retry.unwrap_or(old.retry),
            crashes_max,
            outage: self.outage.unwrap_or(old.outage),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_away_twice_as_long_each_time_up_to_the_longest() {
        let backoff = Backoff { first_ms: 100, max_ms: 1_500, jitter_percent: 0 };
        let delays: Vec<u64> = (1..=6).map(|count| backoff.delay_ms(count, 7)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_500, 1_500]);
        assert_eq!(backoff.delay_ms(u32::MAX, 7), 1_500);
    }

    #[test]
    fn jitter_only_shortens_and_depends_on_nothing_but_message_and_count() {
        let backoff = Backoff { first_ms: 1_000, max_ms: 1_000, jitter_percent: 30 };
        let delays: Vec<u64> = (0..1_000).map(|sequence| backoff.delay_ms(1, sequence)).collect();
        assert!(delays.iter().all(|ms| (700..=1_000).contains(ms)));
        assert!(delays.iter().any(|ms| *ms < 720) && delays.iter().any(|ms| *ms > 980));
        assert_eq!(delays[17], backoff.delay_ms(1, 17));
        let all = Backoff { first_ms: 1, max_ms: 1, jitter_percent: 100 };
        assert_eq!(all.delay_ms(1, 3), 1, "never at once: that would be no delay");
    }
}
