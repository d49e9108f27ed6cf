//! Several pumps in one process, with one shutdown.

use std::fmt;
use std::sync::Arc;

use bellwether_core::flow::Retry;
use bellwether_core::name::LockToken;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Pump;
use super::handle::PumpHandle;
use super::report::quietly;
use super::verdict::IntoVerdict;
use super::work::{Handler, Work, handler};
use crate::error::Error;

/// Pauses before a pump is started again.
const AGAIN: Retry = Retry { base_ms: 1_000, factor: 2, max_ms: 60_000, jitter_percent: 20 };

/// What happens to the others when a pump ends that nobody has told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfOneEnds {
    /// All stop, as at a shutdown, and [`Pumps::run`] returns the error: for work that is only of use
    /// together, or a process that somebody starts again.
    #[default]
    StopAll,
    /// It is started again, after a pause that grows from a second to a minute.
    StartAgain,
}

type OnEnd = Arc<dyn Fn(&str, &Error) + Send + Sync>;

/// Pumps that run together; [`Pumps::run`] sets them going.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// use bellwether::pump::{IfOneEnds, Pumps};
/// use bellwether::{Bellwether, Work};
/// use tokio_util::sync::CancellationToken;
///
/// let bw = Bellwether::open("memory:").await?;
/// let orders = bw.create_queue("orders", Default::default()).await?;
/// let mails = bw.create_queue("mails", Default::default()).await?;
/// let shutdown = CancellationToken::new();
///
/// let mut pumps = Pumps::new().if_one_ends(IfOneEnds::StartAgain);
/// let _steer_orders = pumps.add("orders", orders.pump().concurrency(4), |_: Work| async {});
/// pumps.add("mails", mails.pump(), |_: Work| async {});
/// # shutdown.cancel();
/// pumps.run(shutdown).await?;
/// # Ok(()) }
/// ```
///
/// A pump whose queue does not answer well, because it is not there or has sessions where the pump has
/// none, is not started; it is tried again after a growing pause, and the others go on meanwhile.
#[derive(Default)]
pub struct Pumps {
    added: Vec<Added>,
    if_one_ends: IfOneEnds,
    on_end: Option<OnEnd>,
}

struct Added {
    name: String,
    pump: Pump,
    handler: Handler,
}

impl fmt::Debug for Pumps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.added.iter().map(|pump| &pump.name).collect();
        f.debug_struct("Pumps").field("pumps", &names).finish_non_exhaustive()
    }
}

/// How one turn of a pump ended.
struct Ended {
    pump: Added,
    /// How often it has ended in a row.
    times: u32,
    how: How,
}

enum How {
    /// It was told to.
    Told,
    /// It never ran.
    NotStarted(Error),
    /// It ran and nobody told it to end.
    Failed(Error),
}

impl Pumps {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What happens when one ends that nobody has told to; all stop if not said.
    #[must_use]
    pub fn if_one_ends(mut self, choice: IfOneEnds) -> Self {
        self.if_one_ends = choice;
        self
    }

    /// Whom to tell that a pump, named first, could not be started or has ended by itself. If it
    /// panics that is ignored.
    #[must_use]
    pub fn on_end(mut self, on_end: impl Fn(&str, &Error) + Send + Sync + 'static) -> Self {
        self.on_end = Some(Arc::new(on_end));
        self
    }

    /// Adds a pump under a name that is only told again; its handle steers it, also after it was
    /// started again. A pump that is stopped by its handle has ended as it should.
    pub fn add<H, F>(&mut self, name: impl Into<String>, pump: Pump, handle: H) -> PumpHandle
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        let steering = pump.handle();
        self.added.push(Added { name: name.into(), pump, handler: handler(handle) });
        steering
    }

    /// Runs them all until `shutdown` fires, or each was stopped by its handle, or one ended by itself
    /// and all are to stop then. Returns when all have ended as [`Pump::run`] ends.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { added, if_one_ends, on_end } = self;
        let shutdown = shutdown.child_token();
        let mut running = JoinSet::new();
        for pump in added {
            running.spawn(turn(pump, 0, shutdown.clone()));
        }
        let mut first = Ok(());
        while let Some(ended) = running.join_next().await {
            let Ended { pump, times, how } = match ended {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            let (error, is_start) = match how {
                How::Told => continue,
                How::NotStarted(error) => (error, true),
                How::Failed(error) => (error, false),
            };
            if let Some(on_end) = &on_end {
                quietly(|| on_end(&pump.name, &error));
            }
            if is_start || if_one_ends == IfOneEnds::StartAgain {
                running.spawn(turn(pump, times, shutdown.clone()));
            } else if first.is_ok() {
                first = Err(error);
                shutdown.cancel();
            }
        }
        first
    }
}

/// Waits its pause, if it ended before, looks whether it can be started, and runs it.
async fn turn(pump: Added, times: u32, shutdown: CancellationToken) -> Ended {
    let clock = pump.pump.queue.inner.clock.clone();
    if times > 0 {
        let (seed, salt) = (pump.pump.config.seed, LockToken::from_u128(times.into()));
        let until = clock.boot().plus_ms(AGAIN.delay_ms(times, seed, salt));
        if shutdown.run_until_cancelled(clock.sleep_until(until)).await.is_none() {
            return Ended { pump, times, how: How::Told };
        }
    }
    let Some(checked) = shutdown.run_until_cancelled(pump.pump.check()).await else {
        return Ended { pump, times, how: How::Told };
    };
    if let Err(error) = checked {
        return Ended { pump, times: times + 1, how: How::NotStarted(error) };
    }
    let started_at = clock.boot();
    let shell = pump.pump.again().into_shell(Arc::clone(&pump.handler));
    let how = match shell.run(shutdown).await {
        Ok(()) => How::Told,
        Err(error) => How::Failed(error),
    };
    let lasted = started_at.ms_until(clock.boot()) > AGAIN.max_ms;
    Ended { pump, times: if lasted { 1 } else { times + 1 }, how }
}
