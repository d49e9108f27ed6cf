//! What every direct engine keeps in this process: which asks are under way, what is held, and
//! whether it was closed.
//!
//! Asks under one id follow each other. An ask that is repeated, and a release, first end the one
//! before and wait until nothing of it is on its way any more: otherwise a release could be overtaken
//! by the grant it should undo, and nobody would hold that lease until it runs out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::time::BootTime;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Answer;
use crate::chance::{random_u64, random_u128};
use crate::clock::Clock;
use crate::error::Error;
use crate::renewer;

/// So long is a lease tried to be given back. Whoever waits for that goes on after a ttl.
const RELEASE_MS_MAX: u64 = 5_000;
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

/// What the engines with a desk do alike, in an `impl Leases` of a tuple around an `Arc` of whatever
/// speaks to the engine; how a lease is held, released and checked is each one's own.
macro_rules! leases_at_desk {
    ($facts:expr) => {
        fn facts(&self) -> &'static Facts {
            &$facts
        }

        fn clock(&self) -> &Clock {
            &self.0.desk.clock
        }

        fn member(&self) -> MemberId {
            self.0.desk.member
        }

        fn acquire(&self, ask: Acquire) -> Answer<Result<Term, Error>> {
            let asked = Arc::clone(&self.0);
            run(async move { asked.acquire(&ask).await })
        }

        fn describe(&self, lease: LeaseName) -> Answer<Result<Option<LeaseInfo>, Error>> {
            let asked = Arc::clone(&self.0);
            run(async move { asked.describe(&lease).await })
        }

        fn watch(
            &self,
            lease: LeaseName,
            seen: u64,
            wait: Duration,
        ) -> Answer<Result<Option<LeaseInfo>, Error>> {
            let asked = Arc::clone(&self.0);
            run(async move { asked.watch(&lease, seen, wait).await })
        }

        fn history(&self, _: LeaseName) -> Answer<Result<Vec<TermInfo>, Error>> {
            Box::pin(std::future::ready(Err(super::no_history($facts.name))))
        }

        fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>> {
            let asked = Arc::clone(&self.0);
            run(async move { asked.ask_step_down(&lease).await })
        }
    };
}
pub(super) use leases_at_desk;

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) clock: Clock,
    pub(super) member: MemberId,
    pub(super) closed: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asks: BTreeMap<LeaseId, Asking>,
    held: BTreeMap<LeaseId, LeaseName>,
}

#[derive(Clone, Debug, Default)]
struct Asking {
    withdraw: CancellationToken,
    line: Arc<tokio::sync::Mutex<()>>,
}

/// The right to ask under an id, or to give back what was asked for under it.
#[derive(Debug)]
pub(super) struct Turn {
    desk: Arc<Desk>,
    id: LeaseId,
    asking: Asking,
    /// While it is there, nobody else's turn comes.
    exclusive: Option<OwnedMutexGuard<()>>,
}

impl Desk {
    /// Real engines have real time.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::System,
            member: MemberId(random_u128()),
            closed: CancellationToken::new(),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code between lock and unlock can leave the maps half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is asked under this id and waits until it has ended.
    pub(super) async fn turn(self: &Arc<Self>, id: LeaseId) -> Turn {
        let (asking, line) = {
            let mut state = self.lock();
            let before = state.asks.remove(&id);
            let line = before.as_ref().map(|before| Arc::clone(&before.line)).unwrap_or_default();
            if let Some(before) = before {
                before.withdraw.cancel();
            }
            let asking = Asking { withdraw: self.closed.child_token(), line: Arc::clone(&line) };
            state.asks.insert(id, asking.clone());
            (asking, line)
        };
        let mut turn = Turn { desk: Arc::clone(self), id, asking, exclusive: None };
        turn.exclusive = Some(line.lock_owned().await);
        turn
    }

    /// The same, if nothing is asked or held under this id.
    #[cfg(feature = "zookeeper")]
    pub(super) fn idle_turn(self: &Arc<Self>, id: LeaseId) -> Option<Turn> {
        let mut state = self.lock();
        if state.asks.contains_key(&id) || state.held.contains_key(&id) {
            return None;
        }
        let asking = Asking { withdraw: self.closed.child_token(), line: Arc::default() };
        let exclusive = Arc::clone(&asking.line).try_lock_owned().ok();
        state.asks.insert(id, asking.clone());
        Some(Turn { desk: Arc::clone(self), id, asking, exclusive })
    }

    /// From here on it is given back when the engine is closed.
    pub(super) fn holds(&self, id: LeaseId, lease: &LeaseName) {
        self.lock().held.insert(id, lease.clone());
    }

    /// It is somebody else's business now.
    pub(super) fn lets_go(&self, id: LeaseId) {
        self.lock().held.remove(&id);
    }

    /// Closes it, and says what is still held.
    pub(super) fn close(&self) -> Vec<(LeaseId, LeaseName)> {
        self.closed.cancel();
        std::mem::take(&mut self.lock().held).into_iter().collect()
    }

    /// Refused if the engine was closed here.
    pub(super) fn open(&self) -> Result<(), Error> {
        if self.closed.is_cancelled() { Err(Error::Closed) } else { Ok(()) }
    }
}

impl Turn {
    /// Cancelled if whoever asked wants no answer any more.
    pub(super) fn withdrawn(&self) -> &CancellationToken {
        &self.asking.withdraw
    }

    /// Why an ask that was withdrawn was not granted.
    pub(super) fn ended(&self, lease: &LeaseName) -> Error {
        if self.desk.closed.is_cancelled() { Error::Closed } else { not_granted(lease) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        let mine = |asking: &Asking| asking.withdraw == self.asking.withdraw;
        if state.asks.get(&self.id).is_some_and(mine) {
            state.asks.remove(&self.id);
        }
    }
}

/// Runs it on the thread that renews, where the connections are. Ends if nobody waits for it.
pub(super) fn run<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Answer<T> {
    let task = AbortOnDropHandle::new(renewer::spawn(&Clock::System, task));
    Box::pin(async move {
        match task.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only with its runtime does it go, and whoever waits goes with the same.
                Err(_) => std::future::pending().await,
            },
        }
    })
}

/// Gives back again and again while nobody knows whether it was: a lease that nobody gives back is
/// led by nobody until it runs out.
pub(super) async fn insist<F>(clock: &Clock, mut release: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    let until = clock.boot().plus_ms(RELEASE_MS_MAX);
    loop {
        match release().await {
            Err(Error::Unknown(_) | Error::Handshake { .. }) if clock.boot() < until => {
                tokio::time::sleep(jittered(RELEASE_PAUSE)).await;
            }
            released => return released,
        }
    }
}

pub(super) fn not_granted(lease: &LeaseName) -> Error {
    Refusal::Lease(LeaseRefusal::NotGranted(lease.clone())).into()
}

pub(super) fn not_present(lease: &LeaseName) -> Error {
    Refusal::Lease(LeaseRefusal::NotPresent(lease.clone())).into()
}

/// A lease's version, out of what anybody can see of it. Within a term a lease is held, then maybe
/// asked for, then free, and the next term is greater: so it only grows.
pub(super) fn version(term: Term, held: bool, step_down_asked: bool) -> u64 {
    let phase = match (held, step_down_asked) {
        (true, false) => 1,
        (true, true) => 2,
        (false, _) => 3,
    };
    term.0.saturating_mul(4).saturating_add(phase)
}

/// A name in letters that every engine takes: what is not a letter, a digit, `-` or `_` is written
/// as `=` and two hexadecimal digits. Two names never become one.
pub(super) fn escaped(name: &LeaseName) -> String {
    let mut text = String::with_capacity(name.as_str().len());
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "={byte:02X}");
        }
    }
    text
}

/// Between half of it and one and a half: so that those who wait do not ask in step.
pub(super) fn jittered(pause: Duration) -> Duration {
    let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(ms / 2 + random_u64() % ms.max(1))
}

/// What is left until `until`.
pub(super) fn left(clock: &Clock, until: BootTime) -> Duration {
    Duration::from_millis(clock.boot().ms_until(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_never_become_one() {
        let text = |name: &str| escaped(&LeaseName::new(name).unwrap());
        assert_eq!(text("orders-7_A"), "orders-7_A");
        assert_eq!(text("a/b.c"), "a=2Fb=2Ec");
        assert_eq!(text("ö="), "=C3=B6=3D");
        assert_ne!(text("a=2Fb"), text("a/b"));
    }

    #[test]
    fn a_version_only_grows() {
        let story = [(7, true, false), (7, true, true), (7, false, false), (8, true, false)];
        let versions = story.map(|(term, held, asked)| version(Term(term), held, asked));
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    }

    #[tokio::test]
    async fn a_release_waits_for_the_ask_it_ends() {
        let (desk, id) = (Desk::new(), LeaseId(7));
        let ask = desk.turn(id).await;
        let mut release = Box::pin(desk.turn(id));
        tokio::select! {
            biased;
            _ = &mut release => panic!("the ask has not ended"),
            () = ask.withdrawn().cancelled() => drop(ask),
        }
        drop(release.await);
        assert!(desk.lock().asks.is_empty(), "nothing is kept of what has ended");
    }
}
