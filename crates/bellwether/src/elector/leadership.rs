//! What a leader holds while it leads.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bellwether_core::candidacy::LossReason;
use bellwether_core::name::{LeaseName, Term};
use bellwether_core::time::BootTime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;
use crate::error::Error;

/// Proof of one term, to be shown to every resource the leader writes. A resource that has seen
/// a greater term of the same election refuses a smaller one; then no pause and no lost message
/// can make an old leader's write count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The election's name.
    pub election: LeaseName,
    /// The term; only grows.
    pub term: Term,
}

/// The lease is not surely ours any more: stop writing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {} of election {:?} is over ({reason:?}); stop the work", fence.term, fence.election)]
pub struct Deposed {
    /// Which term.
    pub fence: Fence,
    /// Why it ended.
    pub reason: LossReason,
}

/// One term in office, as the leader's work holds it. Cheap to clone for the work's own tasks;
/// they must have ended when the work ends, for then the next leader may start.
///
/// ```text
///   loop {
///       let fence = leadership.ensure()?;        // right before every act outside the process
///       table.write(row, fence.term).await?;     // the resource refuses a smaller term
///   }                                            // and stop when `cancelled` says so
/// ```
#[derive(Clone, Debug)]
pub struct Leadership {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fence: Fence,
    clock: Clock,
    /// The last moment of trust, in milliseconds of the boot clock; zero once the term is over.
    trusted_until: AtomicU64,
    ended: OnceLock<LossReason>,
    stop: CancellationToken,
    step_down: CancellationToken,
}

impl Leadership {
    pub(super) fn new(fence: Fence, clock: Clock, trusted_until: BootTime) -> Self {
        Self {
            shared: Arc::new(Shared {
                fence,
                clock,
                trusted_until: AtomicU64::new(trusted_until.0),
                ended: OnceLock::new(),
                stop: CancellationToken::new(),
                step_down: CancellationToken::new(),
            }),
        }
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.shared.fence.term
    }

    /// The proof to carry along. It proves which term this is, not that it still lasts; that is
    /// what [`Leadership::ensure`] and the resource are for.
    pub fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// The proof, if the lease is surely ours at this moment. Looks at the clock at every call,
    /// so a process that was frozen for an hour is refused in the very first call after it. While
    /// the work is being stopped in order it still succeeds, so that the work can clean up.
    pub fn ensure(&self) -> Result<Fence, Deposed> {
        let trusted_until = BootTime(self.shared.trusted_until.load(Ordering::SeqCst));
        if self.shared.clock.boot() < trusted_until {
            return Ok(self.shared.fence.clone());
        }
        let reason = self.shared.ended.get().copied().unwrap_or(LossReason::TrustOver);
        Err(Deposed { fence: self.shared.fence.clone(), reason })
    }

    /// Waits until the work must stop, and says why.
    pub async fn cancelled(&self) -> LossReason {
        self.shared.stop.cancelled().await;
        // The reason is set first; without one the candidacy went away with its runtime.
        self.shared.ended.get().copied().unwrap_or(LossReason::Shutdown)
    }

    /// Cancelled when the work must stop, for code that takes a token.
    pub fn token(&self) -> &CancellationToken {
        &self.shared.stop
    }

    /// Gives up the office: the work is told to stop, and when it has ended the lease is released.
    pub fn step_down(&self) {
        self.shared.step_down.cancel();
    }

    pub(super) fn step_down_token(&self) -> &CancellationToken {
        &self.shared.step_down
    }

    pub(super) fn trust(&self, until: BootTime) {
        self.shared.trusted_until.store(until.0, Ordering::SeqCst);
    }

    pub(super) fn cancel(&self, reason: LossReason) {
        // The first reason is the reason.
        let _ = self.shared.ended.set(reason);
        self.shared.stop.cancel();
    }
}

/// Leadership for as long as this value lives. Dropping it steps down: the lease is released
/// after the drop, in the background; [`LeadershipGuard::release`] waits for it.
///
/// Whoever holds it is the work: watch [`Leadership::cancelled`], stop, and drop it. A guard that
/// is kept after its term was lost, or longer than the grace after it was asked to step down,
/// keeps nobody in office: the lease is not renewed any more and runs out.
#[derive(Debug)]
pub struct LeadershipGuard {
    leadership: Leadership,
    // Dropped in this order: first the wish to leave, then the word that the work has ended.
    leave: DropGuard,
    alive: oneshot::Sender<()>,
    shell: JoinHandle<Result<(), Error>>,
}

impl LeadershipGuard {
    pub(super) fn new(seat: Seat, leave: DropGuard, shell: JoinHandle<Result<(), Error>>) -> Self {
        Self { leadership: seat.leadership, leave, alive: seat.alive, shell }
    }

    /// Steps down and waits until the lease is given back, or known to run out by itself.
    pub async fn release(self) -> Result<(), Error> {
        let Self { leave, alive, shell, .. } = self;
        drop(leave);
        drop(alive);
        super::joined(shell.await)
    }
}

impl Deref for LeadershipGuard {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.leadership
    }
}

/// A term won, on its way to whoever contends. Dropped, the work has ended.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) leadership: Leadership,
    pub(super) alive: oneshot::Sender<()>,
}
