//! The way into the writer: a list under a lock. Callers push, the writer takes everything at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::name::Ticket;
use bellwether_core::transaction::Step;

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

/// What somebody found who left a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) ticket: Ticket,
    /// How much work lies there now, in messages.
    pub(crate) weight: usize,
    /// Somebody else has left a call before, and takes a turn.
    pub(crate) is_promised: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// How much work lies there, in messages.
    weight: usize,
    /// Whoever left one of these calls takes a turn.
    is_promised: bool,
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

    /// Leaves a call for the writer, and promises a turn. `None` if it cannot be taken; then it was
    /// answered.
    pub(crate) fn push_call(&self, ask: Arc<Ask>) -> Option<Left> {
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
        state.weight += weight(ask.call());
        state.items.push_back(Item::Call(ticket, ask));
        let is_promised = std::mem::replace(&mut state.is_promised, true);
        Some(Left { ticket, weight: state.weight, is_promised })
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn push_withdraw(&self, ticket: Ticket) {
        let mut state = self.lock();
        if state.closed.is_none() {
            state.weight += 1;
            state.items.push_back(Item::Withdraw(ticket));
        }
    }

    /// Takes everything, and with it the promise; `items` must be empty.
    pub(crate) fn take(&self, items: &mut VecDeque<Item>) {
        let mut state = self.lock();
        std::mem::swap(&mut state.items, items);
        state.weight = 0;
        state.is_promised = false;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Whether somebody who left a call takes a turn.
    pub(crate) fn is_promised(&self) -> bool {
        self.lock().is_promised
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
        Command::Transact { steps } => steps.iter().map(step_weight).sum::<usize>().max(1),
        _ => 1,
    }
}

fn step_weight(step: &Step) -> usize {
    match step {
        Step::Send { messages, .. } => messages.len().max(1),
        _ => 1,
    }
}
