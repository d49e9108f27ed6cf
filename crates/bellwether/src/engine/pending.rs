//! An answer to come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether_core::name::Ticket;

use super::ask::Ask;
use super::content::Unread;
use super::local::shared::{Entered, Shared};
use super::remote::Remote;
use super::{Call, Reply};
use crate::error::Error;

/// See the module. Nothing is asked before it is polled. Dropped before the answer came, the request
/// is withdrawn; if it was answered in that moment, what it was given is given back. Nothing stays
/// locked for nobody.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    ask: Arc<Ask>,
    way: Way<'a>,
    step: Step,
}

/// Where it is asked.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    Local(&'a Shared),
    Remote(&'a Remote),
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
    /// `is_for_good`: the outcome stands even if nobody takes the answer.
    pub(crate) fn local(shared: &'a Shared, call: Call, is_for_good: bool) -> Self {
        Self { ask: Ask::new(call, is_for_good), way: Way::Local(shared), step: Step::New }
    }

    /// The same for an engine that is somewhere else.
    pub(crate) fn remote(remote: &'a Remote, call: Call, is_for_good: bool) -> Self {
        Self { ask: Ask::new(call, is_for_good), way: Way::Remote(remote), step: Step::New }
    }

    /// The first poll. False if the answer can only come later.
    fn begin(&mut self, cx: &Context<'_>) -> bool {
        self.ask.wait(cx.waker());
        let ask = Arc::clone(&self.ask);
        let entered = match self.way {
            Way::Local(shared) => shared.enter(ask),
            Way::Remote(remote) => remote.enter(ask),
        };
        match entered {
            Entered::Turn(ticket) => {
                self.step = Step::Waiting(ticket);
                self.work();
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

    /// Takes a turn.
    fn work(&self) {
        if let Way::Local(shared) = self.way {
            shared.work();
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
                self.work();
            }
            // Woken without an answer: the flusher leaves it to us to hand out what is durable.
            Step::Waiting(_) => {
                if let Way::Local(shared) = self.way {
                    shared.hand_out();
                }
            }
            Step::Done => {}
        }
        let answer = std::task::ready!(self.ask.poll(cx));
        self.step = Step::Done;
        let answer = answer.ok_or_else(|| {
            if matches!(self.way, Way::Local(shared) if !shared.inbox.is_closed()) {
                Error::Unknown("the writer broke off over it; see the panic message".into())
            } else {
                Error::Closed
            }
        })?;
        Poll::Ready(answer.map(Unread::read))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let (Step::Promised(ticket) | Step::Waiting(ticket)) = self.step else { return };
        let answer = self.ask.leave();
        match (self.way, answer.map(|answer| self.ask.undo(&answer))) {
            // Takes a turn, as may have been promised.
            (Way::Local(shared), None) => shared.withdraw(ticket),
            (Way::Local(shared), Some(Some(call))) => shared.tell(call),
            (Way::Remote(remote), None) => remote.withdraw(ticket, !self.ask.is_for_good()),
            (Way::Remote(remote), Some(Some(call))) => remote.tell(call),
            (_, Some(None)) => {}
        }
    }
}
