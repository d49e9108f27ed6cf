//! One heartbeat for all leases that are due, for engines where a renewal costs a call.
//!
//! ```text
//!   candidacy ── renew ──► asks ─┐
//!   candidacy ── renew ──► asks ─┴─► one call ──► renewed | lost | unknown, each its own
//!   candidacy ── renew ──► (the next call)
//! ```
//!
//! 1. A call serves only those who asked before it was sent: trust counts from the ask.
//! 2. Whoever asks waits a moment for company, so a thousand elections cost no more calls than the
//!    moments that fit into a third of their ttl.
//! 3. A call that hangs is given up at the first deadline of those it serves. Nothing is known then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bellwether_core::name::{LeaseId, LeaseName, Term};
use bellwether_core::time::BootTime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Answer, Hold, Renewal};
use crate::clock::Clock;

/// How long an ask waits for company. Small beside a third of the shortest ttl.
const COMPANY: Duration = Duration::from_millis(20);

/// What the engines with a heart do alike, in an `impl Leases` of what has `shared`, an `Arc` of whatever
/// speaks to the engine.
macro_rules! leases_by_heart {
    ($facts:expr) => {
        fn facts(&self) -> &'static Facts {
            &$facts
        }

        fn clock(&self) -> &Clock {
            &self.shared.clock
        }

        fn member(&self) -> MemberId {
            self.shared.member
        }

        fn acquire(&self, ask: Acquire) -> Answer<Result<Term, Error>> {
            let shared = Arc::clone(&self.shared);
            Box::pin(async move {
                tokio::select! {
                    () = shared.closed.cancelled() => Err(Error::Closed),
                    asked = shared.acquire(&ask) => asked,
                }
            })
        }

        fn hold(
            &self,
            lease: LeaseName,
            id: LeaseId,
            term: Term,
            asked: CancellationToken,
        ) -> Box<dyn Hold> {
            Box::new(Renewing::new(&self.shared, Held { lease, id, term }, asked))
        }

        fn describe(&self, lease: LeaseName) -> Answer<Result<Option<LeaseInfo>, Error>> {
            let shared = Arc::clone(&self.shared);
            on_renewer(&self.shared.clock, async move { shared.describe(&lease).await })
        }

        fn history(&self, _: LeaseName) -> Answer<Result<Vec<TermInfo>, Error>> {
            Box::pin(std::future::ready(Err(super::no_history($facts.name))))
        }

        fn close(&self) -> Answer<()> {
            let shared = Arc::clone(&self.shared);
            let closing =
                crate::renewer::spawn(&self.shared.clock, async move { shared.close().await });
            // What cannot be said for want of a thread runs out by itself.
            Box::pin(async move { closing.await.unwrap_or_default() })
        }
    };
}
pub(super) use leases_by_heart;

/// A lease that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) lease: LeaseName,
    pub(super) id: LeaseId,
    pub(super) term: Term,
}

/// What has a heart.
pub(super) trait Beating: std::fmt::Debug + Send + Sync + 'static {
    fn heart(&self) -> &Heart;

    fn clock(&self) -> &Clock;

    /// Renews all of these with as few calls as it can, and says what became of each, in their
    /// order.
    fn beat(self: Arc<Self>, held: Vec<Held>) -> Answer<Vec<Renewal>>;

    /// From here on this one must run out by itself, unless it is released.
    fn dropped(self: Arc<Self>, _: Held) {}
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Heart {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<(LeaseName, LeaseId), CancellationToken>,
    asks: Vec<Ask>,
    /// A task sends heartbeats and will look at `asks` again before it ends.
    is_beating: bool,
}

#[derive(Debug)]
struct Ask {
    held: Held,
    deadline: BootTime,
    answer: oneshot::Sender<Renewal>,
}

impl Heart {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code between lock and unlock can leave the lists half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the holder that somebody asks it to step down.
    pub(super) fn step_down(&self, lease: &LeaseName, id: LeaseId) {
        let asked = self.lock().held.get(&(lease.clone(), id)).cloned();
        if let Some(asked) = asked {
            asked.cancel();
        }
    }

    /// Everything held at this moment.
    pub(super) fn held(&self) -> Vec<(LeaseName, LeaseId)> {
        self.lock().held.keys().cloned().collect()
    }

    fn due(&self, now: BootTime) -> Option<Vec<Ask>> {
        let mut state = self.lock();
        let asks = std::mem::take(&mut state.asks).into_iter();
        let due: Vec<Ask> =
            asks.filter(|ask| now < ask.deadline && !ask.answer.is_closed()).collect();
        state.is_beating = !due.is_empty();
        (!due.is_empty()).then_some(due)
    }
}

/// A lease whose renewals go with the heartbeat, until dropped.
#[derive(Debug)]
pub(super) struct Renewing<B: Beating> {
    beating: Arc<B>,
    held: Held,
}

impl<B: Beating> Renewing<B> {
    /// `asked` is cancelled when a heartbeat brings the word to step down.
    pub(super) fn new(beating: &Arc<B>, held: Held, asked: CancellationToken) -> Self {
        beating.heart().lock().held.insert((held.lease.clone(), held.id), asked);
        Self { beating: Arc::clone(beating), held }
    }
}

impl<B: Beating> Hold for Renewing<B> {
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (beating, held) = (Arc::clone(&self.beating), self.held.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let is_first = {
                let mut state = beating.heart().lock();
                state.asks.push(Ask { held, deadline, answer });
                !std::mem::replace(&mut state.is_beating, true)
            };
            if is_first {
                tokio::spawn(beat(Arc::clone(&beating)));
            }
            tokio::select! {
                // A heartbeat whose task went away was not answered.
                renewal = answered => renewal.unwrap_or(Renewal::Unknown),
                () = beating.clock().sleep_until(deadline) => Renewal::Unknown,
            }
        })
    }
}

impl<B: Beating> Drop for Renewing<B> {
    fn drop(&mut self) {
        let key = (self.held.lease.clone(), self.held.id);
        self.beating.heart().lock().held.remove(&key);
        Arc::clone(&self.beating).dropped(self.held.clone());
    }
}

/// Sends heartbeats for as long as somebody asks.
async fn beat<B: Beating>(beating: Arc<B>) {
    loop {
        tokio::time::sleep(COMPANY).await;
        let Some(asks) = beating.heart().due(beating.clock().boot()) else { return };
        let deadline = asks.iter().map(|ask| ask.deadline).min().unwrap_or_default();
        let held: Vec<Held> = asks.iter().map(|ask| ask.held.clone()).collect();
        let answers = tokio::select! {
            answers = Arc::clone(&beating).beat(held) => Some(answers),
            () = beating.clock().sleep_until(deadline) => None,
        };
        match answers {
            Some(answers) => {
                for (ask, renewal) in asks.into_iter().zip(answers) {
                    // Whoever gave up waiting has drawn its own conclusion.
                    let _ = ask.answer.send(renewal);
                }
            }
            // A later heartbeat may still serve those who have time left.
            None => beating.heart().lock().asks.extend(asks),
        }
    }
}
