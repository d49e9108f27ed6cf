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

mod leadership;
mod shell;

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::candidacy::{Candidacy, Config, View as CoreView};
use bellwether_core::command::{Acquire, Command, LeaseKind};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, Outcome, TermInfo};
use bellwether_core::time::WallTime;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

pub use bellwether_core::candidacy::LossReason;
pub use leadership::{Deposed, Fence, Leadership, LeadershipGuard};

use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::queue::ms;
use leadership::Seat;
use shell::{Shell, Start, Work};

/// A third of it passes between renewals, and a dead leader is followed after a little more.
const TTL: Duration = Duration::from_secs(10);
/// One call in line; it is repeated without a pause.
const WAIT: Duration = Duration::from_secs(30);
/// Pause after a refusal that says nothing better.
const RETRY: Duration = Duration::from_secs(2);
/// Time for the work to end by itself: as long as orchestrators leave a process that they stop.
const GRACE: Duration = Duration::from_secs(30);

type OnFailure = Arc<dyn Fn(Term, &str) + Send + Sync>;

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
    inner: Arc<Inner>,
    name: LeaseName,
    ttl: Duration,
    wait: Duration,
    retry: Duration,
    grace: Duration,
    priority: i32,
    metadata: String,
    view: watch::Sender<View>,
    turn: Arc<Mutex<()>>,
}

/// The election as this member's candidacy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Not leading.
    Following {
        /// Why the last term of ours ended, if there was one.
        after: Option<LossReason>,
    },
    /// Leading.
    Leading {
        /// Under this term.
        term: Term,
    },
    /// The work is told to stop and has not ended.
    Stopping {
        /// The term that ends.
        term: Term,
        /// Why.
        reason: LossReason,
    },
}

impl From<CoreView> for View {
    fn from(view: CoreView) -> Self {
        match view {
            CoreView::Following { after } => Self::Following { after: Some(after) },
            CoreView::Leading { term } => Self::Leading { term },
            CoreView::Stopping { term, reason } => Self::Stopping { term, reason },
        }
    }
}

/// Who leads, as the store sees it: a hint for people and logs, never a licence to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The member.
    pub member: MemberId,
    /// Under which term.
    pub term: Term,
    /// Since when.
    pub since: WallTime,
    /// What it says of itself.
    pub metadata: String,
}

impl Election {
    pub(crate) fn new(inner: Arc<Inner>, name: LeaseName) -> Self {
        Self {
            inner,
            name,
            ttl: TTL,
            wait: WAIT,
            retry: RETRY,
            grace: GRACE,
            priority: 0,
            metadata: String::new(),
            view: watch::Sender::new(View::Following { after: None }),
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

    /// How long the work may take to stop before its task is aborted; 30 seconds if not said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Higher is first in line; zero if not said.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
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
        let work = Arc::new(work);
        let start = move |leadership| {
            let work = Arc::clone(&work);
            // The work is called inside the task: if making its future panics, that is its failure.
            let task = tokio::spawn(async move { work(leadership).await.failure() });
            Work::Task(task)
        };
        Elector { election: self.clone(), start: Box::new(start), on_failure: None }
    }

    /// Waits until this member leads. Dropping the future withdraws from the line.
    pub async fn contend(&self) -> Result<LeadershipGuard, Error> {
        let candidacy = self.candidacy()?;
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let shutdown = CancellationToken::new();
        let leave = shutdown.clone().drop_guard();
        let (won, winning) = oneshot::channel();
        let mut won = Some(won);
        let start = move |leadership| {
            let (alive, gone) = oneshot::channel();
            if let Some(won) = won.take() {
                // Nobody there any more: the seat is dropped, and with it the work has ended.
                let _ = won.send(Seat { leadership, alive });
            }
            Work::Guard(gone)
        };
        let shell = Shell::new(self, candidacy, turn, shutdown, Box::new(start), None);
        let shell = tokio::spawn(shell.run());
        match winning.await {
            Ok(seat) => Ok(LeadershipGuard::new(seat, leave, shell)),
            // It ended without a term: only a closed store does that before we leave.
            Err(_) => Err(joined(shell.await).err().unwrap_or(Error::Closed)),
        }
    }

    /// The state of the candidacy that this handle or a clone of it runs; only changes are told.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
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
        self.inner.describe_lease(self.name.clone()).await
    }

    /// Who led before, the newest term first: as far back as the store remembers, which is a hundred
    /// terms of one election, and what its journal told when it was opened.
    pub async fn history(&self) -> Result<Vec<TermInfo>, Error> {
        let command = Command::LeaseHistory { lease: self.name.clone(), max: u32::MAX };
        match self.inner.ask(command).await?.outcome {
            Outcome::Terms(terms) => Ok(terms),
            other => unreachable_outcome(&other),
        }
    }

    /// Asks whoever leads to step down. It hears of it with its next heartbeat, stops its work and
    /// releases; refused if nobody leads.
    pub async fn ask_step_down(&self) -> Result<(), Error> {
        self.inner.ask(Command::AskStepDown { lease: self.name.clone() }).await?;
        Ok(())
    }

    fn candidacy(&self) -> Result<Candidacy, Refusal> {
        let config = Config {
            member: self.inner.engine.member_id(),
            ttl_ms: ms(self.ttl),
            wait_ms: ms(self.wait),
            retry_ms: ms(self.retry),
            stop_ms: ms(self.grace),
        };
        config.check()?;
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
            kind: LeaseKind::Bound,
            ttl_ms: ms(self.ttl),
            metadata: self.metadata.clone(),
            wait_ms: 0,
            priority: self.priority,
        }
    }
}

impl Inner {
    pub(crate) async fn describe_lease(
        &self,
        lease: LeaseName,
    ) -> Result<Option<LeaseInfo>, Error> {
        match self.ask(Command::DescribeLease { lease }).await?.outcome {
            Outcome::Lease(info) => Ok(info.map(|info| *info)),
            other => unreachable_outcome(&other),
        }
    }
}

/// How a leader's work may return: nothing, or a `Result` whose error is its failure.
pub trait WorkOutput: Send + 'static {
    /// What went wrong, if something did.
    fn failure(self) -> Option<String>;
}

impl WorkOutput for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T: Send + 'static, E: Display + Send + 'static> WorkOutput for Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Work that waits to be led.
#[must_use = "nothing happens until `run`"]
pub struct Elector {
    election: Election,
    start: Start,
    on_failure: Option<OnFailure>,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Elector {
    /// Called with the term and what went wrong whenever the work failed or panicked.
    pub fn on_failure(mut self, call: impl Fn(Term, &str) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(call));
        self
    }

    /// Contends, leads and contends again until `shutdown` is ready; then stops the work, waits
    /// until it has ended, releases the lease and returns. Faults of the store are not errors
    /// here: nobody leads while they last. Ends early only if the store is closed.
    ///
    /// Work that cannot be aborted is waited for twice the grace; then this returns without it,
    /// and the lease is left to run out.
    ///
    /// Dropping the future is a shutdown that nobody waits for.
    pub async fn run(self, shutdown: impl Future) -> Result<(), Error> {
        let candidacy = self.election.candidacy()?;
        tokio::pin!(shutdown);
        let turn = tokio::select! {
            _ = &mut shutdown => return Ok(()),
            turn = Arc::clone(&self.election.turn).lock_owned() => turn,
        };
        let stop = CancellationToken::new();
        let _stop_when_dropped = stop.clone().drop_guard();
        let Self { election, start, on_failure } = self;
        let shell = Shell::new(&election, candidacy, turn, stop.clone(), start, on_failure);
        let mut shell = tokio::spawn(shell.run());
        tokio::select! {
            _ = shutdown => stop.cancel(),
            ended = &mut shell => return joined(ended),
        }
        joined(shell.await)
    }
}

/// A shell panics only on a broken invariant, which is the caller's to see.
fn joined(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(Error::Closed),
    })
}
