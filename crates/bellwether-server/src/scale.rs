//! How many workers a queue should have, for those who ask: over HTTP, and KEDA.
//!
//! Who asks has pauses of its own and knows how many there are, or does not. So nothing is waited for
//! here, and what is remembered is only how fast it went.

use std::sync::{Mutex, PoisonError};

use bellwether::core::name::QueueName;
use bellwether::core::time::BootTime;
use bellwether::scaler::{Decision, Load, Pace, Policy, Scaler, WORKERS_MAX, Workers, reading};
use serde::Deserialize;
use utoipa::IntoParams;

/// Paces of so many questions are remembered: the one that was not asked for longest is forgotten.
const REMEMBERED_MAX: usize = 256;

/// What workers should achieve.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Targets {
    /// How many workers there are; those that have messages, if not said.
    #[param(maximum = 4_294_967_295_u64)]
    pub(crate) workers: Option<u32>,
    /// Never fewer; 0 if not said.
    #[param(maximum = 10_000)]
    pub(crate) min: Option<u32>,
    /// Never more; 10,000 if not said.
    #[param(minimum = 1, maximum = 10_000)]
    pub(crate) max: Option<u32>,
    /// So many messages to a worker; 5 if no target is given.
    #[param(minimum = 1, maximum = 4_294_967_295_u64)]
    pub(crate) per_worker: Option<u32>,
    /// What waits should be gone after this, at the pace that workers have.
    #[param(minimum = 1, maximum = 86_400_000)]
    pub(crate) drain_within_ms: Option<u64>,
    /// No message should wait longer.
    #[param(minimum = 1, maximum = 86_400_000)]
    pub(crate) oldest_within_ms: Option<u64>,
    /// Paces are measured over this; 30,000 if not said.
    #[param(minimum = 1, maximum = 86_400_000)]
    pub(crate) window_ms: Option<u64>,
    /// With no worker, the first is wanted when more than this wait; 0 if not said.
    #[param(maximum = 4_294_967_295_u64)]
    pub(crate) activate_above: Option<u32>,
}

impl Targets {
    pub(crate) fn policy(&self) -> Policy {
        let usual = Policy::default();
        let policy = Policy {
            min: self.min.unwrap_or(0),
            max: self.max.unwrap_or(WORKERS_MAX),
            per_worker: self.per_worker.map(u64::from),
            drain_within_ms: self.drain_within_ms,
            oldest_within_ms: self.oldest_within_ms,
            window_ms: self.window_ms.unwrap_or(usual.window_ms),
            out_pause_ms: 0,
            in_pause_ms: 0,
            step_out_max: WORKERS_MAX,
            step_in_max: WORKERS_MAX,
            activate_above: self.activate_above.map_or(0, u64::from),
        };
        policy.with_a_target()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scales {
    /// The one that was asked last is the last.
    remembered: Mutex<Vec<(QueueName, Scaler)>>,
}

impl Scales {
    /// How many there should be now, and how fast it went. `policy` was checked.
    pub(crate) fn decide(
        &self,
        now: BootTime,
        queue: &QueueName,
        policy: &Policy,
        load: &Load,
        workers: Option<u32>,
    ) -> (Decision, Pace) {
        let busy = u32::try_from(load.busy.len()).unwrap_or(u32::MAX);
        let running = workers.unwrap_or(busy);
        let workers = Workers { running, starting: 0, busy: busy.min(running) };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |(name, scaler): &(QueueName, Scaler)| name == queue && scaler.policy() == policy;
        let known = remembered.iter().position(is_it).map(|at| remembered.remove(at));
        let (_, mut scaler) = known.unwrap_or_else(|| (queue.clone(), Scaler::new(policy.clone())));
        let decision = scaler.step(now, reading(load, workers));
        let pace = scaler.pace().clone();
        if remembered.len() == REMEMBERED_MAX {
            remembered.remove(0);
        }
        remembered.push((queue.clone(), scaler));
        (decision, pace)
    }
}

#[cfg(test)]
mod tests {
    use bellwether::core::outcome::{Counts, Totals};

    use super::*;

    fn load(ready: u64) -> Load {
        let (counts, totals) = (Counts { ready, ..Counts::default() }, Totals::default());
        Load { counts, totals, oldest_ms: None, is_paused: false, busy: Vec::new() }
    }

    #[test]
    fn every_question_has_a_memory_and_all_of_them_an_end() {
        let scales = Scales::default();
        let policy = Targets { per_worker: Some(10), ..Targets::default() }.policy();
        for index in 0..2 * REMEMBERED_MAX {
            let queue = QueueName::new(&format!("q{index}")).unwrap();
            let (decision, _) = scales.decide(BootTime(0), &queue, &policy, &load(95), None);
            assert_eq!(decision.wanted, 10);
        }
        assert_eq!(scales.remembered.lock().unwrap().len(), REMEMBERED_MAX);
        let queue = QueueName::new("q511").unwrap();
        let sent = |sent| Load { totals: Totals { sent, ..Totals::default() }, ..load(0) };
        let (_, pace) = scales.decide(BootTime(1_000), &queue, &policy, &sent(60), None);
        assert_eq!(pace.arrived(), 60, "since it was asked before");
        let other = Targets::default().policy();
        let (_, pace) = scales.decide(BootTime(2_000), &queue, &other, &sent(90), None);
        assert_eq!(pace.arrived(), 0, "another question");
    }
}
