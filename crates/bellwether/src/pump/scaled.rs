//! As many pumps as there is work for.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::scaler::Policy;
//! use bellwether::{Bellwether, Work};
//! use tokio_util::sync::CancellationToken;
//!
//! let bw = Bellwether::open("memory:").await?;
//! let orders = bw.create_queue("orders", Default::default()).await?;
//! orders.send("two coffees").await?;
//!
//! let shutdown = CancellationToken::new();
//! let done = shutdown.clone();
//! let handler = move |order: Work| {
//!     println!("making {:?}", order.text());
//!     done.cancel();
//!     async {}
//! };
//! // One to eight pumps of ten handlers each; what waits should be gone in a minute.
//! let policy = Policy { max: 8, drain_within_ms: Some(60_000), ..Policy::default() };
//! let pumps = orders.pump().concurrency(10).scaled(policy);
//! pumps.on_decision(|decision| println!("{decision}")).run(handler, shutdown).await?;
//! # Ok(()) }
//! ```
//!
//! A pump that is stopped takes no more, lets what runs end and settles it; one without a message is
//! stopped before one that has some. If the queue cannot be read, the pumps that run go on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::scaler::{Candidate, Decision, Policy, Scaler, choose_victims};
use bellwether_core::time::BootTime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{IntoVerdict, Pump, PumpCounts, PumpHandle, PumpState, Work};
use crate::clock::Clock;
use crate::error::Error;
use crate::queue::ms;
use crate::scaler::{Workers, reading};

/// So often is the queue looked at.
const EVERY: Duration = Duration::from_secs(1);
/// So many decisions are remembered.
const REMEMBERED: usize = 100;

type OnDecision = Arc<dyn Fn(&Decision) + Send + Sync>;

/// Pumps being put together; [`ScaledPump::run`] sets them going. See the [module](self).
pub struct ScaledPump {
    pump: Pump,
    policy: Policy,
    every: Duration,
    on_decision: Option<OnDecision>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    pumps: usize,
    decisions: VecDeque<Decision>,
}

impl fmt::Debug for ScaledPump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaledPump")
            .field("pump", &self.pump)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Looks at scaled pumps while they run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ScaledHandle {
    seen: Arc<Mutex<Seen>>,
}

impl ScaledHandle {
    /// How many pumps there are, those that end included.
    pub fn pumps(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).pumps
    }

    /// The last hundred decisions that changed something, the oldest first.
    pub fn decisions(&self) -> Vec<Decision> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.decisions.iter().cloned().collect()
    }
}

impl Pump {
    /// As many pumps like this one as the policy wants, instead of one.
    pub fn scaled(self, policy: Policy) -> ScaledPump {
        let policy = policy.with_a_target();
        ScaledPump { pump: self, policy, every: EVERY, on_decision: None, seen: Arc::default() }
    }

    /// One more like this one, with a handle of its own.
    fn another(&self) -> Self {
        let Self { queue, config, lock, on_error, sessions, idle_ms, .. } = self;
        let mut config = config.clone();
        config.seed = crate::chance::random_u64();
        Self {
            queue: queue.clone(),
            config,
            lock: *lock,
            on_error: on_error.clone(),
            sessions: *sessions,
            idle_ms: *idle_ms,
            control: Arc::default(),
        }
    }
}

impl ScaledPump {
    /// Looks at the queue so often; every second if not said.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Whom to tell what was decided, changes and all else. It is called from a loop, so it should be
    /// quick.
    #[must_use]
    pub fn on_decision(mut self, tell: impl Fn(&Decision) + Send + Sync + 'static) -> Self {
        self.on_decision = Some(Arc::new(tell));
        self
    }

    /// To look at the pumps while they run.
    pub fn handle(&self) -> ScaledHandle {
        ScaledHandle { seen: Arc::clone(&self.seen) }
    }

    /// Calls the handler for message after message, as [`Pump::run`] does, with as many pumps as the
    /// policy wants. Returns when all of them have ended: after `shutdown`, or if the store was closed
    /// or broke under them. A policy that cannot work is refused.
    pub async fn run<H, F>(self, handler: H, shutdown: CancellationToken) -> Result<(), Error>
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.policy.check()?;
        let handler = Arc::new(handler);
        let clock = self.pump.queue.inner.clock.clone();
        // Ours, so that an end of ours is not everybody's.
        let shutdown = shutdown.child_token();
        let mut crew = Crew { pumps: Vec::new(), runs: JoinSet::new(), shutdown, ended: None };
        let start = |pump: Pump, crew: &mut Crew, now| {
            let handler = Arc::clone(&handler);
            crew.pumps.push((pump.handle(), now));
            crew.runs.spawn(pump.run(move |work| handler(work), crew.shutdown.child_token()));
        };
        let mut scaler = Scaler::new(self.policy.clone());
        let mut next = clock.boot();
        loop {
            tokio::select! {
                biased;
                () = crew.shutdown.cancelled() => break,
                Some(run) = crew.runs.join_next() => crew.hear(run),
                () = clock.sleep_until(next) => {
                    next = clock.boot().plus_ms(ms(self.every).max(1));
                    match self.look(&mut scaler, &clock, &crew).await {
                        Ok(decision) => {
                            let now = clock.boot();
                            for _ in decision.from..decision.wanted {
                                start(self.pump.another(), &mut crew, now);
                            }
                            crew.stop(decision.from.saturating_sub(decision.wanted));
                            self.tell(decision, crew.pumps.len());
                        }
                        Err(error) if super::ask::is_end(&error) => crew.end(error),
                        // Those that run go on; what cannot be read is read later.
                        Err(_) => {}
                    }
                }
            }
        }
        while let Some(run) = crew.runs.join_next().await {
            crew.hear(run);
        }
        crew.ended.map_or(Ok(()), Err)
    }

    async fn look(
        &self,
        scaler: &mut Scaler,
        clock: &Clock,
        crew: &Crew,
    ) -> Result<Decision, Error> {
        let load = self.pump.queue.load().await?;
        Ok(scaler.step(clock.boot(), reading(&load, crew.workers())))
    }

    fn tell(&self, decision: Decision, pumps: usize) {
        if let Some(tell) = &self.on_decision {
            tell(&decision);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.pumps = pumps;
        if decision.is_change() {
            if seen.decisions.len() == REMEMBERED {
                seen.decisions.pop_front();
            }
            seen.decisions.push_back(decision);
        }
    }
}

/// The pumps that run.
struct Crew {
    /// With the time each was started.
    pumps: Vec<(PumpHandle, BootTime)>,
    runs: JoinSet<Result<(), Error>>,
    shutdown: CancellationToken,
    ended: Option<Error>,
}

impl Crew {
    fn workers(&self) -> Workers {
        let mut workers = Workers::default();
        for counts in self.pumps.iter().map(|(pump, _)| pump.counts()) {
            match counts.state {
                PumpState::Idle => workers.starting += 1,
                PumpState::Taking | PumpState::Paused => {
                    workers.running += 1;
                    workers.busy += u32::from(is_busy(&counts));
                }
                PumpState::Stopping | PumpState::Stopped => {}
            }
        }
        workers
    }

    fn stop(&self, count: u32) {
        let is_over = |state| matches!(state, PumpState::Stopping | PumpState::Stopped);
        let here = self.pumps.iter().filter(|(pump, _)| !is_over(pump.counts().state));
        let here: Vec<_> = here.collect();
        let candidates: Vec<Candidate> = here
            .iter()
            .map(|(pump, started_at)| Candidate {
                is_busy: Some(is_busy(&pump.counts())),
                leads: false,
                started_at: *started_at,
            })
            .collect();
        for victim in choose_victims(&candidates, count as usize) {
            here[victim].0.stop();
        }
    }

    fn hear(&mut self, run: Result<Result<(), Error>, tokio::task::JoinError>) {
        self.pumps.retain(|(pump, _)| pump.counts().state != PumpState::Stopped);
        match run {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.end(error),
            // Handlers catch their panics, so this is one of our own.
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn end(&mut self, error: Error) {
        self.ended.get_or_insert(error);
        self.shutdown.cancel();
    }
}

fn is_busy(counts: &PumpCounts) -> bool {
    counts.waiting + counts.running + counts.settling > 0
}
