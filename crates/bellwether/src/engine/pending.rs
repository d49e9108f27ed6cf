//! An answer to come.

use std::pin::Pin;
use std::task::{Context, Poll};

use bellwether_core::command::Command;
use bellwether_core::name::Ticket;
use tokio::sync::oneshot;

use super::content::Unread;
use super::inbox::{Answer, Asker, Undo};
use super::local::shared::Shared;
use super::{Call, Reply};
use crate::error::Error;

/// See the module. Dropped before it came, the request is withdrawn; if it was answered in that
/// moment, what it was given is given back. Nothing stays locked for nobody.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    answer: oneshot::Receiver<(Answer, Undo)>,
    shared: &'a Shared,
    ticket: Ticket,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call lies in the inbox; its answer nearly always waits for a flush.
    AskedToFlush,
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
        let undo = Undo::of(&call.request);
        Self::with_undo(shared, call, undo)
    }

    /// The same for a call that is undone otherwise, or not at all, if nobody takes its answer.
    pub(crate) fn with_undo(shared: &'a Shared, call: Call, undo: Undo) -> Self {
        let (reply, answer) = oneshot::channel();
        let asker = Asker { reply, undo };
        let asked = match call.request.command {
            Command::Send { .. } | Command::Settle { .. } => Step::AskedToFlush,
            _ => Step::Asked,
        };
        let (ticket, step) = match shared.inbox.push_call(call, asker) {
            Some(ticket) => (ticket, asked),
            None => (Ticket(0), Step::Waiting),
        };
        Self { answer, shared, ticket, step }
    }
}

impl Future for Pending<'_> {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.step {
            Step::AskedToFlush if self.shared.leave_to_flusher() => self.step = Step::Waiting,
            Step::AskedToFlush | Step::Asked => {
                self.step = Step::Yielded;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Step::Yielded => {
                self.step = Step::Waiting;
                if self.answer.is_empty() {
                    self.shared.work();
                }
            }
            Step::Waiting | Step::Done => {}
        }
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(cx));
        self.step = Step::Done;
        let (answer, _) = answer.map_err(|_| {
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
        self.answer.close();
        if let Ok((answer, undo)) = self.answer.try_recv() {
            self.shared.give_back(undo, &answer);
        } else {
            self.shared.inbox.push_withdraw(self.ticket);
            self.shared.work();
        }
    }
}
