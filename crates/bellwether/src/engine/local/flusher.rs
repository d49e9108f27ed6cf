//! Makes durable what was written, beside the writer.
//!
//! While one flush runs, callers and the writer prepare what the next one makes durable. There is
//! always one under way as long as somebody waits for it: callers in this process have asked again
//! before it is done, and waiting for more of them costs more than it brings.
//!
//! Those at the other end of a connection need longer to come back. So before a flush for these the
//! flusher waits a little until about as many are there as were before: else they fall into ever
//! smaller groups, each with a flush and a packet of its own. With 64 callers on one connection
//! that is worth five to ten per cent.
//!
//! What lies on the callers' core stays there: the flusher touches the ledger only when nobody else
//! does.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::shared::Shared;
use crate::clock::Stopwatch;
use crate::journal::Flush;
use crate::stats::Tally;

/// How long what nobody waits for may stay unflushed: deliveries, of which a power cut may lose
/// the last ones. Whoever received is about to settle, and then one flush does for both. Also how
/// long a promised turn may be late while nothing is flushed.
const LAZY: Duration = Duration::from_millis(2);
/// How long company is waited for, in flushes; and never longer than this.
const GATHERING_FLUSHES: u32 = 2;
const GATHERING_MAX: Duration = Duration::from_micros(500);

/// It flushes, or is about to look.
const AWAKE: u8 = 0;
/// It waits a little for company.
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
    /// Somebody waits for it to be.
    pub(super) is_awaited: bool,
    /// How many, if they are at the other end of a connection; else zero.
    pub(super) guests: usize,
}

#[derive(Debug, Default)]
struct State {
    backlog: Backlog,
    is_stopped: bool,
    /// How many guests there are for a flush these days.
    company: usize,
}

impl State {
    /// Whether nearly all guests are there.
    fn has_company(&self) -> bool {
        let guests = self.backlog.guests;
        guests == 0 || guests * 5 >= self.company * 4
    }

    /// A flush begins with those who are there. Who has left is forgotten by and by.
    fn note_company(&mut self) {
        self.company = self.backlog.guests.max(self.company - self.company.div_ceil(8));
    }
}

impl FlusherBell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a turn has left to do.
    pub(super) fn tell(&self, backlog: Backlog) {
        let mut state = self.lock();
        state.backlog = backlog;
        let has_company = state.has_company();
        drop(state);
        if backlog.is_awaited {
            self.wake(if has_company { GATHERING } else { DOZING });
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
            let State { backlog: Backlog { is_dirty, is_awaited, .. }, is_stopped, .. } = *state;
            let is_flush_wanted = is_dirty && flush.is_wanted();
            let is_turn_wanted = shared.is_work_left();
            if is_flush_wanted && is_awaited && !is_late && !is_stopped && !state.has_company() {
                self.rest.store(GATHERING, Ordering::SeqCst);
                let since = *gathers_since.get_or_insert_with(Stopwatch::start);
                let rest = patience.saturating_sub(since.elapsed());
                let waited = self.bell.wait_timeout(state, rest);
                let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = woken;
                is_late = timeout.timed_out();
                continue;
            }
            if is_flush_wanted && (is_awaited || is_late || is_stopped) {
                state.note_company();
                break Task::Flush;
            }
            if is_turn_wanted && (is_late || is_stopped) {
                break Task::Turn;
            }
            if is_stopped {
                break Task::End;
            }
            if is_flush_wanted || is_turn_wanted {
                self.rest.store(DOZING, Ordering::SeqCst);
                let waited = self.bell.wait_timeout(state, LAZY);
                let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = woken;
                is_late = timeout.timed_out();
            } else {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                is_late = false;
            }
        };
        self.rest.store(AWAKE, Ordering::SeqCst);
        task
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
                patience = (took * GATHERING_FLUSHES).min(GATHERING_MAX);
                shared.flusher.flush_us.record(took.as_micros() as u64);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with_guests(state: &mut State, guests: usize) -> bool {
        state.backlog = Backlog { is_dirty: true, is_awaited: true, guests };
        state.has_company()
    }

    #[test]
    fn most_guests_are_waited_for_and_who_has_left_is_forgotten() {
        let mut state = State::default();
        assert!(with_guests(&mut state, 1), "nobody else was ever there");
        assert!(with_guests(&mut state, 64));
        state.note_company();
        assert!(!with_guests(&mut state, 51), "of 64");
        assert!(with_guests(&mut state, 52), "of 64");
        assert!(with_guests(&mut state, 0), "callers in this process wait for nobody");
        let flushes = (0..).take_while(|_| {
            let is_late = !with_guests(&mut state, 1);
            state.note_company();
            is_late
        });
        assert!(flushes.count() < 30, "one who is alone does not wait for ever");
    }
}
