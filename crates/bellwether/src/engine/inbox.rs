//! The way into the writer: a list under a lock, and a bell.
//!
//! Callers push, the writer takes everything at once. The bell rings only if the writer sleeps.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bellwether_core::command::{Command, Disposition, ReceiveMode, Request, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::name::{
    LeaseId, LeaseName, MemberSlot, QueueName, QueuePath, RequestNumber, Ticket,
};
use bellwether_core::outcome::Outcome;
use tokio::sync::oneshot;

use super::{Call, Reply};
use crate::error::Error;

/// Calls that may wait for the writer; beyond, callers are refused instead of filling memory.
const CALLS_MAX: usize = 200_000;

/// How often the writer lets others go first before it takes what is there.
const GATHER_MAX: usize = 8;

pub(crate) type Answer = Result<Reply, Error>;

/// Something for the writer.
pub(crate) enum Item {
    Call(Ticket, Call, Asker),
    Withdraw(Ticket),
    JobDone(Box<dyn std::any::Any + Send>),
    Fault(crate::journal::JournalFault),
    Close(oneshot::Sender<()>),
}

/// Whoever asked: where the answer goes, and how to undo it if nobody is there to take it.
pub(crate) struct Asker {
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) undo: Undo,
}

/// How to give back what an answer hands out.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    Nothing,
    Receive(MemberSlot, QueuePath),
    Accept(MemberSlot, QueueName),
    Acquire(MemberSlot, LeaseName, LeaseId),
}

impl Undo {
    fn of(request: &Request) -> Self {
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
        let Ok(Reply { outcome, .. }) = answer else { return None };
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
    bell: Condvar,
}

#[derive(Default)]
struct State {
    items: Vec<Item>,
    last_ticket: u64,
    sleeping: bool,
    /// Rung while nobody slept, or without an item: something else may have changed.
    nudged: bool,
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

    /// Hands a call to the writer. The answer comes through what is returned.
    pub(crate) fn submit(self: &Arc<Self>, call: Call) -> Pending {
        let undo = Undo::of(&call.request);
        self.submit_with(call, undo)
    }

    /// The same for a call that is undone otherwise, or not at all, if nobody takes its answer.
    pub(crate) fn submit_with(self: &Arc<Self>, call: Call, undo: Undo) -> Pending {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        state.last_ticket += 1;
        let ticket = Ticket(state.last_ticket);
        let refused = match &state.closed {
            Some(error) => Some(error.clone()),
            None if state.items.len() >= CALLS_MAX => {
                Some(Refusal::Busy { retry_after_ms: 100 }.into())
            }
            None => None,
        };
        if let Some(error) = refused {
            drop(state);
            // The receiver is in our hands: the answer cannot get lost.
            let _ = reply.send(Err(error));
        } else {
            state.items.push(Item::Call(ticket, call, Asker { reply, undo: undo.clone() }));
            self.ring(state);
        }
        Pending { answer, inbox: Arc::clone(self), ticket, undo, taken: false }
    }

    /// Hands anything else to the writer.
    pub(crate) fn push(&self, item: Item) {
        let mut state = self.lock();
        if state.closed.is_none() {
            state.items.push(item);
            self.ring(state);
        }
    }

    /// Something changed that is not an item: time was moved, a flush is done.
    pub(crate) fn nudge(&self) -> bool {
        let mut state = self.lock();
        state.nudged = true;
        let open = state.closed.is_none();
        self.ring(state);
        open
    }

    fn ring(&self, mut state: MutexGuard<'_, State>) {
        let sleeping = std::mem::take(&mut state.sleeping);
        drop(state);
        if sleeping {
            self.bell.notify_one();
        }
    }

    /// Takes everything, after waiting at most `wait` for the first; `None` waits for ever. False
    /// if the wait ended without anything.
    pub(crate) fn take(&self, items: &mut Vec<Item>, wait: Option<Duration>) -> bool {
        let mut state = self.lock();
        if state.items.is_empty() && !state.nudged && wait != Some(Duration::ZERO) {
            state.sleeping = true;
            state = match wait {
                Some(wait) => {
                    self.bell.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.sleeping = false;
        }
        // Whoever rang is seldom alone: let the others put in their calls too, so that one batch
        // serves them all. Alone, this costs less than a microsecond.
        for _ in 0..GATHER_MAX {
            let before = state.items.len();
            if before == 0 {
                break;
            }
            drop(state);
            std::thread::yield_now();
            state = self.lock();
            if state.items.len() == before {
                break;
            }
        }
        let nudged = std::mem::take(&mut state.nudged);
        std::mem::swap(&mut state.items, items);
        nudged || !items.is_empty()
    }

    /// From here on every call is answered with `error`; what was still inside is returned.
    pub(crate) fn close(&self, error: Error) -> Vec<Item> {
        let mut state = self.lock();
        state.closed.get_or_insert(error);
        std::mem::take(&mut state.items)
    }
}

/// An answer to come. Dropped before it came, the request is withdrawn; if it was answered in
/// that moment, what it was given is given back. Nothing stays locked for nobody.
#[derive(Debug)]
pub(crate) struct Pending {
    answer: oneshot::Receiver<Answer>,
    inbox: Arc<Inbox>,
    ticket: Ticket,
    undo: Undo,
    taken: bool,
}

impl Pending {
    /// Nobody waits for the answer; the call stands.
    pub(crate) fn forget(mut self) {
        self.taken = true;
    }
}

impl Future for Pending {
    type Output = Answer;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let answer = std::task::ready!(std::pin::Pin::new(&mut self.answer).poll(cx));
        self.taken = true;
        // A writer that went away without answering has lost the call, not done it.
        Poll::Ready(answer.unwrap_or_else(|_| Err(Error::Closed)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        self.answer.close();
        match self.answer.try_recv() {
            Ok(answer) => give_back(&self.inbox, self.undo.clone(), &answer),
            Err(_) => self.inbox.push(Item::Withdraw(self.ticket)),
        }
    }
}

/// Gives back what an answer handed out to somebody who is no longer there.
pub(crate) fn give_back(inbox: &Arc<Inbox>, undo: Undo, answer: &Answer) {
    if let Some(call) = undo.call(answer) {
        // If this is lost, the lock's own end does the same.
        inbox.submit(call).forget();
    }
}
