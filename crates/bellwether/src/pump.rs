//! The pump: receives deliveries, runs the handler, renews locks, settles.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::{Bellwether, Work};
//! use tokio_util::sync::CancellationToken;
//!
//! let bw = Bellwether::open("memory:").await?;
//! let orders = bw.create_queue("orders", Default::default()).await?;
//! orders.send("two coffees").await?;
//!
//! let shutdown = CancellationToken::new();
//! let done = shutdown.clone();
//! let handler = move |order: Work| {
//!     let done = done.clone();
//!     async move {
//!         println!("making {}", order.text().ok_or("not a text")?);
//!         done.cancel();
//!         Ok::<(), &str>(())
//!     }
//! };
//! orders.pump().concurrency(10).run(handler, shutdown).await?;
//! # Ok(()) }
//! ```
//!
//! A handler that returns `()` or `Ok` completes its message; one that returns an error or panics
//! fails it, and the message comes back later each time, until the queue makes it a dead letter.
//! A [`Verdict`] says anything else. A handler that wants to settle by itself takes the delivery
//! ([`Work::into_delivery`]); then what it returns settles nothing.
//!
//! The rules are [`bellwether_core::flow`]; what is here only carries them out:
//!
//! ```text
//!           wishes, time
//!                │                Receive, Renew, Settle ──► store ──┐
//!   answers ──► step ── actions ──┤                                  │
//!      ▲                          Handle ──► handler ──┐             │
//!      └───────────────────────────────────────────────┴─────────────┘
//! ```
//!
//! The order of effects: the handler has ended before its message is settled; everything in flight
//! has been answered before [`Pump::run`] returns.

mod ask;
mod handle;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "tower")]
mod layer;
mod perform;
mod pumps;
mod reply;
mod report;
mod rules;
pub mod scaled;
mod shell;
mod verdict;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::flow::{Flow, FlowConfig, SessionFlow, SessionFlowConfig};
pub use bellwether_core::flow::{Retry, Source, Why};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::handle::Control;
pub use self::handle::{PumpCounts, PumpHandle, PumpState};
#[cfg(feature = "json")]
pub use self::json::{BAD_BODY, Reading, TypedQueue, json};
#[cfg(feature = "tower")]
pub use self::layer::{HandlerService, Serving, layered, served};
pub use self::pumps::{IfOneEnds, Pumps};
use self::report::OnError;
pub use self::report::PumpError;
use self::rules::Rules;
pub use self::scaled::{ScaledHandle, ScaledPump};
use self::shell::Shell;
pub use self::verdict::{Failure, IntoVerdict, Verdict};
use self::work::Handler;
pub use self::work::Work;
use crate::error::Error;
use crate::queue::{Queue, ms};

/// A pump being put together; [`Pump::run`] sets it going.
pub struct Pump {
    queue: Queue,
    config: FlowConfig,
    sessions: Option<u32>,
    idle_ms: u64,
    lock: Option<Duration>,
    on_error: Option<OnError>,
    control: Arc<Control>,
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("queue", &self.queue.path)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Pump {
    pub(crate) fn new(queue: Queue) -> Self {
        let config = FlowConfig { seed: crate::chance::random_u64(), ..FlowConfig::default() };
        Self {
            queue,
            config,
            sessions: None,
            idle_ms: SessionFlowConfig::default().idle_ms,
            lock: None,
            on_error: None,
            control: Arc::default(),
        }
    }

    /// Takes so many sessions at once, at least one: for a queue with sessions, and only for one.
    /// [`Pump::concurrency`] and [`Pump::prefetch`] are then each session's own; one handler and none
    /// waiting, if not said, so that the messages of a session are handled one after the other.
    #[must_use]
    pub fn sessions(mut self, sessions: u32) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Keeps a session without messages for so long; ten seconds if not said. It gives way earlier if
    /// another session has messages and there is no place for it.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.idle_ms = ms(idle);
        self
    }

    /// So many handlers at once, at least one; one if not said.
    #[must_use]
    pub fn concurrency(mut self, handlers: u32) -> Self {
        self.config.concurrency = handlers;
        self
    }

    /// So many messages may wait, locked, for a handler; none if not said. It saves a round trip
    /// where handlers are quick, and keeps messages from others where they are slow.
    #[must_use]
    pub fn prefetch(mut self, messages: u32) -> Self {
        self.config.prefetch = messages;
        self
    }

    /// Locks for so long instead of the queue's lock duration.
    #[must_use]
    pub fn lock(mut self, lock: Duration) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Keeps the lock of a running handler for so long; five minutes if not said. A handler that
    /// hangs longer loses its message to others.
    #[must_use]
    pub fn renew_max(mut self, renew_max: Duration) -> Self {
        self.config.renew_max_ms = ms(renew_max);
        self
    }

    /// How long a failed message stays away; one second, then twice as long each time, if not
    /// said.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.config.retry = retry;
        self
    }

    /// How long running handlers may go on after a stop before they are told to end; thirty
    /// seconds if not said.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.config.stop_grace_ms = ms(grace);
        self
    }

    /// Whether a handler that ends well completes its message; it does if not said. If not, every
    /// handler settles its own ([`Work::into_delivery`]): a message whose handler did not comes back
    /// when its lock has run out, and counts.
    #[must_use]
    pub fn auto_complete(mut self, auto_complete: bool) -> Self {
        self.config.auto_settle = auto_complete;
        self
    }

    /// Whom to tell what goes wrong. It is called from the pump's own loop, so it should be quick;
    /// if it panics that is counted ([`PumpCounts::callback_panics`]) and otherwise ignored.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn(&PumpError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// To steer the pump and look at it while it runs.
    pub fn handle(&self) -> PumpHandle {
        PumpHandle { control: Arc::clone(&self.control) }
    }

    /// Calls the handler for message after message until `shutdown` fires or
    /// [`PumpHandle::stop`] is called. Then no more is taken, what no handler has begun is given
    /// back uncounted, running handlers may end and are settled, and only then this returns: an
    /// error if the store was closed or broke under it, or if the term of its queue's fence is over.
    ///
    /// A handler that does not end keeps the pump from ending. Dropping the future is the hard
    /// way: handlers are dropped where they wait and their messages given back uncounted, but a
    /// message whose settlement was just about to be sent is delivered again.
    pub async fn run<H, F>(self, handler: H, shutdown: CancellationToken) -> Result<(), Error>
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.check_path()?;
        self.into_shell(work::handler(handler)).run(shutdown).await
    }

    /// The same once more, steered by the same handles.
    fn again(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            config: self.config.clone(),
            on_error: self.on_error.clone(),
            control: Arc::clone(&self.control),
            ..*self
        }
    }

    /// Whether it can run: its queue is there, and has sessions if and only if the pump does.
    async fn check(&self) -> Result<(), Error> {
        self.check_path()?;
        let has_sessions = self.queue.info().await?.settings.sessions;
        let name = self.queue.name().clone();
        match (has_sessions && !self.queue.is_dead_letters(), self.sessions) {
            (true, None) => Err(Refusal::SessionRequired(name).into()),
            (false, Some(_)) => Err(Refusal::SessionNotSupported(name).into()),
            _ => Ok(()),
        }
    }

    fn check_path(&self) -> Result<(), Error> {
        if self.sessions.is_some() && self.queue.is_dead_letters() {
            return Err(Refusal::SessionNotSupported(self.queue.name().clone()).into());
        }
        Ok(())
    }

    fn into_shell(self, handler: Handler) -> Shell {
        let Self { queue, config, sessions, idle_ms, lock, on_error, control } = self;
        let rules = match sessions {
            None => Rules::Queue(Flow::new(config)),
            Some(sessions) => {
                let accept_wait_ms = config.wait_ms;
                let config = SessionFlowConfig { sessions, accept_wait_ms, idle_ms, flow: config };
                Rules::Sessions(SessionFlow::new(config))
            }
        };
        Shell {
            queue,
            handler,
            on_error,
            lock,
            control,
            rules,
            tasks: JoinSet::new(),
            receives: BTreeMap::new(),
            accept: None,
            sessions: BTreeMap::new(),
            held: HashMap::new(),
            due: ask::Batch::default(),
            counts: PumpCounts::default(),
            end: None,
        }
    }
}
