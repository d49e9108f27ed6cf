//! A member's presence: one heartbeat renews every lease it holds.
//!
//! ```text
//!   candidacy ── renew ──► asks ─┐                        ┌─► renewed | lost | unknown
//!   candidacy ── renew ──► asks ─┴─► Heartbeat{Same} ─────┤
//!   candidacy ── renew ──► (next one)   └ resync: List ───┘
//! ```
//!
//! 1. A heartbeat serves only those who asked before it was sent: trust counts from the ask, and
//!    must never begin after the heartbeat that earned it.
//! 2. What a candidacy no longer holds leaves the set at once and runs out by itself; the other
//!    leases of this member are not touched by that.
//! 3. Nothing is known unless the engine said so: a heartbeat without an answer is *unknown*, and
//!    only an answer can say *lost*.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bellwether_core::command::{Command, HeldSet};
use bellwether_core::error::Refusal;
use bellwether_core::member::digest;
use bellwether_core::name::{LeaseName, Term};
use bellwether_core::outcome::{Beat, Outcome};
use bellwether_core::time::BootTime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::leases::{Answer, Hold, Renewal};

/// A lease under one of its terms: what a heartbeat names.
type Key = (LeaseName, Term);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<Key, Holding>,
    asks: Vec<Ask>,
    /// A task sends heartbeats and will look at `asks` again before it ends.
    beating: bool,
}

#[derive(Debug)]
struct Holding {
    step_down: CancellationToken,
    /// The engine said so, maybe in answer to somebody else's ask.
    lost: bool,
}

#[derive(Debug)]
struct Ask {
    key: Key,
    deadline: BootTime,
    answer: oneshot::Sender<Renewal>,
}

/// A lease in the set of its member's heartbeats, until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    inner: Arc<Inner>,
    key: Key,
}

/// One heartbeat: whom it serves, and what it names.
struct Round {
    asks: Vec<Ask>,
    set: Vec<Key>,
}

impl Inner {
    /// From here on heartbeats name this lease. `step_down` is cancelled when somebody asks its
    /// holder to step down.
    pub(crate) fn hold(
        self: &Arc<Self>,
        lease: LeaseName,
        term: Term,
        step_down: CancellationToken,
    ) -> Held {
        let key = (lease, term);
        let holding = Holding { step_down, lost: false };
        self.presence.lock().held.insert(key.clone(), holding);
        Held { inner: Arc::clone(self), key }
    }
}

impl Hold for Held {
    /// By a heartbeat that is sent from here on.
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (inner, key) = (Arc::clone(&self.inner), self.key.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let start = {
                let mut state = inner.presence.lock();
                state.asks.push(Ask { key, deadline, answer });
                !std::mem::replace(&mut state.beating, true)
            };
            if start {
                tokio::spawn(beat(Beating { inner: Arc::clone(&inner), ended: false }));
            }
            tokio::select! {
                // A heartbeat whose task went away was not answered.
                renewal = answered => renewal.unwrap_or(Renewal::Unknown),
                () = inner.clock.sleep_until(deadline) => Renewal::Unknown,
            }
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inner.presence.lock().held.remove(&self.key);
    }
}

/// The right to send heartbeats; given back even if its task is dropped with its runtime.
struct Beating {
    inner: Arc<Inner>,
    ended: bool,
}

impl Drop for Beating {
    fn drop(&mut self) {
        if !self.ended {
            self.inner.presence.lock().beating = false;
        }
    }
}

/// Sends heartbeats for as long as somebody asks.
async fn beat(mut beating: Beating) {
    let inner = Arc::clone(&beating.inner);
    while let Some(round) = inner.presence.begin(inner.clock.boot()) {
        let deadline = round.asks.iter().map(|ask| ask.deadline).min();
        let answer = tokio::select! {
            answer = heartbeat(&inner, &round.set) => Some(answer),
            // One that hangs must not hold up those who ask after it.
            () = inner.clock.sleep_until(deadline.unwrap_or(BootTime::NEVER)) => None,
        };
        match answer {
            Some(answer) => inner.presence.end(round, &answer),
            // A later heartbeat may still serve those who have time left.
            None => inner.presence.lock().asks.extend(round.asks),
        }
    }
    beating.ended = true;
}

async fn heartbeat(inner: &Inner, set: &[Key]) -> Result<Beat, Error> {
    let digest = digest(set.iter().map(|(lease, term)| (lease, *term)));
    let count = u32::try_from(set.len()).unwrap_or(u32::MAX);
    let first = ask(inner, HeldSet::Same { count, digest }).await?;
    if first.resync { ask(inner, HeldSet::List(set.to_vec())).await } else { Ok(first) }
}

async fn ask(inner: &Inner, held: HeldSet) -> Result<Beat, Error> {
    match inner.ask(Command::Heartbeat { held }).await?.outcome {
        Outcome::Beat(beat) => Ok(beat),
        other => unreachable_outcome(&other),
    }
}

impl Presence {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code between lock and unlock can leave the lists half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next heartbeat, if somebody still waits for one; else none is being sent any more.
    fn begin(&self, now: BootTime) -> Option<Round> {
        let mut state = self.lock();
        let asks = std::mem::take(&mut state.asks);
        let asks: Vec<Ask> =
            asks.into_iter().filter(|ask| now < ask.deadline && !ask.answer.is_closed()).collect();
        if asks.is_empty() {
            state.beating = false;
            return None;
        }
        let held = state.held.iter().filter(|(_, holding)| !holding.lost);
        Some(Round { asks, set: held.map(|(key, _)| key.clone()).collect() })
    }

    fn end(&self, round: Round, answer: &Result<Beat, Error>) {
        let lost: BTreeSet<Key> = match answer {
            Ok(beat) => beat.lost.iter().cloned().collect(),
            // The member is not known any more: its heartbeats renew nothing.
            Err(Error::Refused(Refusal::MemberGone)) => round.set.iter().cloned().collect(),
            Err(_) => BTreeSet::new(),
        };
        let mut state = self.lock();
        for (key, holding) in &mut state.held {
            holding.lost |= lost.contains(key);
        }
        let step_downs: Vec<CancellationToken> = answer
            .iter()
            .flat_map(|beat| &beat.step_down)
            .filter_map(|key| Some(state.held.get(key)?.step_down.clone()))
            .collect();
        let answers = round.asks.into_iter().map(|ask| {
            let renewal = match (answer, state.held.get(&ask.key)) {
                (_, Some(holding)) if holding.lost => Renewal::Lost,
                (Ok(_), Some(_)) if round.set.contains(&ask.key) => Renewal::Renewed,
                (Err(Error::Closed), _) => Renewal::Closed,
                // Any other refusal speaks of the store's state, not of the lease.
                _ => Renewal::Unknown,
            };
            (ask.answer, renewal)
        });
        let answers: Vec<(oneshot::Sender<Renewal>, Renewal)> = answers.collect();
        drop(state);
        for step_down in step_downs {
            step_down.cancel();
        }
        for (ask, renewal) in answers {
            // Whoever gave up waiting has drawn its own conclusion.
            let _ = ask.send(renewal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: BootTime = BootTime(1_000);

    fn key(name: &str) -> Key {
        (LeaseName::new(name).unwrap(), Term(7))
    }

    fn holding(presence: &Presence, name: &str) -> CancellationToken {
        let step_down = CancellationToken::new();
        let holding = Holding { step_down: step_down.clone(), lost: false };
        presence.lock().held.insert(key(name), holding);
        step_down
    }

    fn ask(presence: &Presence, name: &str, deadline: BootTime) -> oneshot::Receiver<Renewal> {
        let (answer, answered) = oneshot::channel();
        presence.lock().asks.push(Ask { key: key(name), deadline, answer });
        answered
    }

    fn beat(lost: &[&str], step_down: &[&str]) -> Beat {
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        Beat { resync: false, lost: keys(lost), step_down: keys(step_down) }
    }

    #[test]
    fn a_heartbeat_never_serves_who_asked_after_it_was_sent() {
        let presence = Presence::default();
        let (_a, _b) = (holding(&presence, "a"), holding(&presence, "b"));
        let (mut first, mut second) = (ask(&presence, "a", LATER), ask(&presence, "b", LATER));
        let round = presence.begin(BootTime(0)).unwrap();
        let mut late = ask(&presence, "a", LATER);
        presence.end(round, &Ok(beat(&[], &[])));
        assert!(matches!(first.try_recv(), Ok(Renewal::Renewed)));
        assert!(matches!(second.try_recv(), Ok(Renewal::Renewed)), "one heartbeat for both");
        assert!(late.try_recv().is_err(), "its trust would begin after the heartbeat");
        presence.end(presence.begin(BootTime(0)).unwrap(), &Ok(beat(&[], &[])));
        assert!(matches!(late.try_recv(), Ok(Renewal::Renewed)));
        assert!(presence.begin(BootTime(0)).is_none(), "nobody asks any more");
    }

    #[test]
    fn each_lease_hears_its_own_fate() {
        let presence = Presence::default();
        let (asked, not_asked) = (holding(&presence, "a"), holding(&presence, "b"));
        let (mut kept, mut lost) = (ask(&presence, "a", LATER), ask(&presence, "b", LATER));
        presence.end(presence.begin(BootTime(0)).unwrap(), &Ok(beat(&["b"], &["a"])));
        assert!(matches!(kept.try_recv(), Ok(Renewal::Renewed)));
        assert!(matches!(lost.try_recv(), Ok(Renewal::Lost)));
        assert!(asked.is_cancelled() && !not_asked.is_cancelled());
        // A lost one is not named again, and whoever asks for it hears the same again.
        let mut again = ask(&presence, "b", LATER);
        let round = presence.begin(BootTime(0)).unwrap();
        assert_eq!(round.set, [key("a")]);
        presence.end(round, &Ok(beat(&[], &[])));
        assert!(matches!(again.try_recv(), Ok(Renewal::Lost)));
    }

    #[test]
    fn without_an_answer_about_the_lease_nothing_is_known() {
        let presence = Presence::default();
        let _a = holding(&presence, "a");
        let busy = || Err(Error::Refused(Refusal::Busy { retry_after_ms: 1 }));
        for answer in [busy(), Err(Error::Unknown(String::new()))] {
            let mut asked = ask(&presence, "a", LATER);
            presence.end(presence.begin(BootTime(0)).unwrap(), &answer);
            assert!(matches!(asked.try_recv(), Ok(Renewal::Unknown)));
        }
        let mut asked = ask(&presence, "a", LATER);
        let gone = Err(Error::Refused(Refusal::MemberGone));
        presence.end(presence.begin(BootTime(0)).unwrap(), &gone);
        assert!(matches!(asked.try_recv(), Ok(Renewal::Lost)));
        let _late = ask(&presence, "a", LATER);
        assert!(presence.begin(LATER).is_none(), "its time is over");
    }
}
