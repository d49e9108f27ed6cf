//! The loop around one candidacy: take an event, step, do what it says, sleep until it wants to
//! be woken. Every rule is in `bellwether_core::candidacy`.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::{
    Action, Attempt, Candidacy, Event, LossReason, View as CoreView, WorkEnd,
};
use bellwether_core::command::Acquire;
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::time::BootTime;
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::duty::Duty;
use super::leadership::{Fence, Leadership};
use super::{Overrun, View};
use crate::error::Error;
use crate::leases::{Answer, Hold, Leases, Renewal};

/// One look at a lease takes at most so long; then the next one begins.
const LOOK: Duration = Duration::from_secs(30);

/// The work of one term.
pub(super) enum Work {
    /// A task of ours; says how it failed, if it did.
    Task(JoinHandle<Option<String>>),
    /// Whoever holds the guard; ends when the guard is dropped, or says how it ended.
    Guard(oneshot::Receiver<WorkEnd>),
}

impl Work {
    /// How it ended, and what went wrong if it was a task.
    async fn ended(&mut self) -> (WorkEnd, Option<String>) {
        match self {
            Self::Task(task) => {
                let failed = task.await.unwrap_or_else(|error| Some(failure(error)));
                let end = failed.as_ref().map_or(WorkEnd::Finished, |_| WorkEnd::Failed);
                (end, failed)
            }
            // Dropping the sender is the word as well.
            Self::Guard(gone) => (gone.await.unwrap_or(WorkEnd::Finished), None),
        }
    }

    fn abort(&self) {
        match self {
            Self::Task(task) => task.abort(),
            // Nobody can take a value out of somebody's hands; its lease runs out.
            Self::Guard(_) => {}
        }
    }
}

/// Ends this process, at once and without a last word that could hang: whatever else runs here must
/// not run beside the next leader.
fn end_process(lease: &LeaseName, term: Term) {
    use std::io::Write;
    // Nobody may listen there.
    let _ = writeln!(
        std::io::stderr(),
        "bellwether: the work of term {term} of election {lease:?} did not stop in time; \
         this process ends before somebody else leads"
    );
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort();
}

fn failure(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("it panicked: {}", text.as_deref().unwrap_or("without a message"))
        }
        Err(_) => "it did not stop when told to and was aborted".to_owned(),
    }
}

/// A term in office.
struct Tenure {
    leadership: Leadership,
    work: Work,
    /// Until the lease must not be renewed any more.
    held: Option<Box<dyn Hold>>,
    /// The candidacy knows that it shall step down.
    told: bool,
}

impl Tenure {
    async fn next(&mut self) -> Happened {
        tokio::select! {
            biased;
            (end, failure) = self.work.ended() => Happened::Ended(end, failure),
            () = self.leadership.step_down_token().cancelled(), if !self.told => {
                self.told = true;
                Happened::StepDownAsked
            }
        }
    }
}

/// Only if the shell itself is dropped, with its runtime or by a panic, does a work still run.
impl Drop for Tenure {
    fn drop(&mut self) {
        self.leadership.trust(BootTime(0));
        self.leadership.token().cancel();
        self.work.abort();
    }
}

enum Happened {
    Ended(WorkEnd, Option<String>),
    StepDownAsked,
}

/// See the module.
pub(super) struct Shell {
    leases: Arc<dyn Leases>,
    /// Where the work runs, which is not where this does.
    runtime: Handle,
    candidacy: Candidacy,
    /// What is asked for, as it was last.
    acquire: Acquire,
    duty: Box<dyn Duty>,
    overrun: Overrun,
    /// A look at the lease, for a duty that wants to know when it is next.
    look: Option<Answer<Result<bool, Error>>>,
    view: watch::Sender<View>,
    shutdown: CancellationToken,
    closing: bool,
    /// The store was closed under us.
    closed: Option<Error>,
    tenure: Option<Tenure>,
    /// Calls in flight; `Err` if the store was closed. An ask that timed out stays: withdrawing
    /// it could give back what the next ask under the same id is granted.
    calls: JoinSet<Result<Event, Error>>,
    /// One candidacy at a time for one handle.
    _turn: OwnedMutexGuard<()>,
}

impl Shell {
    pub(super) fn new(
        election: &super::Election,
        candidacy: Candidacy,
        turn: OwnedMutexGuard<()>,
        shutdown: CancellationToken,
        duty: Box<dyn Duty>,
    ) -> Self {
        Self {
            leases: Arc::clone(&election.leases),
            runtime: Handle::current(),
            candidacy,
            acquire: election.acquire(),
            duty,
            overrun: election.overrun,
            look: None,
            view: election.view.clone(),
            shutdown,
            closing: false,
            closed: None,
            tenure: None,
            calls: JoinSet::new(),
            _turn: turn,
        }
    }

    /// Runs until the candidacy is closed.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        let mut event = Event::Start;
        loop {
            if let Some(tenure) = &self.tenure {
                self.candidacy.progressed(tenure.leadership.progress_at());
            }
            let actions = self.candidacy.step(self.leases.clock().boot(), event);
            if let Some(tenure) = &self.tenure {
                let until = self.candidacy.trusted_until().unwrap_or_default();
                tenure.leadership.trust(until);
            }
            for action in actions {
                if action == Action::Closed {
                    return self.closed.map_or(Ok(()), Err);
                }
                self.perform(action);
            }
            event = self.next().await;
        }
    }

    async fn next(&mut self) -> Event {
        let wake = self.candidacy.next_wake().unwrap_or(BootTime::NEVER);
        self.look_on();
        let look = async {
            match &mut self.look {
                Some(look) => look.await,
                None => std::future::pending().await,
            }
        };
        let happened = async {
            match &mut self.tenure {
                Some(tenure) => tenure.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.cancelled(), if !self.closing => {
                self.closing = true;
                Event::Shutdown
            }
            happened = happened => self.take(happened),
            Some(answer) = self.calls.join_next() => match answer {
                Ok(Ok(event)) => event,
                Ok(Err(closed)) => {
                    self.closed = Some(closed);
                    self.closing = true;
                    Event::Shutdown
                }
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Event::Wake,
                }
            },
            looked = look => {
                self.look = None;
                self.looked(&looked)
            }
            () = self.leases.clock().sleep_until(wake) => Event::Wake,
        }
    }

    /// Looks out for our turn, while there is something to do before it.
    fn look_on(&mut self) {
        if self.tenure.is_some() || !self.duty.wants_to_stand_by() {
            self.look = None;
        } else if self.look.is_none() {
            self.look = Some(self.leases.turn(self.acquire.lease.clone(), LOOK));
        }
    }

    fn looked(&mut self, is_next: &Result<bool, Error>) -> Event {
        // Unable to tell: better warm for nothing than cold.
        if !matches!(is_next, Ok(false)) {
            self.duty.stand_by(&self.runtime);
        }
        Event::Wake
    }

    fn take(&mut self, happened: Happened) -> Event {
        let term = self.tenure.as_ref().map(|tenure| tenure.leadership.term()).unwrap_or_default();
        match happened {
            Happened::StepDownAsked => {
                let tenure = self.tenure.as_ref();
                let successor = tenure.and_then(|tenure| tenure.leadership.successor());
                Event::StepDownAsked { term, successor }
            }
            Happened::Ended(end, failure) => {
                if let Some(failure) = failure {
                    self.duty.failed(term, failure, &self.runtime);
                }
                Event::WorkEnded(end)
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Acquire { attempt, id, wait_ms } => self.acquire(attempt, id, wait_ms),
            Action::Renew { attempt, deadline, .. } => self.renew(attempt, deadline),
            Action::Release { id, successor, reason } => self.release(id, successor, reason),
            Action::StartWork { term } => self.start(term),
            Action::CancelWork { reason } => {
                if let Some(tenure) = &self.tenure {
                    tenure.leadership.cancel(reason);
                }
            }
            Action::AbortWork => {
                if let Some(tenure) = &mut self.tenure {
                    if self.overrun == Overrun::EndProcess {
                        end_process(&self.acquire.lease, tenure.leadership.term());
                    }
                    tenure.held = None;
                    tenure.work.abort();
                }
            }
            Action::Announce(view) => {
                if let CoreView::Following { after } = view
                    && let Some(tenure) = self.tenure.take()
                {
                    tenure.leadership.cancel(after);
                }
                self.view.send_modify(|seen| *seen = seen.then(view));
            }
            // The loop ends before it comes here.
            Action::Closed => {}
        }
    }

    fn start(&mut self, term: Term) {
        let fence = Fence { election: self.acquire.lease.clone(), term };
        let trusted_until = self.candidacy.trusted_until().unwrap_or_default();
        let leadership = Leadership::new(
            fence,
            self.acquire.id,
            self.leases.member(),
            self.leases.clock().clone(),
            trusted_until,
        );
        let asked = leadership.step_down_token().clone();
        let (lease, id) = (self.acquire.lease.clone(), self.acquire.id);
        let held = Some(self.leases.hold(lease, id, term, asked));
        let work = self.duty.start(leadership.clone(), &self.runtime);
        self.tenure = Some(Tenure { leadership, work, held, told: false });
    }

    fn acquire(&mut self, attempt: Attempt, id: LeaseId, wait_ms: u64) {
        (self.acquire.id, self.acquire.wait_ms) = (id, wait_ms);
        let asked = self.leases.acquire(self.acquire.clone());
        self.calls.spawn(async move {
            let refused = |retry_after_ms| Event::AcquireRefused { attempt, retry_after_ms };
            match asked.await {
                Ok(term) => Ok(Event::Acquired { attempt, term }),
                // Waiting in line was the pause.
                Err(Error::Refused(Refusal::Lease(LeaseRefusal::NotGranted(_)))) => {
                    Ok(refused(Some(0)))
                }
                Err(Error::Refused(Refusal::Busy { retry_after_ms })) => {
                    Ok(refused(Some(retry_after_ms)))
                }
                // Asking again changes nothing: whoever keeps the keys, or said how many, must act.
                Err(
                    error @ Error::Refused(
                        Refusal::Forbidden { .. } | Refusal::Lease(LeaseRefusal::OtherSlots { .. }),
                    ),
                ) => Err(error),
                Err(Error::Refused(_)) => Ok(refused(None)),
                Err(Error::Closed) => Err(Error::Closed),
                Err(_) => Ok(Event::AcquireUnknown { attempt }),
            }
        });
    }

    fn renew(&mut self, attempt: Attempt, deadline: BootTime) {
        let Some(held) = self.tenure.as_ref().and_then(|tenure| tenure.held.as_ref()) else {
            return;
        };
        let renewal = held.renew(deadline);
        self.calls.spawn(async move {
            match renewal.await {
                Renewal::Renewed => Ok(Event::Renewed { attempt }),
                Renewal::RenewedSince(sent_at) => Ok(Event::RenewedSince { attempt, sent_at }),
                Renewal::Lost => Ok(Event::RenewRefused { attempt }),
                Renewal::Unknown => Ok(Event::RenewUnknown { attempt }),
                Renewal::Closed => Err(Error::Closed),
            }
        });
    }

    fn release(&mut self, id: LeaseId, successor: Option<MemberId>, reason: LossReason) {
        let lease = self.acquire.lease.clone();
        let released = self.leases.release(lease, id, successor, reason);
        self.calls.spawn(async move {
            Ok(released.await.map_or(Event::ReleaseUnknown, |()| Event::Released))
        });
    }
}
