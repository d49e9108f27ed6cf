//! Makes durable what was written, beside the writer.
//!
//! While one flush runs, callers and the writer prepare what the next one makes durable. There is
//! always one under way as long as somebody waits for it; only where callers are so many that the
//! processor is what they wait for does it gather some first (`company.rs`). What lies on the
//! callers' core stays there: the flusher touches the ledger only when nobody else does.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::company::Company;
use super::shared::Shared;
use crate::clock::Stopwatch;
use crate::journal::Flush;
use crate::stats::Tally;

/// How long what nobody waits for may stay unflushed: deliveries, of which a power cut may lose
/// the last ones. Whoever received is about to settle, and then one flush does for both. Also how
/// long a promised turn may be late while nothing is flushed.
const LAZY: Duration = Duration::from_millis(2);
/// Company is waited for as long as the last flush took, and never longer than this.
const GATHERING_MAX: Duration = Duration::from_micros(500);

/// It flushes, or is about to look.
const AWAKE: u8 = 0;
/// Somebody waits for a flush, and it waits a little for company.
const GATHERING: u8 = 1;
/// It waits a little and then looks by itself.
const DOZING: u8 = 2;
/// It waits until it is woken.
const ASLEEP: u8 = 3;

/// Tells the flusher what there is to do.
#[derive(Debug, Default)]
pub(super) struct FlusherBell {
    state: Mutex<State>,
    bell: Condvar,
    /// Set before the flusher looks for the last time; so whoever leaves something and then finds
    /// it awake is seen.
    rest: AtomicU8,
    /// How long flushes took, in microseconds.
    pub(super) flush_us: Tally,
}

/// What a turn has left to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Something is not durable.
    pub(super) is_dirty: bool,
    /// How many wait for it to be.
    pub(super) waiting: usize,
}

#[derive(Debug, Default)]
struct State {
    backlog: Backlog,
    company: Company,
    /// How many waited when the flush began that is under way.
    flushing: usize,
    is_stopped: bool,
}

impl FlusherBell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a turn has left to do.
    pub(super) fn tell(&self, backlog: Backlog) {
        let mut state = self.lock();
        state.backlog = backlog;
        let is_company_there = state.company.is_there(backlog.waiting);
        drop(state);
        if backlog.waiting > 0 {
            self.wake(if is_company_there { GATHERING } else { DOZING });
        } else if backlog.is_dirty {
            self.wake(ASLEEP);
        }
    }

    /// Wakes it if it rests so deeply, or deeper.
    fn wake(&self, depth: u8) {
        if self.rest.load(Ordering::SeqCst) >= depth {
            // Only with the lock: between its last look and its sleep the flusher hears nothing.
            let _state = self.lock();
            if self.rest.load(Ordering::SeqCst) >= depth {
                self.rest.store(AWAKE, Ordering::SeqCst);
                self.bell.notify_one();
            }
        }
    }

    /// Whether it sleeps until it is woken.
    pub(super) fn is_asleep(&self) -> bool {
        self.rest.load(Ordering::SeqCst) == ASLEEP
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_asleep() && !self.lock().backlog.is_dirty
    }

    /// Lets the flusher end when it has done what it was asked for.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.wake(GATHERING);
    }

    /// Waits until there is something to do; for company at most so long.
    fn wait(&self, shared: &Shared, flush: &dyn Flush, patience: Duration) -> Task {
        let mut state = self.lock();
        let mut is_late = false;
        let mut gathers_since: Option<Stopwatch> = None;
        let task = loop {
            self.rest.store(ASLEEP, Ordering::SeqCst);
            let State { backlog: Backlog { is_dirty, waiting }, company, is_stopped, .. } = *state;
            let is_flush_wanted = is_dirty && flush.is_wanted();
            let is_turn_wanted = shared.is_work_left();
            let rest = if is_flush_wanted && waiting > 0 {
                let since = *gathers_since.get_or_insert_with(Stopwatch::start);
                let rest = patience.saturating_sub(since.elapsed());
                let is_there = company.is_there(waiting);
                if is_there || is_stopped || rest.is_zero() {
                    if !is_there {
                        state.company.note_absence();
                    }
                    state.flushing = waiting;
                    break Task::Flush;
                }
                self.rest.store(GATHERING, Ordering::SeqCst);
                rest
            } else if is_flush_wanted && (is_late || is_stopped) {
                break Task::Flush;
            } else if is_turn_wanted && (is_late || is_stopped) {
                break Task::Turn;
            } else if is_stopped {
                break Task::End;
            } else if is_flush_wanted || is_turn_wanted {
                self.rest.store(DOZING, Ordering::SeqCst);
                LAZY
            } else {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                is_late = false;
                continue;
            };
            let waited = self.bell.wait_timeout(state, rest);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            is_late = timeout.timed_out();
        };
        self.rest.store(AWAKE, Ordering::SeqCst);
        task
    }

    /// A flush is done, and callers are at work or not.
    fn note(&self, are_callers_at_work: bool) {
        let mut state = self.lock();
        state.company.note(are_callers_at_work);
        // Whose turn it is to answer them has not said so yet.
        let done = std::mem::take(&mut state.flushing);
        state.backlog.waiting = state.backlog.waiting.saturating_sub(done);
    }
}

/// What the flusher has to do.
enum Task {
    Flush,
    /// Whoever promised a turn is late.
    Turn,
    End,
}

/// Starts the flusher.
pub(super) fn start(shared: Arc<Shared>, flush: Arc<dyn Flush>) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name("bellwether-flusher".into())
        .spawn(move || run(&shared, &*flush))
        .expect("a thread for the flusher")
}

fn run(shared: &Shared, flush: &dyn Flush) {
    let mut patience = Duration::ZERO;
    loop {
        match shared.flusher.wait(shared, flush, patience) {
            Task::Flush => {
                let stopwatch = Stopwatch::start();
                let flushed = flush.flush();
                let took = stopwatch.elapsed();
                patience = took.min(GATHERING_MAX);
                shared.flusher.flush_us.record(took.as_micros() as u64);
                shared.flusher.note(shared.are_callers_at_work());
                match flushed {
                    Ok(_) if shared.announce() => {}
                    Ok(_) => shared.take_turn(|_| ()),
                    Err(fault) => shared.take_turn(|shard| shard.fail(fault)),
                }
            }
            Task::Turn => shared.take_turn(|_| ()),
            Task::End => return,
        }
    }
}
