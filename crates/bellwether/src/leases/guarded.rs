//! Leases whose holder has a guardian: it hears of each before it is asked for, and when it is given
//! back.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::Acquire;
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::{Answer, Facts, Hold, Leases, Renewal};
use crate::clock::Clock;
use crate::error::Error;
use crate::guardian::Guard;

/// See the module.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) guard: Arc<Guard>,
}

impl Leases for Guarded {
    fn facts(&self) -> &'static Facts {
        self.leases.facts()
    }

    fn clock(&self) -> &Clock {
        self.leases.clock()
    }

    fn member(&self) -> MemberId {
        self.leases.member()
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), Refusal> {
        self.leases.check_ttl(ttl)
    }

    fn check_slots(&self, slots: u32) -> Result<(), Refusal> {
        self.leases.check_slots(slots)
    }

    fn acquire(&self, ask: Acquire) -> Answer<Result<Term, Error>> {
        let (guard, id) = (Arc::clone(&self.guard), ask.id);
        guard.asked(id, ask.ttl_ms, &ask.lease);
        let asked = self.leases.acquire(ask);
        Box::pin(async move {
            let granted = asked.await;
            // Whatever is not a definite no may have been granted.
            if matches!(granted, Err(Error::Refused(_))) {
                guard.done(id);
            }
            granted
        })
    }

    fn hold(
        &self,
        lease: LeaseName,
        id: LeaseId,
        term: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold> {
        let hold = self.leases.hold(lease, id, term, asked);
        Box::new(GuardedHold { hold, id, guard: Arc::clone(&self.guard) })
    }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        reason: LossReason,
    ) -> Answer<Result<(), Error>> {
        let guard = Arc::clone(&self.guard);
        let released = self.leases.release(lease, id, successor, reason);
        Box::pin(async move {
            released.await?;
            guard.done(id);
            Ok(())
        })
    }

    fn describe(&self, lease: LeaseName) -> Answer<Result<Option<LeaseInfo>, Error>> {
        self.leases.describe(lease)
    }

    fn watch(
        &self,
        lease: LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Answer<Result<Option<LeaseInfo>, Error>> {
        self.leases.watch(lease, seen, wait)
    }

    fn turn(&self, lease: LeaseName, wait: Duration) -> Answer<Result<bool, Error>> {
        self.leases.turn(lease, wait)
    }

    fn history(&self, lease: LeaseName) -> Answer<Result<Vec<TermInfo>, Error>> {
        self.leases.history(lease)
    }

    fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>> {
        self.leases.ask_step_down(lease)
    }

    fn close(&self) -> Answer<()> {
        let (guard, closed) = (Arc::clone(&self.guard), self.leases.close());
        Box::pin(async move {
            closed.await;
            guard.goodbye();
        })
    }
}

#[derive(Debug)]
struct GuardedHold {
    hold: Box<dyn Hold>,
    id: LeaseId,
    guard: Arc<Guard>,
}

impl Hold for GuardedHold {
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (renewing, guard, id) = (self.hold.renew(deadline), Arc::clone(&self.guard), self.id);
        Box::pin(async move {
            let renewal = renewing.await;
            if renewal == Renewal::Lost {
                guard.done(id);
            }
            renewal
        })
    }
}
