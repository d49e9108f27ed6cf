//! A call on its way to the writer, and its answer on the way back, in one place.
//!
//! The call stays where its caller put it: the writer reads it there, and the caller lets go of it
//! when the answer is taken. So nothing large is moved, and what a thread allocated it also frees.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bellwether_core::command::{Command, Disposition, ReceiveMode, Request, Settlement};
use bellwether_core::few::Few;
use bellwether_core::message::MessageView;
use bellwether_core::name::RequestNumber;
use bellwether_core::outcome::Outcome;

use super::Call;
use super::content::Unread;
use super::outbox::Outbox;
use crate::error::Error;

pub(crate) type Answer = Result<Unread, Error>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ask {
    call: Call,
    /// What it was given stands even if nobody takes the answer.
    is_for_good: bool,
    /// Nobody waits for the answer, from the beginning.
    is_told: bool,
    progress: Mutex<Progress>,
    post: Option<Post>,
}

/// Where the answer goes, instead of waiting here.
#[derive(Debug)]
struct Post {
    outbox: Arc<Outbox>,
    /// What the reader of the outbox calls the ask.
    #[cfg(feature = "listen")]
    number: u64,
}

#[derive(Debug)]
enum Progress {
    Waiting(Option<Waker>),
    Answered(Answer),
    /// The writer let go of it without an answer.
    Lost,
    /// The answer was taken, or nobody waits for it.
    Over,
}

impl Ask {
    pub(crate) fn new(call: Call, is_for_good: bool) -> Arc<Self> {
        let progress = Mutex::new(Progress::Waiting(None));
        Arc::new(Self { call, is_for_good, is_told: false, progress, post: None })
    }

    /// A call whose answer goes to an outbox, under this number.
    #[cfg(feature = "listen")]
    pub(crate) fn posted(call: Call, outbox: Arc<Outbox>, number: u64) -> Arc<Self> {
        let (progress, post) = (Mutex::new(Progress::Waiting(None)), Some(Post { outbox, number }));
        Arc::new(Self { call, is_for_good: false, is_told: false, progress, post })
    }

    /// A call whose answer nobody waits for.
    pub(crate) fn told(call: Call) -> Arc<Self> {
        let progress = Mutex::new(Progress::Over);
        Arc::new(Self { call, is_for_good: false, is_told: true, progress, post: None })
    }

    /// Whether its outcome stands even if nobody takes the answer.
    pub(crate) fn is_for_good(&self) -> bool {
        self.is_for_good
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever asks waits from here on. Before anybody else knows of it.
    pub(crate) fn wait(self: &mut Arc<Self>, waker: &Waker) {
        let ask = Arc::get_mut(self).expect("nobody else knows of it");
        if let Progress::Waiting(asks) =
            ask.progress.get_mut().unwrap_or_else(PoisonError::into_inner)
        {
            *asks = Some(waker.clone());
        }
    }

    /// Wakes whoever waits, to look around. False if nobody does.
    pub(crate) fn nudge(&self) -> bool {
        if let Some(post) = &self.post {
            return post.outbox.nudge();
        }
        let waker = match &*self.lock() {
            Progress::Waiting(Some(waker)) => waker.clone(),
            _ => return false,
        };
        wake(Some(waker));
        true
    }

    /// Takes the answer; `None` if there will never be one.
    pub(crate) fn poll(self: &mut Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        // Once the writer has answered nobody else knows of it, and it need not be locked.
        if let Some(ask) = Arc::get_mut(self) {
            return ask.progress.get_mut().unwrap_or_else(PoisonError::into_inner).poll(cx);
        }
        self.lock().poll(cx)
    }

    /// Stops waiting; the answer if it came in that moment.
    pub(crate) fn leave(&self) -> Option<Answer> {
        match std::mem::replace(&mut *self.lock(), Progress::Over) {
            Progress::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// What the reader of its outbox calls it.
    #[cfg(feature = "listen")]
    pub(crate) fn number(&self) -> u64 {
        self.post.as_ref().map_or(0, |post| post.number)
    }

    /// Whether nobody wants the answer any more.
    pub(crate) fn is_left(&self) -> bool {
        matches!(*self.lock(), Progress::Over)
    }

    /// The call that gives back what was handed out by an answer nobody takes, if anything was.
    pub(crate) fn undo(&self, answer: &Answer) -> Option<Call> {
        if self.is_for_good {
            return None;
        }
        let Ok(Unread { outcome, .. }) = answer else { return None };
        let Request { member, command, .. } = &self.call.request;
        let command = match (command, outcome) {
            (Command::Receive(receive), Outcome::Received(views))
                if receive.mode == ReceiveMode::PeekLock =>
            {
                Command::Settle { from: receive.from.clone(), settlements: released(views)? }
            }
            (
                Command::ReceiveDeferred { from, mode: ReceiveMode::PeekLock, .. },
                Outcome::Received(views),
            ) => Command::Settle { from: from.clone(), settlements: released(views)? },
            (Command::AcceptSession { queue, .. }, Outcome::Session(Some(hold))) => {
                Command::CloseSession { queue: queue.clone(), token: hold.token.clone() }
            }
            (Command::Acquire(acquire), Outcome::Granted { .. }) => Command::ReleaseLease {
                lease: acquire.lease.clone(),
                id: acquire.id,
                successor: None,
            },
            _ => return None,
        };
        let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
        let request = Request { member: *member, number, answered_below, command, fence: None };
        Some(Call { request, contents: Few::default() })
    }

    /// The same for an answer that may not have reached whoever asked. Under a number it is kept,
    /// to be asked for again.
    pub(crate) fn undo_unheard(&self, answer: &Answer) -> Option<Call> {
        let is_kept = self.call.request.number.0 > 0 && self.call.request.member.0 > 0;
        if is_kept && !self.is_left() { None } else { self.undo(answer) }
    }
}

impl Progress {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        if let Self::Waiting(waker) = self {
            // Clones nothing if it is the same.
            waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            return Poll::Pending;
        }
        match std::mem::replace(self, Self::Over) {
            Self::Answered(answer) => Poll::Ready(Some(answer)),
            _ => Poll::Ready(None),
        }
    }
}

fn released(views: &[MessageView]) -> Option<Few<Settlement>> {
    let tokens = views.iter().filter_map(MessageView::token);
    let settlements: Few<_> = tokens
        .map(|token| Settlement { token, disposition: Disposition::Release, overlay: None })
        .collect();
    (!settlements.is_empty()).then_some(settlements)
}

/// The writer's end of an [`Ask`]: it owes the answer. Dropped without one, whoever waits hears
/// that there will be none.
#[derive(Debug)]
pub(crate) struct Asker(Option<Arc<Ask>>);

impl Asker {
    pub(crate) fn new(ask: Arc<Ask>) -> Self {
        Self(Some(ask))
    }

    /// What was asked.
    pub(crate) fn call(&self) -> &Call {
        self.0.as_ref().expect("it owes an answer until it gives it").call()
    }

    /// Whom it owes the answer.
    pub(crate) fn ask(&self) -> Option<&Arc<Ask>> {
        self.0.as_ref()
    }

    /// Hands over the answer. Gives back the call that undoes it if nobody is there to take it.
    pub(crate) fn answer(self, answer: Answer) -> Option<Call> {
        self.answer_by(wake, answer)
    }

    /// The same for one of many who are answered in a row by a task that then falls asleep.
    pub(crate) fn answer_one_of_many(self, answer: Answer) -> Option<Call> {
        self.answer_by(wake_soon, answer)
    }

    fn answer_by(mut self, wake: impl FnOnce(Option<Waker>), answer: Answer) -> Option<Call> {
        let ask = self.0.take()?;
        if let Some(post) = &ask.post {
            let outbox = Arc::clone(&post.outbox);
            return outbox.put(ask, Some(answer));
        }
        let mut progress = ask.lock();
        let Progress::Waiting(waker) = &mut *progress else {
            drop(progress);
            return ask.undo(&answer);
        };
        let waker = waker.take();
        *progress = Progress::Answered(answer);
        drop(progress);
        drop(ask);
        wake(waker);
        None
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let Some(ask) = self.0.take() else { return };
        if let Some(post) = &ask.post {
            let outbox = Arc::clone(&post.outbox);
            // Nothing was answered, so there is nothing to undo.
            let _ = outbox.put(ask, None);
            return;
        }
        let mut progress = ask.lock();
        if let Progress::Waiting(waker) = &mut *progress {
            let waker = waker.take();
            *progress = Progress::Lost;
            drop(progress);
            wake(waker);
        }
    }
}

/// Wakes when this thread of a runtime has nothing else to do; at once outside of one. Whoever wakes
/// many tasks of a runtime with several workers calls another worker for nearly each of them, which
/// on a busy machine pushes the first one aside: this way it is called once.
pub(crate) fn wake_soon(waker: Option<Waker>) {
    if let Some(waker) = waker {
        let yielded = std::pin::pin!(tokio::task::yield_now());
        let poll = || yielded.poll(&mut Context::from_waker(&waker));
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll));
    }
}

/// A waker is its executor's code: it may poll or drop the task on the spot, so no lock is held
/// here, and if it panics that is its task's misfortune, not the store's.
pub(crate) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    }
}
