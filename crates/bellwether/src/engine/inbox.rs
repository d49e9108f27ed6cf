//! The way into the writer: a list under a lock. Callers push, the writer takes everything at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::name::Ticket;

use super::Call;
use super::ask::{Ask, Asker};
use crate::error::Error;

/// Calls that may wait for the writer; beyond, callers are refused instead of filling memory.
const CALLS_MAX: usize = 200_000;

/// Something for the writer.
#[derive(Debug)]
pub(crate) enum Item {
    Call(Ticket, Arc<Ask>),
    Withdraw(Ticket),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// How much work lies there, to be looked at without the lock.
    weight: AtomicUsize,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    last_ticket: u64,
    closed: Option<Error>,
    /// Nobody looks here any more.
    is_over: bool,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding this lock leaves a list that is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a call for the writer. `None` if it cannot be taken; then it was answered.
    pub(crate) fn push_call(&self, ask: Arc<Ask>) -> Option<Ticket> {
        let mut state = self.lock();
        // What gives back what nobody took is always welcome.
        let is_welcome = ask.is_told() && !state.is_over;
        let is_full = state.items.len() >= CALLS_MAX;
        let busy = || is_full.then(|| Refusal::Busy { retry_after_ms: 100 }.into());
        let refused = if is_welcome { None } else { state.closed.clone().or_else(busy) };
        if let Some(error) = refused {
            drop(state);
            // Nothing was handed out that would have to be given back.
            let _ = Asker::new(ask).answer(Err(error));
            return None;
        }
        state.last_ticket += 1;
        let ticket = Ticket(state.last_ticket);
        self.weight.fetch_add(weight(ask.call()), Ordering::SeqCst);
        state.items.push_back(Item::Call(ticket, ask));
        Some(ticket)
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn push_withdraw(&self, ticket: Ticket) {
        let mut state = self.lock();
        if state.closed.is_none() {
            self.weight.fetch_add(1, Ordering::SeqCst);
            state.items.push_back(Item::Withdraw(ticket));
        }
    }

    /// Takes everything; `items` must be empty.
    pub(crate) fn take(&self, items: &mut VecDeque<Item>) {
        let mut state = self.lock();
        std::mem::swap(&mut state.items, items);
        self.weight.store(0, Ordering::SeqCst);
    }

    /// How much work lies there, in messages; zero if nothing does.
    pub(crate) fn weight(&self) -> usize {
        self.weight.load(Ordering::SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// From here on every call that somebody waits for is answered with `error`.
    pub(crate) fn close(&self, error: Error) {
        self.lock().closed.get_or_insert(error);
    }

    /// Nothing enters after this.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.closed.get_or_insert(Error::Closed);
        state.is_over = true;
    }
}

/// How many messages a call sends or settles; one for anything else.
fn weight(call: &Call) -> usize {
    match &call.request.command {
        Command::Send { messages, .. } => messages.len().max(1),
        Command::Settle { settlements, .. } => settlements.len().max(1),
        _ => 1,
    }
}
