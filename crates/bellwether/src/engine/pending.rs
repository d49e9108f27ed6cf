//! An answer to come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
    /// Others in this runtime were let go first, and rely on it that we take a turn for them all.
    Promised,
    /// Somebody else takes the turn; the answer wakes us.
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
}

impl Future for Pending<'_> {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.step {
            Step::Asked if !self.shared.is_in_company() => {
                if !self.shared.leave_to_promise() {
                    self.step = Step::Promised;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.step = Step::Waiting;
            }
            Step::Asked | Step::Promised => {
                self.step = Step::Waiting;
                self.shared.keep_promise();
            }
            // Woken without an answer: the flusher leaves it to us to hand out what is durable.
            Step::Waiting => self.shared.hand_out(),
            Step::Done => {}
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
        match self.ask.leave() {
            Some(answer) => {
                if let Some(call) = self.ask.undo(&answer) {
                    self.shared.tell(call);
                }
            }
            None => self.shared.withdraw(self.ticket),
        }
        if self.step == Step::Promised {
            self.shared.keep_promise();
        }
    }
}
