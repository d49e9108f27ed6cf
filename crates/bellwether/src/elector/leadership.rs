//! What a leader holds while it leads.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bellwether_core::candidacy::{LossReason, WorkEnd};
pub use bellwether_core::fence::Fence;
use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::time::BootTime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;
use crate::error::Error;

/// The lease is not surely ours any more: stop writing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {} of election {:?} is over: {reason}; stop the work", fence.term, fence.election)]
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
    id: LeaseId,
    member: MemberId,
    clock: Clock,
    /// The last moment of trust, in milliseconds of the boot clock; zero once the term is over.
    trusted_until: AtomicU64,
    /// When the work last said that it gets somewhere, in milliseconds of the boot clock.
    progress_at: AtomicU64,
    ended: OnceLock<LossReason>,
    stop: CancellationToken,
    step_down: CancellationToken,
    successor: OnceLock<MemberId>,
}

impl Leadership {
    pub(super) fn new(
        fence: Fence,
        id: LeaseId,
        member: MemberId,
        clock: Clock,
        trusted_until: BootTime,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                fence,
                id,
                member,
                progress_at: AtomicU64::new(clock.boot().0),
                clock,
                trusted_until: AtomicU64::new(trusted_until.0),
                ended: OnceLock::new(),
                stop: CancellationToken::new(),
                step_down: CancellationToken::new(),
                successor: OnceLock::new(),
            }),
        }
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.shared.fence.term
    }

    /// The member that leads: who this process is to the engine.
    pub fn member(&self) -> MemberId {
        self.shared.member
    }

    /// The id that the lease is held under. Whoever knows it can
    /// [give the lease back](crate::Elections::release) when this process has died.
    pub fn lease_id(&self) -> LeaseId {
        self.shared.id
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
        if self.shared.clock.boot() < self.trusted_until() {
            return Ok(self.shared.fence.clone());
        }
        let reason = self.shared.ended.get().copied().unwrap_or(LossReason::TrustOver);
        Err(Deposed { fence: self.shared.fence.clone(), reason })
    }

    /// How long the lease is surely ours if no further renewal succeeds; zero once it is not.
    pub fn trusted_for(&self) -> Duration {
        Duration::from_millis(self.shared.clock.boot().ms_until(self.trusted_until()))
    }

    /// The work got somewhere. Say so more often than the [limit](crate::Election::stall), if there
    /// is one: renewals go on by themselves and do not tell a work that hangs from one at work.
    pub fn progress(&self) {
        self.shared.progress_at.fetch_max(self.shared.clock.boot().0, Ordering::Relaxed);
    }

    /// Runs `part` of the work and drops it when the work must stop: at its next `.await`, so what
    /// must not be left half done does not belong in it.
    pub async fn scope<F: Future>(&self, part: F) -> Result<F::Output, Deposed> {
        tokio::select! {
            biased;
            reason = self.cancelled() => {
                Err(Deposed { fence: self.shared.fence.clone(), reason })
            }
            done = part => Ok(done),
        }
    }

    /// The last moment of trust, on this machine's boot clock, as of now: every renewal moves it on,
    /// and it is over as soon as the term is. For whoever enforces it from outside this process.
    pub fn trusted_until(&self) -> BootTime {
        BootTime(self.shared.trusted_until.load(Ordering::SeqCst))
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

    /// Gives up the office in favour of `successor`: the work is told to stop, and when it has ended
    /// the lease goes to that member if it waits, otherwise to the first in line.
    pub fn hand_over(&self, successor: MemberId) {
        // Whoever was named first is the one.
        let _ = self.shared.successor.set(successor);
        self.step_down();
    }

    pub(super) fn successor(&self) -> Option<MemberId> {
        self.shared.successor.get().copied()
    }

    pub(super) fn progress_at(&self) -> BootTime {
        BootTime(self.shared.progress_at.load(Ordering::Relaxed))
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
    alive: oneshot::Sender<WorkEnd>,
    shell: JoinHandle<Result<(), Error>>,
}

impl LeadershipGuard {
    pub(super) fn new(seat: Seat, leave: DropGuard, shell: JoinHandle<Result<(), Error>>) -> Self {
        Self { leadership: seat.leadership, leave, alive: seat.alive, shell }
    }

    /// Gives the office to `successor` if that member waits, otherwise to the first in line; waits
    /// until it is given back, or known to run out by itself.
    pub async fn hand_over_to(self, successor: MemberId) -> Result<(), Error> {
        self.leadership.hand_over(successor);
        // The wish must be known before the guard goes: a guard that goes is a plain stop.
        self.leadership.cancelled().await;
        self.release().await
    }

    /// The work has ended by itself, in this way: steps down as [`LeadershipGuard::release`] does, and
    /// whoever asks why leadership changed hears of it instead of a shutdown.
    pub async fn ended(self, how: WorkEnd) -> Result<(), Error> {
        let Self { leave, alive, shell, .. } = self;
        // Before the wish to leave, which would be taken for the reason.
        let _ = alive.send(how);
        let ended = super::joined(shell.await);
        drop(leave);
        ended
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
    pub(super) alive: oneshot::Sender<WorkEnd>,
}
