//! Leases of our own store: the ledger keeps them, here or at a server.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::{Acquire, Command, LeaseKind, ReleaseReason};
use bellwether_core::error::Refusal;
use bellwether_core::lease::check_slots;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, Outcome, TermInfo};
use tokio_util::sync::CancellationToken;

use super::{Answer, Facts, Hold, Leases};
use crate::clock::Clock;
use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::queue::ms;

/// What our own store is.
pub(super) const FACTS: Facts = Facts {
    name: "Bellwether",
    scheme: "memory: file: bellwether://",
    feature: "",
    ttl_min: Duration::from_millis(limits::LEASE_MS_MIN),
    terms: "a counter in the journal, at least Unix milliseconds",
    wakes_by: "push",
    line: "priority, then age; or a named successor",
    renewal: "one heartbeat a member, in memory",
    lacks: "",
};

impl Leases for Arc<Inner> {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn member(&self) -> MemberId {
        self.renewing().engine.member_id()
    }

    fn check_slots(&self, slots: u32) -> Result<(), Refusal> {
        check_slots(LeaseKind::Bound, slots)
    }

    fn acquire(&self, ask: Acquire) -> Answer<Result<Term, Error>> {
        let inner = Arc::clone(self);
        Box::pin(async move {
            let reply = inner.renewer().await?.ask(Command::Acquire(ask)).await?;
            match reply.outcome {
                Outcome::Granted { term, .. } => Ok(term),
                other => unreachable_outcome(&other),
            }
        })
    }

    fn hold(
        &self,
        lease: LeaseName,
        _: LeaseId,
        term: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold> {
        Box::new(self.renewing().hold(lease, term, asked))
    }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        reason: LossReason,
    ) -> Answer<Result<(), Error>> {
        let inner = Arc::clone(self.renewing());
        Box::pin(async move {
            let command = |reason: Option<ReleaseReason>| {
                let lease = lease.clone();
                match reason {
                    Some(reason) => Command::StepDown { lease, id, successor, reason },
                    None => Command::ReleaseLease { lease, id, successor },
                }
            };
            let mut answer = inner.ask(command(told(reason))).await;
            // A server that is older than the reason does not read it; the lease it must get.
            if is_unread(&answer) {
                answer = inner.ask(command(None)).await;
            }
            match answer {
                Ok(_) | Err(Error::Refused(Refusal::Lease(_) | Refusal::MemberGone)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn describe(&self, lease: LeaseName) -> Answer<Result<Option<LeaseInfo>, Error>> {
        let inner = Arc::clone(self);
        Box::pin(async move { inner.describe_lease(lease).await })
    }

    fn watch(
        &self,
        lease: LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Answer<Result<Option<LeaseInfo>, Error>> {
        let inner = Arc::clone(self);
        Box::pin(async move { inner.watch_lease(lease, seen, ms(wait)).await })
    }

    fn turn(&self, lease: LeaseName, wait: Duration) -> Answer<Result<bool, Error>> {
        let inner = Arc::clone(self.renewing());
        Box::pin(async move {
            match inner.ask(Command::AwaitTurn { lease, wait_ms: ms(wait) }).await?.outcome {
                Outcome::Turn { next } => Ok(next),
                other => unreachable_outcome(&other),
            }
        })
    }

    fn history(&self, lease: LeaseName) -> Answer<Result<Vec<TermInfo>, Error>> {
        let inner = Arc::clone(self);
        Box::pin(async move {
            match inner.ask(Command::LeaseHistory { lease, max: u32::MAX }).await?.outcome {
                Outcome::Terms(terms) => Ok(terms),
                other => unreachable_outcome(&other),
            }
        })
    }

    fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>> {
        let inner = Arc::clone(self);
        Box::pin(async move { inner.ask(Command::AskStepDown { lease }).await.map(|_| ()) })
    }

    fn close(&self) -> Answer<()> {
        let inner = Arc::clone(self);
        // By its own name: the trait's method of that name would call itself.
        Box::pin(async move { Inner::close(&inner).await })
    }
}

impl Inner {
    pub(crate) async fn describe_lease(
        &self,
        lease: LeaseName,
    ) -> Result<Option<LeaseInfo>, Error> {
        lease_of(self.ask(Command::DescribeLease { lease }).await?.outcome)
    }

    /// A wait that ended answers with the lease as it still is.
    pub(crate) async fn watch_lease(
        &self,
        lease: LeaseName,
        seen: u64,
        wait_ms: u64,
    ) -> Result<Option<LeaseInfo>, Error> {
        lease_of(self.ask(Command::WatchLease { lease, seen, wait_ms }).await?.outcome)
    }
}

/// Why a holder gives its lease back, for those who will ask; one whose trust was over cannot tell
/// whether it still had it.
fn told(reason: LossReason) -> Option<ReleaseReason> {
    match reason {
        LossReason::StepDownAsked => Some(ReleaseReason::Asked),
        LossReason::Shutdown => Some(ReleaseReason::Shutdown),
        LossReason::WorkFinished => Some(ReleaseReason::Finished),
        LossReason::WorkFailed => Some(ReleaseReason::Failed),
        LossReason::Stalled => Some(ReleaseReason::Stalled),
        LossReason::HandedOver => Some(ReleaseReason::HandedOver),
        LossReason::WorkFailedWith { code } => Some(ReleaseReason::FailedWith { code }),
        LossReason::Died => Some(ReleaseReason::Died),
        LossReason::TrustOver | LossReason::Refused => None,
    }
}

fn is_unread<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Refused(Refusal::InvalidValue { what, .. })) if *what == "call")
}

fn lease_of(outcome: Outcome) -> Result<Option<LeaseInfo>, Error> {
    match outcome {
        Outcome::Lease(info) => Ok(info.map(|info| *info)),
        other => unreachable_outcome(&other),
    }
}
