//! What an election asks of whatever keeps its lease: our own store, or an engine people already
//! run.
//!
//! ```text
//!   Election ── Shell ── dyn Leases ─┬─ own: the store's ledger, here or at a server
//!                                    └─ etcd, PostgreSQL, ZooKeeper, NATS, Azure Blob, each direct
//! ```
//!
//! The rules of trust are the candidacy's, the same for all. An engine keeps these promises:
//!
//! 1. *One holder, growing terms.* A grant's term is greater than that of every grant before it.
//! 2. *Renewed means later.* After [`Renewal::Renewed`] nobody else is granted the lease for a
//!    whole ttl, counted from when the renewal was asked for; after [`Renewal::RenewedSince`], from the
//!    moment it names. [`Renewal::Lost`] is said only if the
//!    engine said so; whatever else happened is [`Renewal::Unknown`].
//! 3. *The same id is the same ask.* An acquire that is repeated under its id, after an answer that
//!    was lost, is the same grant again.
//! 4. *A release is for its id.* It never frees what somebody else holds by now.
//!
//! All of it runs on the renewer's thread ([`crate::renewer`]), also what an engine connects with.

#[cfg(feature = "azure-blob")]
pub(crate) mod azure;
#[cfg(any(feature = "azure-blob", feature = "nats", feature = "zookeeper"))]
mod desk;
#[cfg(feature = "azure-blob")]
mod dial;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
mod facts;
#[cfg(feature = "guardian")]
pub(crate) mod guarded;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod heart;
#[cfg(feature = "nats")]
pub(crate) mod nats;
mod own;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::Acquire;
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::Error;

/// Pause between two looks at whose turn it is.
const TURN_LOOK_MS: u64 = 1_000;

/// What comes of asking an engine.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// See the module.
pub(crate) trait Leases: Debug + Send + Sync {
    /// What it is and can do.
    fn facts(&self) -> &'static Facts;

    /// The clock that trust is measured on.
    fn clock(&self) -> &Clock;

    /// Who this process is to the engine.
    fn member(&self) -> MemberId;

    /// Refuses a ttl that this engine cannot keep.
    fn check_ttl(&self, ttl: Duration) -> Result<(), Refusal> {
        check_ttl_min(self.facts(), ttl)
    }

    /// Refuses more leaders at once than this engine can keep.
    fn check_slots(&self, slots: u32) -> Result<(), Refusal> {
        check_one_slot(self.facts(), slots)
    }

    /// Asks for the lease, and waits in line for as long as it says. Refused with
    /// [`LeaseRefusal::NotGranted`](bellwether_core::error::LeaseRefusal::NotGranted) if somebody
    /// else held it for all that time.
    fn acquire(&self, ask: Acquire) -> Answer<Result<Term, Error>>;

    /// Holds a lease that was granted, until dropped; then it is not renewed any more and runs out.
    /// `id` is the one it was asked for under. `asked` is cancelled when somebody asks its holder to
    /// step down.
    fn hold(
        &self,
        lease: LeaseName,
        id: LeaseId,
        term: Term,
        asked: CancellationToken,
    ) -> Box<dyn Hold>;

    /// Gives it back, to `successor` if that one waits. One that is not ours any more needs no
    /// giving back, and that is no error. `reason` is for those who want to know why later.
    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        reason: LossReason,
    ) -> Answer<Result<(), Error>>;

    /// The lease, if anybody ever asked for it.
    fn describe(&self, lease: LeaseName) -> Answer<Result<Option<LeaseInfo>, Error>>;

    /// Waits until the lease's version is not `seen`; the lease as it is then, or as it still is.
    fn watch(
        &self,
        lease: LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Answer<Result<Option<LeaseInfo>, Error>>;

    /// Waits until this member is the next in line; whether it is. An engine that does not push that
    /// is looked at once in a while.
    fn turn(&self, lease: LeaseName, wait: Duration) -> Answer<Result<bool, Error>> {
        let (described, us, clock) = (self.describe(lease), self.member(), self.clock().clone());
        Box::pin(async move {
            let next = described.await?.is_some_and(|info| info.waiting.first() == Some(&us));
            if !next {
                let pause_ms = crate::queue::ms(wait).min(TURN_LOOK_MS);
                clock.sleep_until(clock.boot().plus_ms(pause_ms)).await;
            }
            Ok(next)
        })
    }

    /// The terms before this one, as far as the engine remembers; newest first.
    fn history(&self, lease: LeaseName) -> Answer<Result<Vec<TermInfo>, Error>>;

    /// Leaves a word for the holder.
    fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>>;

    /// Gives everything back and lets go.
    fn close(&self) -> Answer<()>;
}

/// Every engine, built or not.
pub(crate) const ENGINES: &[Facts] =
    &[own::FACTS, facts::ETCD, facts::POSTGRES, facts::AZURE_BLOB, facts::NATS, facts::ZOOKEEPER];

/// Runs it where renewals run, whoever asks: connections belong to the thread that made them.
#[cfg(any(feature = "etcd", feature = "postgres"))]
fn on_renewer<T: Send + 'static>(
    clock: &Clock,
    task: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Answer<Result<T, Error>> {
    let task = crate::renewer::spawn(clock, task);
    Box::pin(
        async move { task.await.unwrap_or_else(|error| Err(Error::Failed(error.to_string()))) },
    )
}

/// Says it again where no answer came, a few times: for what may be done twice, like a release
/// under its id. A connection that had broken unnoticed must not cost the next leader a whole ttl.
#[cfg(any(feature = "etcd", feature = "postgres"))]
fn again(
    mut ask: impl FnMut() -> Answer<Result<(), Error>> + Send + 'static,
) -> Answer<Result<(), Error>> {
    Box::pin(async move {
        for pause_ms in [10, 50, 200] {
            match ask().await {
                Err(Error::Unknown(_) | Error::Failed(_)) => {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                done => return done,
            }
        }
        ask().await
    })
}

/// What an engine without a memory says when it is asked for earlier terms.
#[cfg(any(
    feature = "azure-blob",
    feature = "etcd",
    feature = "nats",
    feature = "postgres",
    feature = "zookeeper"
))]
fn no_history(engine: &str) -> Error {
    let why = format!(
        "{engine} remembers no term but the newest; elections kept by a Bellwether store have a \
         history"
    );
    Refusal::InvalidValue { what: "history", why }.into()
}

/// Refuses a ttl that is shorter than an engine's shortest.
fn check_ttl_min(facts: &Facts, ttl: Duration) -> Result<(), Refusal> {
    if ttl >= facts.ttl_min {
        return Ok(());
    }
    let why = format!(
        "{ttl:?} is shorter than {:?}, the shortest that is safe on {}",
        facts.ttl_min, facts.name
    );
    Err(Refusal::InvalidValue { what: "ttl", why })
}

/// Refuses more than one leader at once.
fn check_one_slot(facts: &Facts, slots: u32) -> Result<(), Refusal> {
    let why = match slots {
        1 => return Ok(()),
        0 => "an election has at least one".to_owned(),
        _ => format!(
            "{slots} leaders at once cannot be kept by {}; a Bellwether store keeps them",
            facts.name
        ),
    };
    Err(Refusal::InvalidValue { what: "slots", why })
}

/// A lease being held.
pub(crate) trait Hold: Debug + Send + Sync {
    /// Asks for a renewal that counts from here on. Gives up at `deadline`, with every try of the
    /// transport. The answer does not borrow the hold: dropping the one does not end the other.
    fn renew(&self, deadline: BootTime) -> Answer<Renewal>;
}

/// What came of asking for a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It counts from when it was asked for.
    #[cfg_attr(
        not(any(
            feature = "azure-blob",
            feature = "etcd",
            feature = "nats",
            feature = "postgres",
            feature = "zookeeper"
        )),
        allow(dead_code, reason = "our own store has one heartbeat for all")
    )]
    Renewed,
    /// By a heartbeat that was sent then, for others too: it counts from there.
    RenewedSince(BootTime),
    /// The lease is definitely not ours any more.
    Lost,
    /// It may be renewed or not.
    Unknown,
    /// The store was closed; no renewal will ever succeed.
    Closed,
}

/// What an engine is, for people who choose one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: &'static str,
    /// How an address of it begins.
    pub scheme: &'static str,
    /// The feature it is built with; empty if it always is.
    pub feature: &'static str,
    /// The shortest ttl that is safe on it.
    pub ttl_min: Duration,
    /// Where its terms come from, and why they only grow.
    pub terms: &'static str,
    /// How whoever waits hears that a lease is free.
    pub wakes_by: &'static str,
    /// In which order those who wait are served.
    pub line: &'static str,
    /// What one renewal costs it.
    pub renewal: &'static str,
    /// What it cannot do.
    pub lacks: &'static str,
}
