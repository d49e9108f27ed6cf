//! An answer to come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether_core::command::Command;
use bellwether_core::name::Ticket;

use super::ask::Ask;
use super::content::Unread;
use super::local::shared::Shared;
use super::{Call, Reply};
use crate::error::Error;

/// See the module. Dropped before it came, the request is withdrawn; if it was answered in that
/// moment, what it was given is given back. Nothing stays locked for nobody.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    ask: Arc<Ask>,
    shared: &'a Shared,
    ticket: Ticket,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call lies in the inbox.
    Asked,
    /// Others in this runtime were let go first, so that one batch serves them all.
    Yielded,
    /// The writer has the call; the answer wakes us.
    Waiting,
    /// Nobody waits for the answer any more.
    Done,
}

impl<'a> Pending<'a> {
    /// Leaves the call in the inbox.
    pub(crate) fn new(shared: &'a Shared, call: Call) -> Self {
        Self::with(shared, Ask::new(call, false))
    }

    /// The same for a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn for_good(shared: &'a Shared, call: Call) -> Self {
        Self::with(shared, Ask::new(call, true))
    }

    fn with(shared: &'a Shared, ask: Arc<Ask>) -> Self {
        let (ticket, step) = match shared.inbox.push_call(Arc::clone(&ask)) {
            Some(ticket) => (ticket, Step::Asked),
            None => (Ticket(0), Step::Waiting),
        };
        Self { ask, shared, ticket, step }
    }

    /// Whether somebody else does the call without being asked to.
    fn is_left(&self) -> bool {
        // These answers nearly always wait for a flush, so they may as well begin with it.
        let command = &self.ask.call().request.command;
        let waits_for_flush = matches!(command, Command::Send { .. } | Command::Settle { .. });
        (waits_for_flush && self.shared.leave_to_flusher()) || self.shared.leave_to_writer()
    }
}

impl Future for Pending<'_> {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.step {
            Step::Asked if self.is_left() => self.step = Step::Waiting,
            Step::Asked => {
                self.step = Step::Yielded;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Step::Yielded => {
                self.step = Step::Waiting;
                if self.ask.is_waiting() {
                    self.shared.work();
                }
            }
            Step::Waiting | Step::Done => {}
        }
        let answer = std::task::ready!(self.ask.poll(cx));
        self.step = Step::Done;
        let answer = answer.ok_or_else(|| {
            if self.shared.inbox.is_closed() {
                Error::Closed
            } else {
                Error::Unknown("the writer broke off over it; see the panic message".into())
            }
        })?;
        Poll::Ready(answer.map(Unread::read))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.step == Step::Done {
            return;
        }
        if let Some(answer) = self.ask.leave() {
            if let Some(call) = self.ask.undo(&answer) {
                self.shared.tell(call);
            }
        } else {
            self.shared.inbox.push_withdraw(self.ticket);
            self.shared.work();
        }
    }
}
