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

pub use bellwether_core::candidacy::LossReason;
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
    wait: Duration,
    retry: Duration,
    grace: Duration,
    stall: Option<Duration>,
    overrun: Overrun,
    priority: i32,
    is_released_on_disconnect: bool,
    metadata: String,
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
            wait: WAIT,
            retry: RETRY,
            grace: GRACE,
            stall: None,
            overrun: Overrun::default(),
            priority: 0,
            is_released_on_disconnect: false,
            metadata: String::new(),
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

    /// Who leads, by the store's word; `None` if nobody does.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(self.info().await?.and_then(|info| {
            let (term, since) = (info.term, info.granted_at);
            info.holder.map(|member| Leader { member, term, since, metadata: info.metadata })
        }))
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

    /// Asks whoever leads to step down. It hears of it with its next heartbeat, stops its work and
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
            wait_ms: ms(self.wait),
            retry_ms: ms(self.retry),
            stop_ms: ms(self.grace),
            stall_ms: self.stall.map_or(0, |limit| ms(limit).max(1)),
            once,
        };
        config.check()?;
        self.leases.check_ttl(self.ttl)?;
        if self.metadata.len() > limits::METADATA_BYTES_MAX {
            return Err(Refusal::TooLarge {
                what: "a holder's metadata",
                bytes: self.metadata.len() as u64,
                bytes_max: limits::METADATA_BYTES_MAX as u64,
            });
        }
        Ok(Candidacy::new(config, crate::chance::random_u64()))
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
            metadata: self.metadata.clone(),
            wait_ms: 0,
            priority: self.priority,
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
