//! Makes durable what was written, beside the writer.
//!
//! While one flush runs, callers and the writer prepare what the next one makes durable. There is
//! always one under way as long as somebody waits for it; waiting for more company before a flush
//! was measured and costs more than it brings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::shared::{LIGHT_MAX, Seal, Shared};
use crate::engine::inbox::Inbox;
use crate::journal::Flush;

/// How long what nobody waits for may stay unflushed: deliveries, of which a power cut may lose
/// the last ones. Whoever received is about to settle, and then one flush does for both.
const LAZY: Duration = Duration::from_millis(2);

/// Tells the flusher what there is to do.
#[derive(Debug, Default)]
pub(super) struct FlusherBell {
    state: Mutex<State>,
    bell: Condvar,
    /// Set before the flusher looks at the inbox for the last time; so whoever leaves something
    /// there and then finds it unset is seen.
    is_asleep: AtomicBool,
}

/// What a turn has left to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Something is not durable.
    pub(super) is_dirty: bool,
    /// Somebody waits for it to be.
    pub(super) is_awaited: bool,
}

#[derive(Debug, Default)]
struct State {
    backlog: Backlog,
    is_stopped: bool,
}

impl FlusherBell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a turn has left to do.
    pub(super) fn tell(&self, backlog: Backlog) {
        let mut state = self.lock();
        let is_news = backlog.is_dirty && !state.backlog.is_dirty;
        state.backlog = backlog;
        drop(state);
        if backlog.is_awaited || is_news {
            self.look();
        }
    }

    /// Says that there is something to do.
    pub(super) fn look(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            // Only with the lock: between its last look and its sleep the flusher hears nothing.
            let _state = self.lock();
            if self.is_asleep.swap(false, Ordering::SeqCst) {
                self.bell.notify_one();
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst) && !self.lock().backlog.is_dirty
    }

    /// Lets the flusher end when it has done what it was asked for.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.look();
    }

    /// Waits until a flush is worth it. False at the end.
    fn wait(&self, inbox: &Inbox) -> bool {
        let mut state = self.lock();
        let is_worth_it = loop {
            self.is_asleep.store(true, Ordering::SeqCst);
            let Backlog { is_dirty, is_awaited } = state.backlog;
            // What is heavy is the keeper's, unless that waits for us to end.
            let weight = inbox.weight();
            if is_awaited || (weight > 0 && (weight <= LIGHT_MAX || state.is_stopped)) {
                break true;
            }
            if state.is_stopped {
                break is_dirty;
            }
            if !is_dirty {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.bell.wait_timeout(state, LAZY);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                break true;
            }
        };
        self.is_asleep.store(false, Ordering::SeqCst);
        is_worth_it
    }
}

/// Starts the flusher.
pub(super) fn start(shared: Arc<Shared>, flush: Arc<dyn Flush>) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name("bellwether-flusher".into())
        .spawn(move || run(&shared, &*flush))
        .expect("a thread for the flusher")
}

fn run(shared: &Shared, flush: &dyn Flush) {
    while shared.flusher.wait(&shared.inbox) {
        // What is appended already need not wait for somebody else's turn to end.
        let writer = shared.try_lock().or_else(|| (!flush.is_wanted()).then(|| shared.claim()));
        if let Some(writer) = writer {
            shared.flusher_turn(writer, Seal::Now);
            if shared.was_passed_by() {
                // It would otherwise wait for a flush that it has no use for.
                shared.flusher_turn(shared.claim(), Seal::Now);
                if shared.was_passed_by() {
                    shared.keeper.ring();
                }
            }
        }
        if let Err(fault) = flush.flush() {
            shared.claim().guarded(|shard| shard.fail(fault));
        }
        // The turn finds out how far all is durable.
        if let Some(writer) = shared.claim_or_tell() {
            shared.flusher_turn(writer, Seal::IfAwaited);
        }
    }
}
