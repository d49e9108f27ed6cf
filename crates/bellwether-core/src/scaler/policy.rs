//! What a queue's workers should achieve.

use crate::error::Refusal;
use crate::limits;

/// More workers than anybody has hosts for; and what is spread over hosts is counted one by one.
pub const WORKERS_MAX: u32 = 10_000;

/// What a queue's workers should achieve, and how quickly their number may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Never fewer. With zero a queue without messages has no worker.
    pub min: u32,
    /// Never more.
    pub max: u32,
    /// So many messages to a worker, those it has and those that wait.
    pub per_worker: Option<u64>,
    /// What waits should be gone after this, at the pace workers have.
    pub drain_within_ms: Option<u64>,
    /// No message should wait longer.
    pub oldest_within_ms: Option<u64>,
    /// Paces are measured over this.
    pub window_ms: u64,
    /// Between two increases.
    pub out_pause_ms: u64,
    /// After any change, and of calm, before a decrease.
    pub in_pause_ms: u64,
    /// More by at most so many at a time.
    pub step_out_max: u32,
    /// Fewer by at most so many at a time.
    pub step_in_max: u32,
    /// With no worker, the first is started when more than this wait.
    pub activate_above: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min: 1,
            max: 10,
            per_worker: None,
            drain_within_ms: None,
            oldest_within_ms: None,
            window_ms: 30_000,
            out_pause_ms: 10_000,
            in_pause_ms: 60_000,
            step_out_max: 4,
            step_in_max: WORKERS_MAX,
            activate_above: 0,
        }
    }
}

impl Policy {
    /// Messages to a worker where nothing else is asked for.
    pub const PER_WORKER: u64 = 5;

    /// The same with a target, if it has none.
    #[must_use]
    pub fn with_a_target(mut self) -> Self {
        let has_other = self.drain_within_ms.or(self.oldest_within_ms).is_some();
        if !has_other {
            self.per_worker.get_or_insert(Self::PER_WORKER);
        }
        self
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |what, why: String| Err(Refusal::InvalidValue { what, why });
        if self.max == 0 || self.max > WORKERS_MAX {
            let max = self.max;
            return refuse("max", format!("{max} is not between 1 and {WORKERS_MAX}"));
        }
        if self.min > self.max {
            let Self { min, max, .. } = self;
            return refuse("min", format!("{min} is more than max, which is {max}"));
        }
        if self.per_worker == Some(0) {
            return refuse("per_worker", "with no message to a worker there is no end".into());
        }
        let times = [
            ("drain_within_ms", self.drain_within_ms),
            ("oldest_within_ms", self.oldest_within_ms),
            ("window_ms", Some(self.window_ms)),
        ];
        for (what, ms) in times {
            if ms.is_some_and(|ms| ms == 0 || ms > limits::WAIT_MS_MAX) {
                let max = limits::WAIT_MS_MAX;
                return refuse(what, format!("it is not between 1 and {max}, which is a day"));
            }
        }
        if self.step_out_max == 0 || self.step_in_max == 0 {
            return refuse("step", "a step of none goes nowhere".into());
        }
        Ok(())
    }
}
