//! What a leader does: its work, what warms it up, and what tells that it is well.

use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::name::Term;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::leadership::{Leadership, Seat};
use super::shell::{Shell, Work};
use super::{Election, joined};
use crate::error::Error;
use crate::renewer;

type Work1 =
    dyn Fn(Leadership) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync;
type Prepare = dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;
type Probe = dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync;
pub(super) type OnFailure = Arc<dyn Fn(Term, &str) + Send + Sync>;

/// What the shell runs.
pub(super) trait Duty: Send {
    /// This member is next in line, or nobody leads: be ready.
    fn stand_by(&mut self, _: &Handle) {}

    /// Whether it wants to hear of that.
    fn wants_to_stand_by(&self) -> bool {
        false
    }

    /// This member leads.
    fn start(&mut self, leadership: Leadership, runtime: &Handle) -> Work;

    /// The work failed.
    fn failed(&self, _: Term, _: String, _: &Handle) {}
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

/// Whoever contends for a guard: the guard is the work.
pub(super) struct Once {
    pub(super) won: Option<oneshot::Sender<Seat>>,
}

impl Duty for Once {
    fn start(&mut self, leadership: Leadership, _: &Handle) -> Work {
        let (alive, gone) = oneshot::channel();
        if let Some(won) = self.won.take() {
            // Nobody there any more: the seat is dropped, and with it the work has ended.
            let _ = won.send(Seat { leadership, alive });
        }
        Work::Guard(gone)
    }
}

/// Work that waits to be led.
#[must_use = "nothing happens until `run`"]
pub struct Elector {
    election: Election,
    work: Arc<Work1>,
    prepare: Option<Arc<Prepare>>,
    probe: Option<Arc<Probe>>,
    on_failure: Option<OnFailure>,
    once: bool,
    /// What the last [`Duty::stand_by`] started.
    preparing: Option<JoinHandle<()>>,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Elector {
    pub(super) fn new<F, Fut>(election: Election, work: F) -> Self
    where
        F: Fn(Leadership) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: WorkOutput> + Send + 'static,
    {
        let work = Arc::new(work);
        Self {
            election,
            work: Arc::new(move |leadership| {
                let work = Arc::clone(&work);
                // The work is called inside its task: if making its future panics, that is its failure.
                Box::pin(async move { work(leadership).await.failure() })
            }),
            prepare: None,
            probe: None,
            on_failure: None,
            once: false,
            preparing: None,
        }
    }

    /// Runs when this member is the next in line, so that it is warm when it is elected: open
    /// connections, fill caches, take nothing that only a leader may. Once before each term; the
    /// work of a member that is elected meanwhile starts when it has finished.
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.prepare = Some(Arc::new(move || Box::pin(prepare())));
        self
    }

    /// Asked several times within the [limit](Election::stall) whether the leader is well; `true` is
    /// progress. A probe that hangs or says `false` is none, so together with a limit it makes an
    /// unwell leader step down on purpose.
    pub fn probe<F, Fut>(mut self, probe: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        self.probe = Some(Arc::new(move || Box::pin(probe())));
        self
    }

    /// Called with the term and what went wrong whenever the work failed or panicked.
    pub fn on_failure(mut self, call: impl Fn(Term, &str) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(call));
        self
    }

    /// Leads one term at most: when it is over, [`Elector::run`] returns instead of contending
    /// again.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Contends, leads and contends again until `shutdown` is ready; then stops the work, waits
    /// until it has ended, releases the lease and returns. Faults of the engine are not errors
    /// here: nobody leads while they last. Ends early only if the store is closed, or if its keys
    /// give this program no right to lead.
    ///
    /// Work that cannot be aborted is waited for twice the grace; then this returns without it,
    /// and the lease is left to run out.
    ///
    /// Dropping the future is a shutdown that nobody waits for.
    pub async fn run(self, shutdown: impl Future) -> Result<(), Error> {
        let candidacy = self.election.candidacy(self.once)?;
        tokio::pin!(shutdown);
        let turn = tokio::select! {
            _ = &mut shutdown => return Ok(()),
            turn = Arc::clone(&self.election.turn).lock_owned() => turn,
        };
        let stop = CancellationToken::new();
        let _stop_when_dropped = stop.clone().drop_guard();
        let election = self.election.clone();
        let shell = Shell::new(&election, candidacy, turn, stop.clone(), Box::new(self));
        let mut shell = renewer::spawn(election.leases.clock(), shell.run());
        tokio::select! {
            _ = shutdown => stop.cancel(),
            ended = &mut shell => return joined(ended),
        }
        joined(shell.await)
    }
}

impl Duty for Elector {
    fn stand_by(&mut self, runtime: &Handle) {
        if let (Some(prepare), None) = (&self.prepare, &self.preparing) {
            self.preparing = Some(runtime.spawn(prepare()));
        }
    }

    fn wants_to_stand_by(&self) -> bool {
        self.prepare.is_some() && self.preparing.is_none()
    }

    fn start(&mut self, leadership: Leadership, runtime: &Handle) -> Work {
        // Elected before anybody could tell: then it is late, but it is done.
        self.stand_by(runtime);
        let (work, preparing) = (Arc::clone(&self.work), self.preparing.take());
        let probe = self.probe.clone().zip(self.election.stall);
        Work::Task(runtime.spawn(async move {
            if let Some(preparing) = preparing {
                // A warm-up that panicked leaves the work cold, not undone.
                let _ = preparing.await;
            }
            let work = work(leadership.clone());
            match probe {
                None => work.await,
                Some((probe, limit)) => tokio::select! {
                    failure = work => failure,
                    never = ask_again(&*probe, limit, &leadership) => match never {},
                },
            }
        }))
    }

    fn failed(&self, term: Term, failure: String, runtime: &Handle) {
        if let Some(call) = self.on_failure.clone() {
            // Whoever listens must not be able to hold up or end the election.
            runtime.spawn(async move { call(term, &failure) });
        }
    }
}

/// Probes often enough that one answer may fail without being missed.
async fn ask_again(
    probe: &Probe,
    limit: Duration,
    leadership: &Leadership,
) -> std::convert::Infallible {
    loop {
        if probe().await {
            leadership.progress();
        }
        tokio::time::sleep(limit / 4).await;
    }
}
