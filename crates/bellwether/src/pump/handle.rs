//! A running pump, from outside.

use std::sync::Arc;

use bellwether_core::command::Disposition;
use tokio::sync::watch;

/// What the pump is asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wish {
    #[default]
    Take,
    Pause,
    Stop,
}

/// Where a pump is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PumpState {
    /// Not run yet.
    #[default]
    Idle,
    /// Takes messages.
    Taking,
    /// Takes none; what runs goes on.
    Paused,
    /// Takes none; ends when what runs has ended.
    Stopping,
    /// Has ended.
    Stopped,
}

/// What a pump does now, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PumpCounts {
    /// Where it is in its life.
    pub state: PumpState,
    /// A receive is in flight, or a wish for a session.
    pub receiving: bool,
    /// Sessions that are held.
    pub sessions: usize,
    /// Messages that wait, locked, for a handler.
    pub waiting: usize,
    /// Handlers that run.
    pub running: usize,
    /// Messages whose settlement is not answered yet.
    pub settling: usize,
    /// Handlers that ended.
    pub handled: u64,
    /// Of these, by an error or a panic.
    pub failed: u64,
    /// Messages completed.
    pub completed: u64,
    /// Messages that come back, counted.
    pub abandoned: u64,
    /// Messages set aside.
    pub deferred: u64,
    /// Messages that became dead letters by the handler's word.
    pub dead_lettered: u64,
    /// Messages given back unused.
    pub released: u64,
    /// Locks started anew.
    pub renewed: u64,
    /// Locks lost under a running handler.
    pub lost: u64,
    /// Times that the error callback panicked; what it was to be told is lost.
    pub callback_panics: u64,
}

impl PumpCounts {
    /// Nothing is received, held, run or settled, and no session is held.
    pub fn is_quiet(&self) -> bool {
        !self.receiving && self.sessions + self.waiting + self.running + self.settling == 0
    }

    pub(super) fn settled(&mut self, disposition: Disposition) {
        *match disposition {
            Disposition::Complete => &mut self.completed,
            Disposition::Abandon { .. } => &mut self.abandoned,
            Disposition::Release => &mut self.released,
            Disposition::Defer => &mut self.deferred,
            Disposition::DeadLetter => &mut self.dead_lettered,
        } += 1;
    }
}

#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) wish: watch::Sender<Wish>,
    pub(super) counts: watch::Sender<PumpCounts>,
}

/// Steers a pump and looks at it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PumpHandle {
    pub(super) control: Arc<Control>,
}

impl PumpHandle {
    /// Stops taking messages and gives back those no handler has begun, uncounted; what runs goes
    /// on. It has taken effect when [`PumpCounts::state`] says so.
    pub fn pause(&self) {
        self.wish(Wish::Pause);
    }

    /// Takes messages again.
    pub fn resume(&self) {
        self.wish(Wish::Take);
    }

    /// Takes no more, lets what runs end and settles it; then `run` returns. Cannot be
    /// taken back.
    pub fn stop(&self) {
        self.wish(Wish::Stop);
    }

    /// What it does now, and what it has done.
    pub fn counts(&self) -> PumpCounts {
        *self.control.counts.borrow()
    }

    /// Waits until the condition holds, or the pump has ended.
    pub async fn wait_for(&self, mut condition: impl FnMut(&PumpCounts) -> bool) -> PumpCounts {
        let mut counts = self.control.counts.subscribe();
        let met =
            counts.wait_for(|counts| condition(counts) || counts.state == PumpState::Stopped).await;
        *met.expect("the sender is in our own hands")
    }

    fn wish(&self, wish: Wish) {
        self.control.wish.send_if_modified(|current| {
            let changes = *current != wish && *current != Wish::Stop;
            if changes {
                *current = wish;
            }
            changes
        });
    }
}
