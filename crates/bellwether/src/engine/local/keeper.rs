//! Does what nobody asks for: lets time pass, looks after the journal, closes the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bellwether_core::time::{BootTime, Now};
use tokio::sync::oneshot;

use super::flusher;
use super::jobs::{JobResult, Jobs};
use super::shared::Shared;
use crate::clock::Clock;
use crate::engine::ask::Asker;
use crate::engine::shard::Shard;
use crate::error::Error;

/// An idle store is marked after this long. Also how long a promised turn may be late while the
/// flusher is over a long flush.
const MARK_AFTER_MS: u64 = 50;
/// How often a full disk is tried again.
const FULL_RETRY_MS: u64 = 100;
/// While something is written, how often it is looked how full the disk is.
const SPACE_LOOK_MS: u64 = 1000;

/// The keeper looks at the clocks at least so often while something is to become due.
const LOOK_AFTER_MS: u64 = 60_000;

/// Wakes the keeper.
#[derive(Debug, Default)]
pub(super) struct KeeperBell {
    state: Mutex<State>,
    bell: Condvar,
    /// When the keeper wakes by itself, in milliseconds of the machine's boot clock. Written only
    /// while the writer is held.
    wakes_at_ms: AtomicU64,
}

#[derive(Default)]
struct State {
    is_rung: bool,
    done: Vec<JobResult>,
    closing: Vec<oneshot::Sender<()>>,
    is_over: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("is_rung", &self.is_rung).finish_non_exhaustive()
    }
}

impl KeeperBell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ring(&self) {
        self.ring_with(|_| ());
    }

    /// Hands over what a job has brought.
    pub(super) fn job_done(&self, result: JobResult) {
        self.ring_with(|state| state.done.push(result));
    }

    /// Asks the keeper to close the store; `closed` hears of it, or is dropped if that was done
    /// before.
    pub(super) fn close(&self, closed: oneshot::Sender<()>) {
        self.ring_with(|state| {
            if !state.is_over {
                state.closing.push(closed);
            }
        });
    }

    /// There is no keeper any more; gives back who asked for it meanwhile.
    fn end(&self) -> Vec<oneshot::Sender<()>> {
        let end = State { is_over: true, ..State::default() };
        std::mem::replace(&mut *self.lock(), end).closing
    }

    fn ring_with(&self, leave: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        leave(&mut state);
        let was_rung = std::mem::replace(&mut state.is_rung, true);
        drop(state);
        if !was_rung {
            self.bell.notify_one();
        }
    }

    /// Whether the keeper must wake earlier than it is going to.
    pub(super) fn is_wanted(&self, shard: &Shard<Asker>, clock: &Clock, now: Now) -> bool {
        // On a full disk it looks again at its own pace.
        if shard.wants_upkeep() && !shard.is_short_of_space() {
            return true;
        }
        let Some(patience_ms) = patience_ms(shard, clock, now) else { return false };
        let now_ms = match clock {
            Clock::System => now.boot.0,
            Clock::Virtual(_) => Clock::System.now().boot.0,
        };
        now_ms.saturating_add(patience_ms) < self.wakes_at_ms.load(Ordering::Relaxed)
    }

    fn wait(&self, patience: Option<Duration>) -> State {
        let mut state = self.lock();
        if !state.is_rung {
            state = match patience {
                Some(patience) => {
                    self.bell
                        .wait_timeout(state, patience)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        std::mem::take(&mut *state)
    }
}

/// How long the keeper may sleep.
fn patience_ms(shard: &Shard<Asker>, clock: &Clock, now: Now) -> Option<u64> {
    if shard.fault().is_some() {
        return None;
    }
    let deadline_ms = match (clock, shard.next_deadline_ms(now)) {
        (_, Some(0)) => Some(0),
        (Clock::System, deadline_ms) => deadline_ms,
        // Virtual time does not pass by waiting; its clock rings the bell.
        (Clock::Virtual(_), _) => None,
    };
    let upkeep_ms = if shard.is_short_of_space() {
        Some(FULL_RETRY_MS)
    } else {
        (shard.needs_flush() || shard.wants_mark()).then_some(MARK_AFTER_MS)
    };
    deadline_ms.into_iter().chain(upkeep_ms).min()
}

/// See the module.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
    jobs: Jobs,
    next_full_retry: BootTime,
    next_space_look: BootTime,
    /// The frame being filled when the keeper last looked.
    last_frame: u64,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let flush = shared.claim().guarded(|shard| shard.flusher()).flatten();
        let flusher = flush.map(|flush| flusher::start(Arc::clone(&shared), flush));
        let jobs = Jobs::start(Arc::clone(&shared));
        let (next_full_retry, next_space_look) = (BootTime(0), BootTime(0));
        Self { shared, flusher, jobs, next_full_retry, next_space_look, last_frame: 0 }
    }

    pub(super) fn run(mut self) {
        let mut patience = Some(Duration::ZERO);
        loop {
            let State { done, closing, .. } = self.shared.keeper.wait(patience);
            if !closing.is_empty() {
                self.close(done);
                let late = self.shared.keeper.end();
                for closed in closing.into_iter().chain(late) {
                    // Whoever closed may have stopped waiting.
                    let _ = closed.send(());
                }
                return;
            }
            patience = self.look_after(done);
        }
    }

    /// One short step of everything; how long until the next.
    fn look_after(&mut self, done: Vec<JobResult>) -> Option<Duration> {
        let shared = Arc::clone(&self.shared);
        let is_flusher_idle = shared.flusher.is_idle();
        let mut writer = shared.claim();
        let now = shared.clock.now();
        let patience = writer.guarded(|shard| {
            shard.seal();
            for result in done {
                shard.job_done(result);
            }
            let was_idle = std::mem::replace(&mut self.last_frame, shard.frame()) == shard.frame();
            if was_idle && is_flusher_idle {
                shard.mark();
            }
            let is_busy = shard.upkeep(now);
            self.hand_out_jobs(shard);
            if is_busy { Some(0) } else { patience_ms(shard, &shared.clock, now) }
        });
        // A sleep does not count the time that the machine is suspended, nor does it hear that the
        // wall clock was put forward.
        let patience_ms = patience.flatten().map(|ms| ms.min(LOOK_AFTER_MS));
        let now_ms = || Clock::System.now().boot.0;
        let wakes_at_ms = patience_ms.map_or(u64::MAX, |ms| now_ms() + ms);
        shared.keeper.wakes_at_ms.store(wakes_at_ms, Ordering::Relaxed);
        shared.turn(writer);
        shared.work();
        patience_ms.map(|_| Duration::from_millis(wakes_at_ms.saturating_sub(now_ms())))
    }

    fn hand_out_jobs(&mut self, shard: &mut Shard<Asker>) {
        // The disk is real, also where time is not.
        let now = Clock::System.now().boot;
        if self.next_space_look <= now {
            self.next_space_look = now.plus_ms(SPACE_LOOK_MS);
            shard.look_for_space();
        }
        if shard.is_short_of_space() {
            if now < self.next_full_retry {
                return;
            }
            self.next_full_retry = now.plus_ms(FULL_RETRY_MS);
            if let Some(job) = shard.next_job() {
                self.jobs.give(job);
            }
            return;
        }
        while let Some(job) = shard.next_job() {
            self.jobs.give(job);
        }
    }

    /// Finishes what is in flight, flushes and lets go of the store.
    fn close(&mut self, done: Vec<JobResult>) {
        let shared = Arc::clone(&self.shared);
        let mut writer = shared.claim();
        // No call that somebody waits for enters after this, and the turn answers those that have.
        // What nobody took is still given back.
        shared.inbox.close(Error::Closed);
        writer.guarded(|shard| done.into_iter().for_each(|result| shard.job_done(result)));
        shared.turn(writer);
        shared.flusher.stop();
        if let Some(flusher) = self.flusher.take() {
            // What could panic there is caught there.
            let _ = flusher.join();
        }
        // Before the journal is let go of: from then on the folder may be somebody else's.
        self.jobs.stop();
        let now = shared.clock.now();
        let mut writer = shared.claim();
        shared.inbox.end();
        writer.turn(now, &shared.inbox);
        let answers = writer.guarded(|shard| {
            shard.close(now);
            shard.take_free()
        });
        let shard = writer.take();
        drop(writer);
        shared.deliver(answers.unwrap_or_default());
        shared.stir.close();
        // Those who still wait hear of it now.
        drop(shard);
    }
}
