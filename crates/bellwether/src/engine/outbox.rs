//! Answers of many asks in one list: whoever reads it is woken once for all of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::Call;
use super::ask::{Answer, Ask, wake};

/// What became of an ask; `None` if it was withdrawn or lost before there was an answer.
pub(crate) type Posted = (Arc<Ask>, Option<Answer>);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    posted: VecDeque<Posted>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding this lock leaves a list that is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an answer there. Gives back the call that undoes it if nobody will ever read it.
    pub(crate) fn put(&self, ask: Arc<Ask>, answer: Option<Answer>) -> Option<Call> {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return ask.undo_unheard(answer.as_ref()?);
        }
        state.posted.push_back((ask, answer));
        let waker = state.waker.take();
        drop(state);
        wake(waker);
        None
    }

    /// Takes what is there to the end of `posted`; `waker` is woken when there is more.
    #[cfg(feature = "listen")]
    pub(crate) fn take(&self, posted: &mut VecDeque<Posted>, waker: &Waker) {
        let mut state = self.lock();
        if posted.is_empty() {
            // Nothing is moved, and the room that was there is used again.
            std::mem::swap(posted, &mut state.posted);
        } else {
            posted.append(&mut state.posted);
        }
        state.waker.get_or_insert_with(|| waker.clone()).clone_from(waker);
    }

    /// Nothing is kept for answers to come.
    #[cfg(feature = "listen")]
    pub(crate) fn give_back_room(&self) {
        self.lock().posted.shrink_to_fit();
    }

    /// Wakes whoever reads it, to look around. False if nobody does.
    pub(crate) fn nudge(&self) -> bool {
        let waker = self.lock().waker.take();
        let is_there = waker.is_some();
        wake(waker);
        is_there
    }

    /// Nobody reads it any more; gives back what nobody has read.
    #[cfg(feature = "listen")]
    pub(crate) fn close(&self) -> VecDeque<Posted> {
        let mut state = self.lock();
        state.is_closed = true;
        state.waker = None;
        std::mem::take(&mut state.posted)
    }
}
