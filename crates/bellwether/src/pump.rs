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
mod perform;
mod report;
mod shell;
mod verdict;
mod work;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::flow::{Flow, FlowConfig};
pub use bellwether_core::flow::{Retry, Source, Why};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::handle::Control;
pub use self::handle::{PumpCounts, PumpHandle, PumpState};
use self::report::OnError;
pub use self::report::PumpError;
use self::shell::Shell;
pub use self::verdict::{Failure, IntoVerdict, Permanent, Verdict};
use self::work::Handler;
pub use self::work::Work;
use crate::error::Error;
use crate::queue::{Queue, ms};

/// A pump being put together; [`Pump::run`] sets it going.
pub struct Pump {
    queue: Queue,
    config: FlowConfig,
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
        Self { queue, config, lock: None, on_error: None, control: Arc::default() }
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

    /// Whom to tell what goes wrong. It is called from the pump's own loop, so it should be quick;
    /// if it panics that is ignored.
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
        let handler = Arc::new(handler);
        let handler: Handler = Arc::new(move |work| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { handler(work).await.into_verdict() })
        });
        let Self { queue, config, lock, on_error, control } = self;
        let shell = Shell {
            queue,
            handler,
            on_error,
            lock,
            control,
            flow: Flow::new(config),
            tasks: JoinSet::new(),
            receive: None,
            held: HashMap::new(),
            due: ask::Batch::default(),
            counts: PumpCounts::default(),
            end: None,
        };
        shell.run(shutdown).await
    }
}
