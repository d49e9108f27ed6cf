//! Elections: one of many leads, and knows until when.
//!
//! ```text
//!   acquire ─► run the work ─► leadership ends ─► cancel it ─► it has ended ─► release ─┐
//!      ▲                                                                                │
//!      └───────────────── contend again, until shutdown ────────────────────────────────┘
//! ```
//!
//! Two styles, one set of rules (`bellwether_core::candidacy`): [`Election::lead`] runs the
//! caller's work whenever this member leads; [`Election::contend`] waits and hands out a guard.
//!
//! 1. *Count from before you ask*: trust in a grant is measured from before it was asked for.
//! 2. *Unsure means no*: the work is cancelled when trust ends, without asking anybody.
//! 3. *Stop, then release*: the next leader starts only when this one's work has ended.
//!
//! Between two looks at the clock any process can be frozen. What makes even that harmless is the
//! [`Fence`]: carry its term to every resource, and let the resource refuse a smaller one.

mod duty;
mod leadership;
mod shell;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::candidacy::{Candidacy, Config};
use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName};
use bellwether_core::outcome::{LeaseInfo, TermInfo};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

pub use bellwether_core::candidacy::{LossReason, WorkEnd};
pub use duty::{Elector, WorkOutput};
pub use leadership::{Deposed, Fence, Leadership, LeadershipGuard};
pub use view::{Leader, View};

use crate::error::Error;
use crate::leases::Leases;
use crate::queue::ms;
use crate::renewer;
use duty::Once;
use shell::Shell;

/// A third of it passes between renewals, and a dead leader is followed after a little more.
const TTL: Duration = Duration::from_secs(10);
/// One call in line; it is repeated without a pause.
const WAIT: Duration = Duration::from_secs(30);
/// Pause after a refusal that says nothing better.
const RETRY: Duration = Duration::from_secs(2);
/// Time for the work to end by itself: as long as orchestrators leave a process that they stop.
const GRACE: Duration = Duration::from_secs(30);

/// An election this member can take part in. Cheap to clone. One handle and its clones run one
/// candidacy at a time; a second one waits for its turn.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// # use bellwether::Bellwether;
/// use std::time::Duration;
///
/// let bw = Bellwether::open("memory:").await?;
/// let election = bw.election("reports")?.ttl(Duration::from_secs(5));
///
/// let leadership = election.contend().await?;
/// let fence = leadership.ensure().expect("it was just granted");
/// assert_eq!(election.leader().await?.map(|leader| leader.term), Some(fence.term));
/// leadership.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    leases: Arc<dyn Leases>,
    name: LeaseName,
    ttl: Duration,
    renew: Duration,
    wait: Duration,
    retry: Duration,
    grace: Duration,
    stall: Option<Duration>,
    overrun: Overrun,
    priority: i32,
    slots: u32,
    is_released_on_disconnect: bool,
    metadata: String,
    tags: BTreeMap<String, String>,
    view: watch::Sender<View>,
    /// A task tells what the engine says, for as long as somebody looks on.
    looked_on: Arc<AtomicBool>,
    turn: Arc<Mutex<()>>,
}

/// What is done about work that did not stop in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// Its task is aborted, at its next `.await`. Work that never awaits goes on, and only the fence
    /// protects what it writes.
    #[default]
    Abort,
    /// The process ends, killed, before the lease can pass to somebody else.
    EndProcess,
}

impl Election {
    pub(crate) fn new(leases: Arc<dyn Leases>, name: LeaseName) -> Self {
        Self {
            leases,
            name,
            ttl: TTL,
            renew: Duration::ZERO,
            wait: WAIT,
            retry: RETRY,
            grace: GRACE,
            stall: None,
            overrun: Overrun::default(),
            priority: 0,
            slots: 1,
            is_released_on_disconnect: false,
            metadata: String::new(),
            tags: BTreeMap::new(),
            view: watch::Sender::new(View::NEW),
            looked_on: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// The election's name, and its lease's.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// How long the lease outlives its last renewal; ten seconds if not said. A leader that dies
    /// is followed after 105 % of it; a leader that cannot renew stops after 80 %.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// From one renewal's start to the next's; a third of the ttl if not said, and at most 40 % of
    /// it, so that one may fail. Leases of our own store are renewed together, with the member's
    /// heartbeat.
    #[must_use]
    pub fn renew(mut self, every: Duration) -> Self {
        self.renew = every;
        self
    }

    /// How long one call waits in line before it is repeated; 30 seconds if not said.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Longest pause before asking again after a refusal; two seconds if not said.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// How long the work may take to stop before it counts as [overrun](Election::on_overrun); 30
    /// seconds if not said. A leader that is cut off has less: its work is overrun shortly before
    /// somebody else could lead, 95 % of the ttl after the last renewal.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long the work may go without [`Leadership::progress`] or a good
    /// [probe](Elector::probe); as long as it likes if not said. Renewals do not depend on the work,
    /// so without a limit a work that hangs leads for ever.
    #[must_use]
    pub fn stall(mut self, limit: Duration) -> Self {
        self.stall = Some(limit);
        self
    }

    /// What is done about work that did not stop in time; its task is aborted if not said.
    #[must_use]
    pub fn on_overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = overrun;
        self
    }

    /// Higher is first in line; zero if not said.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// How many may lead at once, each under a term of its own; one if not said. All who take part say
    /// the same number: while anybody leads another one is refused, and that ends the candidacy. Only
    /// a Bellwether store keeps more than one.
    ///
    /// A resource that refuses every term but the largest it has seen would refuse all leaders but
    /// the newest: with several, each writes what is its own, or shows its [fence](Fence) to the store,
    /// which counts every term that is held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
    /// # use bellwether::Bellwether;
    /// let bw = Bellwether::open("memory:").await?;
    /// let first = bw.election("crawlers")?.slots(2).contend().await?;
    /// let second = bw.election("crawlers")?.slots(2).contend().await?;
    /// assert!(first.term() < second.term());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Whether the lease is released as soon as this process's connection to its server is closed,
    /// instead of when its time is over; false if not said. The next leader may then begin while this
    /// one still works, until it notices: only for work whose every effect carries the
    /// [fence](Fence) to a resource that refuses an old term. Without a server there is no connection,
    /// and nothing changes.
    #[must_use]
    pub fn release_on_disconnect(mut self, released: bool) -> Self {
        self.is_released_on_disconnect = released;
        self
    }

    /// What others see of this member while it leads.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// One more thing that others see of this member while it leads, by name: it stands behind the
    /// [metadata](Election::metadata) as a word, `KEY=VALUE`, and is read by [`Leader::tag`]. Neither
    /// part may be empty or contain white space, nor the key an equals sign.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// The work to do whenever this member leads. It runs as a task of its own; a panic is a
    /// failure. It may return nothing or a `Result`. However it ends, this member contends again,
    /// after a pause that doubles while terms stay short.
    ///
    /// It is told to stop through [`Leadership::cancelled`]. Work that has not stopped after the
    /// [grace](Election::grace) is aborted at its next `.await`, and its lease is not renewed any
    /// more. Work that never awaits cannot be aborted: it blocks this member's later terms, and
    /// the lease passes to somebody else while it still runs, so only the fence protects what it
    /// writes.
    pub fn lead<F, Fut>(&self, work: F) -> Elector
    where
        F: Fn(Leadership) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: WorkOutput> + Send + 'static,
    {
        Elector::new(self.clone(), work)
    }

    /// Waits until this member leads. Dropping the future withdraws from the line.
    pub async fn contend(&self) -> Result<LeadershipGuard, Error> {
        let candidacy = self.candidacy(true)?;
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let shutdown = CancellationToken::new();
        let leave = shutdown.clone().drop_guard();
        let (won, winning) = oneshot::channel();
        let duty = Box::new(Once { won: Some(won) });
        let shell = Shell::new(self, candidacy, turn, shutdown, duty);
        let shell = renewer::spawn(self.leases.clock(), shell.run());
        match winning.await {
            Ok(seat) => Ok(LeadershipGuard::new(seat, leave, shell)),
            // It ended without a term: only a closed store does that before we leave.
            Err(_) => Err(joined(shell.await).err().unwrap_or(Error::Closed)),
        }
    }

    /// The election as this member sees it: the state of the candidacy that this handle or a clone of
    /// it runs, and who else leads. Only changes are told.
    pub fn watch(&self) -> watch::Receiver<View> {
        let watching = self.view.subscribe();
        if !self.looked_on.swap(true, Ordering::SeqCst) {
            let (leases, view) = (Arc::clone(&self.leases), self.view.clone());
            let look_on =
                view::look_on(leases, self.name.clone(), view, Arc::clone(&self.looked_on));
            renewer::spawn(self.leases.clock(), look_on);
        }
        watching
    }

    /// Who leads, by the store's word; `None` if nobody does. Of [several](Election::slots) the one that
    /// has led longest.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(self.info().await?.and_then(|info| {
            let (term, since) = (info.term, info.granted_at);
            info.holder.map(|member| Leader { member, term, since, metadata: info.metadata })
        }))
    }

    /// Everybody who leads, the oldest term first.
    pub async fn leaders(&self) -> Result<Vec<Leader>, Error> {
        let info = self.info().await?;
        let holders = info.iter().flat_map(LeaseInfo::holders).filter_map(|holder| {
            let (term, since) = (holder.term, holder.granted_at);
            let member = holder.holder?;
            Some(Leader { member, term, since, metadata: holder.metadata })
        });
        Ok(holders.collect())
    }

    /// The election's lease with everybody who waits for it; `None` if nobody ever led.
    pub async fn info(&self) -> Result<Option<LeaseInfo>, Error> {
        self.leases.describe(self.name.clone()).await
    }

    /// Waits until the version of its lease is not the one last seen, zero for never; `None` if
    /// nothing changed within `wait`.
    pub async fn changed(&self, seen: u64, wait: Duration) -> Result<Option<LeaseInfo>, Error> {
        let info = self.leases.watch(self.name.clone(), seen, wait).await?;
        Ok(info.filter(|info| info.version != seen))
    }

    /// Who led before, the newest term first: as far back as the store remembers, which is a hundred
    /// terms of one election, and what its journal told when it was opened.
    pub async fn history(&self) -> Result<Vec<TermInfo>, Error> {
        self.leases.history(self.name.clone()).await
    }

    /// Asks whoever leads to step down, all of them if there are several. It hears of it with its next heartbeat, stops its work and
    /// releases; refused if nobody leads.
    pub async fn ask_step_down(&self) -> Result<(), Error> {
        self.leases.ask_step_down(self.name.clone()).await
    }

    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.candidacy(false).map(drop)
    }

    fn candidacy(&self, once: bool) -> Result<Candidacy, Refusal> {
        let config = Config {
            member: self.leases.member(),
            ttl_ms: ms(self.ttl),
            renew_ms: ms(self.renew),
            wait_ms: ms(self.wait),
            retry_ms: ms(self.retry),
            stop_ms: ms(self.grace),
            stall_ms: self.stall.map_or(0, |limit| ms(limit).max(1)),
            once,
        };
        config.check()?;
        self.leases.check_ttl(self.ttl)?;
        self.leases.check_slots(self.slots)?;
        view::check_tags(&self.tags)?;
        let bytes = self.described().len();
        if bytes > limits::METADATA_BYTES_MAX {
            return Err(Refusal::TooLarge {
                what: "a holder's metadata",
                bytes: bytes as u64,
                bytes_max: limits::METADATA_BYTES_MAX as u64,
            });
        }
        Ok(Candidacy::new(config, crate::chance::random_u64()))
    }

    /// The metadata and the tags, as others see them.
    fn described(&self) -> String {
        let tags = self.tags.iter().map(|(key, value)| format!("{key}={value}"));
        let words = std::iter::once(self.metadata.clone()).filter(|text| !text.is_empty());
        words.chain(tags).collect::<Vec<_>>().join(" ")
    }

    fn acquire(&self) -> Acquire {
        Acquire {
            lease: self.name.clone(),
            id: LeaseId(0),
            kind: if self.is_released_on_disconnect {
                LeaseKind::Connected
            } else {
                LeaseKind::Bound
            },
            ttl_ms: ms(self.ttl),
            metadata: self.described(),
            wait_ms: 0,
            priority: self.priority,
            slots: self.slots,
        }
    }
}

/// A shell panics only on a broken invariant, which is the caller's to see.
fn joined(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(Error::Closed),
    })
}
