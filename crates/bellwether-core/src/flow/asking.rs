//! One question that is asked again and again: for messages, or for a session.

use super::config::jittered;
use crate::time::BootTime;

/// Pause after the first failure; doubles with each further one.
const PAUSE_MS_MIN: u64 = 100;
/// Longest pause after failures: what Azure's own client waits when throttled.
const FAILURE_PAUSE_MS_MAX: u64 = 10_000;
/// Empty answers in a row come at most this seldom. Only felt by those who do not wait (a long poll
/// has used up its pause), who would otherwise ask as fast as the processor allows.
const EMPTY_PAUSE_MS_MAX: u64 = 1_000;
/// How far the pauses of pumps that failed together are spread, in percent.
const PAUSE_JITTER_PERCENT: u64 = 20;

/// At most one such question is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    pending: Option<Pending>,
    attempts: u64,
    /// Not before this.
    after: BootTime,
    /// Failures in a row.
    failures: u32,
    /// Empty answers in a row.
    empties: u32,
    seed: u64,
}

/// The question in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) attempt: u64,
    pub(super) asked_at: BootTime,
    pub(super) withdrawn: bool,
}

impl Asking {
    pub(super) fn new(seed: u64) -> Self {
        Self { pending: None, attempts: 0, after: BootTime(0), failures: 0, empties: 0, seed }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pending.is_some()
    }

    /// When it may be asked again; none while it is in flight.
    pub(super) fn due(&self) -> Option<BootTime> {
        self.pending.is_none().then_some(self.after)
    }

    /// The number of the attempt.
    pub(super) fn ask(&mut self, now: BootTime) -> u64 {
        self.attempts += 1;
        let attempt = self.attempts;
        self.pending = Some(Pending { attempt, asked_at: now, withdrawn: false });
        attempt
    }

    /// Which attempt to take back, if there is one and it was not yet.
    pub(super) fn withdraw(&mut self) -> Option<u64> {
        let pending = self.pending.as_mut().filter(|pending| !pending.withdrawn)?;
        pending.withdrawn = true;
        Some(pending.attempt)
    }

    /// What was in flight, if this is its answer.
    pub(super) fn answered(&mut self, attempt: u64) -> Option<Pending> {
        let pending = self.pending.take_if(|pending| pending.attempt == attempt)?;
        self.failures = 0;
        Some(pending)
    }

    /// The answer brought something.
    pub(super) fn brought(&mut self) {
        self.empties = 0;
    }

    /// The answer brought nothing.
    pub(super) fn was_empty(&mut self, pending: Pending) {
        if !pending.withdrawn {
            self.empties += 1;
            let pause_ms = self.pause_ms(self.empties, EMPTY_PAUSE_MS_MAX);
            self.after = pending.asked_at.plus_ms(pause_ms);
        }
    }

    /// Whether that is news: what was withdrawn may fail in silence.
    pub(super) fn failed(&mut self, now: BootTime, attempt: u64) -> bool {
        let Some(pending) = self.pending.take_if(|pending| pending.attempt == attempt) else {
            return false;
        };
        if pending.withdrawn {
            return false;
        }
        self.failures += 1;
        let pause_ms = self.pause_ms(self.failures, FAILURE_PAUSE_MS_MAX);
        self.after = now.plus_ms(pause_ms);
        true
    }

    /// The pause after the `count`th bad answer in a row.
    fn pause_ms(&self, count: u32, max_ms: u64) -> u64 {
        let doubled = 2_u64.saturating_pow(count - 1).saturating_mul(PAUSE_MS_MIN);
        let salt = u128::from(self.attempts);
        jittered(doubled.min(max_ms), PAUSE_JITTER_PERCENT, self.seed, salt)
    }
}
