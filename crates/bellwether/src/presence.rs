//! A member's presence: one heartbeat renews every lease it holds.
//!
//! ```text
//!   candidacy ── renew ──► asks ─┐                        ┌─► renewed | lost | unknown
//!   candidacy ── renew ──► asks ─┴─► Heartbeat{Same} ─────┤
//!   candidacy ── renew ──► (next one)   └ resync: List ───┘
//! ```
//!
//! 1. A heartbeat renews all it names, whoever asked for it, and counts from just before it was sent.
//!    So it serves also those who ask while it is on its way, and those who ask later and count from an
//!    earlier one: they go on in step with it, and a thousand leases need no more heartbeats than one.
//! 2. What a candidacy no longer holds leaves the set at once and runs out by itself; the other
//!    leases of this member are not touched by that.
//! 3. Nothing is known unless the engine said so: a heartbeat without an answer is *unknown*, and
//!    only an answer can say *lost*.

use std::collections::BTreeMap;
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
    /// Of those held that are not lost: how many, and their digest.
    count: u32,
    digest: u64,
    asks: Vec<Ask>,
    /// A task sends heartbeats and will look at `asks` again before it ends.
    beating: bool,
    /// The number of the last heartbeat.
    last: u64,
    /// The last heartbeat that renewed what it named, and when it was sent.
    renewed: Option<(u64, BootTime)>,
}

#[derive(Debug)]
struct Holding {
    step_down: CancellationToken,
    /// The first heartbeat that names it.
    named_from: u64,
    /// The heartbeat that its candidacy counts from; zero if that is its grant.
    counts_from: u64,
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

/// One heartbeat: who asked for it before it was sent, and what it says of the set.
struct Round {
    number: u64,
    sent_at: BootTime,
    asks: Vec<Ask>,
    count: u32,
    digest: u64,
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
        self.presence.lock().hold(key.clone(), step_down);
        Held { inner: Arc::clone(self), key }
    }
}

impl Hold for Held {
    /// By a heartbeat that is newer than the one it counts from: one that was sent for another lease,
    /// or one that is sent now.
    fn renew(&self, deadline: BootTime) -> Answer<Renewal> {
        let (inner, key) = (Arc::clone(&self.inner), self.key.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let start = {
                let mut state = inner.presence.lock();
                if let Some(sent_at) = state.renewed_since(&key) {
                    return Renewal::RenewedSince(sent_at);
                }
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
        self.inner.presence.lock().let_go(&self.key);
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
            answer = heartbeat(&inner, &round) => Some(answer),
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

async fn heartbeat(inner: &Inner, round: &Round) -> Result<Beat, Error> {
    let (count, digest) = (round.count, round.digest);
    let first = ask(inner, HeldSet::Same { count, digest }).await?;
    if first.resync { ask(inner, HeldSet::List(inner.presence.list())).await } else { Ok(first) }
}

async fn ask(inner: &Inner, held: HeldSet) -> Result<Beat, Error> {
    match inner.ask(Command::Heartbeat { held }).await?.outcome {
        Outcome::Beat(beat) => Ok(beat),
        other => unreachable_outcome(&other),
    }
}

impl State {
    fn hold(&mut self, key: Key, step_down: CancellationToken) {
        self.count += 1;
        self.digest = self.digest.wrapping_add(digest([(&key.0, key.1)]));
        let named_from = self.last + 1;
        self.held.insert(key, Holding { step_down, named_from, counts_from: 0, lost: false });
    }

    fn let_go(&mut self, key: &Key) {
        self.lose(key);
        self.held.remove(key);
    }

    /// From here on it is not named any more.
    fn lose(&mut self, key: &Key) {
        if let Some(holding) = self.held.get_mut(key)
            && !std::mem::replace(&mut holding.lost, true)
        {
            self.count -= 1;
            self.digest = self.digest.wrapping_sub(digest([(&key.0, key.1)]));
        }
    }

    /// A heartbeat has renewed it, and its candidacy does not know: when that was sent. From here on
    /// it counts from there.
    fn renewed_since(&mut self, key: &Key) -> Option<BootTime> {
        let (number, sent_at) = self.renewed?;
        let holding = self.held.get_mut(key).filter(|holding| !holding.lost)?;
        if number < holding.named_from || number <= holding.counts_from {
            return None;
        }
        holding.counts_from = number;
        Some(sent_at)
    }

    /// Those who asked while this heartbeat was on its way and are served by it, too.
    fn asked_meanwhile(&mut self, number: u64, is_answered: bool) -> Vec<Ask> {
        if !is_answered {
            return Vec::new();
        }
        let held = &self.held;
        let is_named =
            |ask: &mut Ask| held.get(&ask.key).is_some_and(|holding| holding.named_from <= number);
        self.asks.extract_if(.., is_named).collect()
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
        state.last += 1;
        let (number, count, digest) = (state.last, state.count, state.digest);
        Some(Round { number, sent_at: now, asks, count, digest })
    }

    /// What is held and not lost.
    fn list(&self) -> Vec<Key> {
        let state = self.lock();
        let held = state.held.iter().filter(|(_, holding)| !holding.lost);
        held.map(|(key, _)| key.clone()).collect()
    }

    fn end(&self, round: Round, answer: &Result<Beat, Error>) {
        let mut state = self.lock();
        match answer {
            Ok(beat) => {
                for key in &beat.lost {
                    state.lose(key);
                }
                state.renewed = Some((round.number, round.sent_at));
            }
            // The member is not known any more: its heartbeats renew nothing.
            Err(Error::Refused(Refusal::MemberGone)) => {
                let held = state.held.iter();
                let named: Vec<Key> = held
                    .filter(|(_, holding)| holding.named_from <= round.number)
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in &named {
                    state.lose(key);
                }
            }
            Err(_) => {}
        }
        let step_downs: Vec<CancellationToken> = answer
            .iter()
            .flat_map(|beat| &beat.step_down)
            .filter_map(|key| Some(state.held.get(key)?.step_down.clone()))
            .collect();
        let asks =
            round.asks.into_iter().chain(state.asked_meanwhile(round.number, answer.is_ok()));
        let answers: Vec<(oneshot::Sender<Renewal>, Renewal)> = asks
            .map(|ask| {
                let is_lost = state.held.get(&ask.key).is_some_and(|holding| holding.lost);
                let renewal = match answer {
                    _ if is_lost => Renewal::Lost,
                    Ok(_) => state
                        .renewed_since(&ask.key)
                        .map_or(Renewal::Unknown, Renewal::RenewedSince),
                    Err(Error::Closed) => Renewal::Closed,
                    // Any other refusal speaks of the store's state, not of the lease.
                    Err(_) => Renewal::Unknown,
                };
                (ask.answer, renewal)
            })
            .collect();
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
        presence.lock().hold(key(name), step_down.clone());
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

    /// What a heartbeat says of what it names.
    fn named(round: &Round) -> (u32, u64) {
        (round.count, round.digest)
    }

    fn digest_of(names: &[&str]) -> (u32, u64) {
        let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
        let digest = digest(keys.iter().map(|(lease, term)| (lease, *term)));
        (u32::try_from(names.len()).unwrap(), digest)
    }

    fn since(ms: u64) -> Renewal {
        Renewal::RenewedSince(BootTime(ms))
    }

    #[test]
    fn a_heartbeat_serves_all_it_names_and_counts_from_when_it_was_sent() {
        let presence = Presence::default();
        let (_a, _b) = (holding(&presence, "a"), holding(&presence, "b"));
        let mut first = ask(&presence, "a", LATER);
        let round = presence.begin(BootTime(10)).unwrap();
        assert_eq!(named(&round), digest_of(&["a", "b"]));
        let mut late = ask(&presence, "b", LATER);
        presence.end(round, &Ok(beat(&[], &[])));
        assert_eq!(first.try_recv(), Ok(since(10)));
        assert_eq!(late.try_recv(), Ok(since(10)), "and not from when it asked");
        assert!(presence.begin(BootTime(20)).is_none(), "nobody asks any more");
        assert_eq!(presence.lock().renewed_since(&key("a")), None, "it counts from that one");
        // One that is sent for one of them serves the other later.
        let _asked = ask(&presence, "a", LATER);
        presence.end(presence.begin(BootTime(30)).unwrap(), &Ok(beat(&[], &[])));
        assert_eq!(presence.lock().renewed_since(&key("b")), Some(BootTime(30)));
        assert_eq!(presence.lock().renewed_since(&key("b")), None, "once");
    }

    #[test]
    fn a_heartbeat_does_not_serve_what_was_granted_after_it_was_sent() {
        let presence = Presence::default();
        let _a = holding(&presence, "a");
        let _asked = ask(&presence, "a", LATER);
        let round = presence.begin(BootTime(10)).unwrap();
        let _b = holding(&presence, "b");
        let mut new = ask(&presence, "b", LATER);
        presence.end(round, &Ok(beat(&[], &[])));
        assert!(new.try_recv().is_err(), "nothing renewed it");
        assert_eq!(presence.lock().renewed_since(&key("b")), None);
        let round = presence.begin(BootTime(20)).unwrap();
        assert_eq!(named(&round), digest_of(&["a", "b"]));
        presence.end(round, &Ok(beat(&[], &[])));
        assert_eq!(new.try_recv(), Ok(since(20)));
    }

    #[test]
    fn a_heartbeat_without_an_answer_serves_nobody() {
        let presence = Presence::default();
        let (_a, _b) = (holding(&presence, "a"), holding(&presence, "b"));
        let mut first = ask(&presence, "a", LATER);
        let round = presence.begin(BootTime(10)).unwrap();
        let mut late = ask(&presence, "b", LATER);
        presence.end(round, &Err(Error::Unknown(String::new())));
        assert_eq!(first.try_recv(), Ok(Renewal::Unknown));
        assert!(late.try_recv().is_err(), "the next one may serve it");
        presence.end(presence.begin(BootTime(20)).unwrap(), &Ok(beat(&[], &[])));
        assert_eq!(late.try_recv(), Ok(since(20)));
    }

    #[test]
    fn each_lease_hears_its_own_fate() {
        let presence = Presence::default();
        let (asked, not_asked) = (holding(&presence, "a"), holding(&presence, "b"));
        let (mut kept, mut lost) = (ask(&presence, "a", LATER), ask(&presence, "b", LATER));
        presence.end(presence.begin(BootTime(0)).unwrap(), &Ok(beat(&["b"], &["a"])));
        assert_eq!(kept.try_recv(), Ok(since(0)));
        assert!(matches!(lost.try_recv(), Ok(Renewal::Lost)));
        assert!(asked.is_cancelled() && !not_asked.is_cancelled());
        // A lost one is not named again, and whoever asks for it hears the same again.
        let mut again = ask(&presence, "b", LATER);
        let round = presence.begin(BootTime(0)).unwrap();
        assert_eq!(named(&round), digest_of(&["a"]));
        assert_eq!(presence.list(), [key("a")]);
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
