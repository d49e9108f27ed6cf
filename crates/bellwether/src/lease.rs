//! A lease by itself, kept by its own renewals: Azure's blob lease as a plain handle.
//!
//! Whoever holds it shows an id with every action; the outcomes are those of Azure's table. Nothing
//! runs in the background: a lease that is not renewed ends. For work that must stop when the
//! lease does, use an [`Election`](crate::Election).

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Acquire, Command, LeaseKind};
use bellwether_core::fence::Fence;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, Outcome};
use bellwether_core::time::BootTime;

use crate::engine::Reply;
use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::queue::ms;

/// A handle to one lease. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// # use bellwether::{Bellwether, Ttl};
/// use std::time::Duration;
///
/// let bw = Bellwether::open("memory:").await?;
/// let lease = bw.lease("migration")?;
/// let grant = lease.acquire(Duration::from_secs(30)).await?;
/// assert!(lease.acquire(Ttl::Infinite).await.is_err(), "somebody holds it");
/// lease.renew(grant.id).await?;
/// lease.release(grant.id).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    inner: Arc<Inner>,
    name: LeaseName,
    wait: Duration,
    metadata: String,
}

/// How long a lease lasts without a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// So long.
    Fixed(Duration),
    /// Until it is released or broken.
    Infinite,
}

impl From<Duration> for Ttl {
    fn from(ttl: Duration) -> Self {
        Self::Fixed(ttl)
    }
}

impl Ttl {
    fn ms(self) -> u64 {
        match self {
            // The longest duration is still a duration, and refused as too long.
            Self::Fixed(ttl) => ms(ttl).min(limits::LEASE_MS_INFINITE - 1),
            Self::Infinite => limits::LEASE_MS_INFINITE,
        }
    }
}

/// A lease granted, renewed or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Shown with every later action on it.
    pub id: LeaseId,
    /// The fencing token; only grows.
    pub term: Term,
    /// How long it lasts without a renewal.
    pub ttl: Ttl,
    /// The last moment it may be acted on without a new renewal, on this machine's boot clock:
    /// 80 % of the ttl after it was *asked for*. After a long wait in line that may have passed:
    /// renew first. So after a change of id, which starts no time anew and earns no trust.
    pub trusted_until: BootTime,
}

impl Lease {
    pub(crate) fn new(inner: Arc<Inner>, name: LeaseName) -> Self {
        Self { inner, name, wait: Duration::ZERO, metadata: String::new() }
    }

    /// The lease's name.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Waits in line so long when somebody else holds it; not at all if not said.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What others see of the holder.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Takes it under a new id. Dropping the future withdraws, or gives it back.
    pub async fn acquire(&self, ttl: impl Into<Ttl>) -> Result<Grant, Error> {
        let id = LeaseId(crate::chance::random_u128());
        self.grant(id, true, self.inner.ask(self.ask(id, ttl.into()))).await
    }

    /// Takes it under a chosen id. The same id again, after an answer that was lost, is the same
    /// grant again with a new duration.
    ///
    /// Dropping the future withdraws from the line. It gives nothing back, for the lease may have
    /// been held under this id before: ask again under the id, or release it.
    pub async fn acquire_as(&self, id: LeaseId, ttl: impl Into<Ttl>) -> Result<Grant, Error> {
        let asked = self.inner.ask_for_good(self.ask(id, ttl.into()));
        self.grant(id, true, asked).await
    }

    fn ask(&self, id: LeaseId, ttl: Ttl) -> Command {
        Command::Acquire(Acquire {
            lease: self.name.clone(),
            id,
            kind: LeaseKind::Standing,
            ttl_ms: ttl.ms(),
            metadata: self.metadata.clone(),
            wait_ms: ms(self.wait),
            priority: 0,
            slots: 1,
        })
    }

    /// Starts its time anew; its duration stays. Succeeds after its end too, under the same term,
    /// if nobody touched it since.
    pub async fn renew(&self, id: LeaseId) -> Result<Grant, Error> {
        let command = Command::RenewLease { lease: self.name.clone(), id };
        self.grant(id, true, self.inner.ask(command)).await
    }

    /// Gives it another id and a new term; neither its duration nor its time changes.
    pub async fn change(&self, id: LeaseId, to: LeaseId) -> Result<Grant, Error> {
        let command = Command::ChangeLease { lease: self.name.clone(), id, to };
        self.grant(to, false, self.inner.ask(command)).await
    }

    /// Gives it back.
    pub async fn release(&self, id: LeaseId) -> Result<(), Error> {
        let (lease, successor) = (self.name.clone(), None);
        self.inner.ask(Command::ReleaseLease { lease, id, successor }).await?;
        Ok(())
    }

    /// Takes it from its holder, whoever that is, after `period` or what is left of it, whichever
    /// is shorter; returns how long that is. Nobody tells the holder: prefer
    /// [`Election::ask_step_down`](crate::Election::ask_step_down).
    pub async fn break_(&self, period: Option<Duration>) -> Result<Duration, Error> {
        let command = Command::BreakLease { lease: self.name.clone(), period_ms: period.map(ms) };
        match self.inner.ask(command).await?.outcome {
            Outcome::Breaking { remaining_ms } => Ok(Duration::from_millis(remaining_ms)),
            other => unreachable_outcome(&other),
        }
    }

    /// Asks whoever holds it to step down in favour of `to`, which must wait in line. Whenever the
    /// term ends, that member is granted it before the others, if it still waits then.
    pub async fn hand_over(&self, to: MemberId) -> Result<(), Error> {
        self.inner.ask(Command::HandOver { lease: self.name.clone(), to }).await?;
        Ok(())
    }

    /// From here on nobody is granted it, also after a restart: who asks waits in line, or is
    /// refused with [`Paused`](bellwether_core::error::LeaseRefusal::Paused). Whoever holds it is
    /// asked to step down, unless `keep_leader`.
    pub async fn pause(&self, keep_leader: bool) -> Result<(), Error> {
        let lease = self.name.clone();
        self.inner.ask(Command::PauseLease { lease, keep_leader }).await?;
        Ok(())
    }

    /// It is granted again, at once if somebody waits.
    pub async fn resume(&self) -> Result<(), Error> {
        self.inner.ask(Command::ResumeLease { lease: self.name.clone() }).await?;
        Ok(())
    }

    /// The lease, of whichever kind; `None` if nobody ever asked for it.
    pub async fn info(&self) -> Result<Option<LeaseInfo>, Error> {
        self.inner.describe_lease(self.name.clone()).await
    }

    /// Waits until its [version](LeaseInfo::version) is not the one last seen, zero for never;
    /// `None` if nothing changed within `wait`.
    pub async fn watch(&self, seen: u64, wait: Duration) -> Result<Option<LeaseInfo>, Error> {
        let info = self.inner.watch_lease(self.name.clone(), seen, ms(wait)).await?;
        Ok(info.filter(|info| info.version != seen))
    }

    /// The proof of a grant, to be shown to what is written under it.
    pub fn fence(&self, grant: &Grant) -> Fence {
        Fence { election: self.name.clone(), term: grant.term }
    }

    /// Whether the grant may be acted on at this moment.
    pub fn is_trusted(&self, grant: &Grant) -> bool {
        self.inner.clock.boot() < grant.trusted_until
    }

    /// The answer to what is asked here, by the first poll, and not before.
    async fn grant(
        &self,
        id: LeaseId,
        earns_trust: bool,
        asked: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Grant, Error> {
        let sent_at = self.inner.clock.boot();
        let (term, ttl_ms) = match asked.await?.outcome {
            Outcome::Granted { term, ttl_ms } => (term, ttl_ms),
            other => unreachable_outcome(&other),
        };
        let (ttl, trust_ms) = if ttl_ms == limits::LEASE_MS_INFINITE {
            (Ttl::Infinite, u64::MAX)
        } else {
            let trust_ms = ttl_ms * limits::LEASE_TRUST_PERCENT / 100;
            (Ttl::Fixed(Duration::from_millis(ttl_ms)), trust_ms)
        };
        let trusted_until = sent_at.plus_ms(if earns_trust { trust_ms } else { 0 });
        Ok(Grant { id, term, ttl, trusted_until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Bellwether;
    use bellwether_core::outcome::LeaseState;

    /// Asks and goes away before, or just when, the answer comes.
    async fn ask_and_drop(ask: impl Future, wait_for_answer: bool) {
        let mut ask = std::pin::pin!(ask);
        std::future::poll_fn(|cx| {
            let _ = ask.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        if wait_for_answer {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn state(bellwether: &Bellwether, lease: &Lease) -> LeaseState {
        // What the drop left behind for the store to do comes before this.
        bellwether.queues().await.unwrap();
        lease.info().await.unwrap().unwrap().state
    }

    #[tokio::test]
    async fn asking_again_under_an_id_and_leaving_does_not_give_up_what_is_held() {
        let bellwether = Bellwether::open("memory:").await.unwrap();
        let lease = bellwether.lease("migration").unwrap();
        let (id, ttl) = (LeaseId(7), Duration::from_secs(30));
        let grant = lease.acquire_as(id, ttl).await.unwrap();
        for wait_for_answer in [false, true] {
            ask_and_drop(lease.acquire_as(id, ttl), wait_for_answer).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(state(&bellwether, &lease).await, LeaseState::Leased);
        }
        assert!(lease.is_trusted(&grant), "and its holder believes so");
        lease.release(id).await.unwrap();
    }

    #[tokio::test]
    async fn a_grant_under_an_id_that_nobody_knows_is_given_back() {
        let bellwether = Bellwether::open("memory:").await.unwrap();
        let lease = bellwether.lease("migration").unwrap();
        for wait_for_answer in [false, true] {
            ask_and_drop(lease.acquire(Ttl::Infinite), wait_for_answer).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(state(&bellwether, &lease).await, LeaseState::Available);
        }
    }
}
