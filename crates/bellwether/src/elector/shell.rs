//! The loop around one candidacy: take an event, step, do what it says, sleep until it wants to
//! be woken. Every rule is in `bellwether_core::candidacy`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bellwether_core::candidacy::{Action, Attempt, Candidacy, Event, View as CoreView, WorkEnd};
use bellwether_core::command::{Acquire, Command};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, Term};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::leadership::{Fence, Leadership};
use super::{OnFailure, View};
use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::presence::{Held, Renewal};

/// Starts the work of one term.
pub(super) type Start = Box<dyn FnMut(Leadership) -> Work + Send>;

/// The work of one term.
pub(super) enum Work {
    /// A task of ours; says how it failed, if it did.
    Task(JoinHandle<Option<String>>),
    /// Whoever holds the guard; ends when the guard is dropped.
    Guard(oneshot::Receiver<()>),
}

impl Work {
    async fn ended(&mut self) -> Option<String> {
        match self {
            Self::Task(task) => task.await.unwrap_or_else(|error| Some(failure(error))),
            Self::Guard(gone) => {
                // Dropping the sender is the word.
                let _ = gone.await;
                None
            }
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
    held: Option<Held>,
    /// The candidacy knows that it shall step down.
    told: bool,
}

impl Tenure {
    async fn next(&mut self) -> Happened {
        tokio::select! {
            biased;
            failure = self.work.ended() => Happened::Ended(failure),
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
    Ended(Option<String>),
    StepDownAsked,
}

/// See the module.
pub(super) struct Shell {
    inner: Arc<Inner>,
    candidacy: Candidacy,
    /// What is asked for; each ask with its own id and wait.
    acquire: Acquire,
    start: Start,
    on_failure: Option<OnFailure>,
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
        start: Start,
        on_failure: Option<OnFailure>,
    ) -> Self {
        Self {
            inner: Arc::clone(&election.inner),
            candidacy,
            acquire: election.acquire(),
            start,
            on_failure,
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
            let actions = self.candidacy.step(self.inner.clock.boot(), event);
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
            () = self.inner.clock.sleep_until(wake) => Event::Wake,
        }
    }

    fn take(&mut self, happened: Happened) -> Event {
        let term = self.tenure.as_ref().map(|tenure| tenure.leadership.term()).unwrap_or_default();
        match happened {
            Happened::StepDownAsked => Event::StepDownAsked { term },
            Happened::Ended(None) => Event::WorkEnded(WorkEnd::Finished),
            Happened::Ended(Some(failure)) => {
                if let Some(on_failure) = &self.on_failure {
                    // Whoever listens must not be able to end the election.
                    let call = AssertUnwindSafe(|| on_failure(term, &failure));
                    let _ = std::panic::catch_unwind(call);
                }
                Event::WorkEnded(WorkEnd::Failed)
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Acquire { attempt, id, wait_ms } => self.acquire(attempt, id, wait_ms),
            Action::Renew { attempt, deadline, .. } => self.renew(attempt, deadline),
            Action::Release { id } => self.release(id),
            Action::StartWork { term } => self.start(term),
            Action::CancelWork { reason } => {
                if let Some(tenure) = &self.tenure {
                    tenure.leadership.cancel(reason);
                }
            }
            Action::AbortWork => {
                if let Some(tenure) = &mut self.tenure {
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
                self.view.send_replace(view.into());
            }
            // The loop ends before it comes here.
            Action::Closed => {}
        }
    }

    fn start(&mut self, term: Term) {
        let fence = Fence { election: self.acquire.lease.clone(), term };
        let trusted_until = self.candidacy.trusted_until().unwrap_or_default();
        let leadership = Leadership::new(fence, self.inner.clock.clone(), trusted_until);
        let step_down = leadership.step_down_token().clone();
        let held = Some(self.inner.hold(self.acquire.lease.clone(), term, step_down));
        let work = (self.start)(leadership.clone());
        self.tenure = Some(Tenure { leadership, work, held, told: false });
    }

    fn acquire(&mut self, attempt: Attempt, id: LeaseId, wait_ms: u64) {
        let inner = Arc::clone(&self.inner);
        let acquire = Acquire { id, wait_ms, ..self.acquire.clone() };
        self.calls.spawn(async move {
            let refused = |retry_after_ms| Event::AcquireRefused { attempt, retry_after_ms };
            match inner.ask(Command::Acquire(acquire)).await {
                Ok(reply) => match reply.outcome {
                    Outcome::Granted { term, .. } => Ok(Event::Acquired { attempt, term }),
                    other => unreachable_outcome(&other),
                },
                // Waiting in line was the pause.
                Err(Error::Refused(Refusal::Lease(LeaseRefusal::NotGranted(_)))) => {
                    Ok(refused(Some(0)))
                }
                Err(Error::Refused(Refusal::Busy { retry_after_ms })) => {
                    Ok(refused(Some(retry_after_ms)))
                }
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
                Renewal::Lost => Ok(Event::RenewRefused { attempt }),
                Renewal::Unknown => Ok(Event::RenewUnknown { attempt }),
                Renewal::Closed => Err(Error::Closed),
            }
        });
    }

    fn release(&mut self, id: LeaseId) {
        let inner = Arc::clone(&self.inner);
        let command =
            Command::ReleaseLease { lease: self.acquire.lease.clone(), id, successor: None };
        self.calls.spawn(async move {
            Ok(match inner.ask(command).await {
                // A lease that is not ours any more needs no giving back.
                Ok(_) | Err(Error::Refused(Refusal::Lease(_) | Refusal::MemberGone)) => {
                    Event::Released
                }
                Err(_) => Event::ReleaseUnknown,
            })
        });
    }
}
