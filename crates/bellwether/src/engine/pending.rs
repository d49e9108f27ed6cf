//! An answer to come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether_core::name::Ticket;

use super::ask::Ask;
use super::content::Unread;
use super::local::shared::{Entered, Shared};
use super::{Call, Reply};
use crate::error::Error;

/// See the module. Nothing is asked before it is polled. Dropped before the answer came, the request
/// is withdrawn; if it was answered in that moment, what it was given is given back. Nothing stays
/// locked for nobody.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    ask: Arc<Ask>,
    shared: &'a Shared,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nobody else knows of it.
    New,
    /// Others in this runtime were let go first, and rely on it that we take a turn for them all.
    Promised(Ticket),
    /// Somebody takes the turn, or has; the answer wakes us.
    Waiting(Ticket),
    /// Nobody waits for the answer any more.
    Done,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(shared: &'a Shared, call: Call) -> Self {
        Self { ask: Ask::new(call, false), shared, step: Step::New }
    }

    /// The same for a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn for_good(shared: &'a Shared, call: Call) -> Self {
        Self { ask: Ask::new(call, true), shared, step: Step::New }
    }

    /// The first poll. False if the answer can only come later.
    fn begin(&mut self, cx: &Context<'_>) -> bool {
        self.ask.wait(cx.waker());
        match self.shared.enter(Arc::clone(&self.ask)) {
            Entered::Turn(ticket) => {
                self.step = Step::Waiting(ticket);
                self.shared.work();
                true
            }
            Entered::Promise(ticket) => {
                self.step = Step::Promised(ticket);
                cx.waker().wake_by_ref();
                false
            }
            Entered::Wait(ticket) => {
                self.step = Step::Waiting(ticket);
                false
            }
            Entered::Answered => {
                self.step = Step::Done;
                true
            }
        }
    }
}

impl Future for Pending<'_> {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.step {
            Step::New => {
                if !self.begin(cx) {
                    return Poll::Pending;
                }
            }
            Step::Promised(ticket) => {
                self.step = Step::Waiting(ticket);
                self.shared.work();
            }
            // Woken without an answer: the flusher leaves it to us to hand out what is durable.
            Step::Waiting(_) => self.shared.hand_out(),
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
        let (Step::Promised(ticket) | Step::Waiting(ticket)) = self.step else { return };
        match self.ask.leave() {
            Some(answer) => {
                if let Some(call) = self.ask.undo(&answer) {
                    self.shared.tell(call);
                }
            }
            // Takes a turn, as may have been promised.
            None => self.shared.withdraw(ticket),
        }
    }
}
