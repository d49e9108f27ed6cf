//! The way into the writer: a list under a lock. Callers push, the writer takes everything at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bellwether_core::command::{Command, Disposition, ReceiveMode, Request, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::name::{
    LeaseId, LeaseName, MemberSlot, QueueName, QueuePath, RequestNumber, Ticket,
};
use bellwether_core::outcome::Outcome;
use tokio::sync::oneshot;

use super::Call;
use super::content::Unread;
use crate::error::Error;

/// Calls that may wait for the writer; beyond, callers are refused instead of filling memory.
const CALLS_MAX: usize = 200_000;

pub(crate) type Answer = Result<Unread, Error>;

/// Something for the writer.
#[allow(clippy::large_enum_variant, reason = "nearly every item is a call")]
pub(crate) enum Item {
    Call(Ticket, Call, Asker),
    Withdraw(Ticket),
}

/// Whoever asked: where the answer goes, and how to undo it if nobody is there to take it.
pub(crate) struct Asker {
    pub(crate) reply: oneshot::Sender<(Answer, Undo)>,
    pub(crate) undo: Undo,
}

impl Asker {
    /// Hands over the answer; gives it back if nobody takes it.
    pub(crate) fn answer(self, answer: Answer) -> Option<(Answer, Undo)> {
        self.reply.send((answer, self.undo)).err()
    }
}

/// How to give back what an answer hands out.
#[derive(Debug)]
pub(crate) enum Undo {
    Nothing,
    Receive(MemberSlot, QueuePath),
    Accept(MemberSlot, QueueName),
    Acquire(MemberSlot, LeaseName, LeaseId),
}

impl Undo {
    pub(crate) fn of(request: &Request) -> Self {
        match &request.command {
            Command::Receive(receive) if receive.mode == ReceiveMode::PeekLock => {
                Self::Receive(request.member, receive.from.clone())
            }
            Command::ReceiveDeferred { from, mode: ReceiveMode::PeekLock, .. } => {
                Self::Receive(request.member, from.clone())
            }
            Command::AcceptSession { queue, .. } => Self::Accept(request.member, queue.clone()),
            Command::Acquire(acquire) => {
                Self::Acquire(request.member, acquire.lease.clone(), acquire.id)
            }
            _ => Self::Nothing,
        }
    }

    /// The call that gives back what was handed out by `answer`, if anything was.
    pub(crate) fn call(self, answer: &Answer) -> Option<Call> {
        let Ok(Unread { outcome, .. }) = answer else { return None };
        let (member, command) = match (self, outcome) {
            (Self::Receive(member, from), Outcome::Received(views)) if !views.is_empty() => {
                let tokens = views.iter().filter_map(bellwether_core::message::MessageView::token);
                let settlements = tokens
                    .map(|token| Settlement {
                        token,
                        disposition: Disposition::Release,
                        overlay: None,
                    })
                    .collect();
                (member, Command::Settle { from, settlements })
            }
            (Self::Accept(member, queue), Outcome::Session(Some(hold))) => {
                (member, Command::CloseSession { queue, token: hold.token.clone() })
            }
            (Self::Acquire(member, lease, id), Outcome::Granted { .. }) => {
                (member, Command::ReleaseLease { lease, id, successor: None })
            }
            _ => return None,
        };
        let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
        let request = Request { member, number, answered_below, command };
        Some(Call { request, contents: Vec::new() })
    }
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
    pub(crate) fn push_call(&self, call: Call, asker: Asker) -> Option<Ticket> {
        let mut state = self.lock();
        let is_full = state.items.len() >= CALLS_MAX;
        let busy = || is_full.then(|| Refusal::Busy { retry_after_ms: 100 }.into());
        if let Some(error) = state.closed.clone().or_else(busy) {
            drop(state);
            // Nothing was handed out that would have to be given back.
            let _ = asker.answer(Err(error));
            return None;
        }
        state.last_ticket += 1;
        let ticket = Ticket(state.last_ticket);
        self.weight.fetch_add(weight(&call), Ordering::SeqCst);
        state.items.push_back(Item::Call(ticket, call, asker));
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

    /// From here on every call is answered with `error`.
    pub(crate) fn close(&self, error: Error) {
        self.lock().closed.get_or_insert(error);
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
