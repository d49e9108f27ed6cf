//! Leases in an etcd that runs already.
//!
//! 1. *One etcd lease.* All elections of this process with the same ttl hang on one etcd lease
//!    (`session.rs`), and one keepalive renews them all. What is held by an abandoned hold is moved
//!    to an etcd lease of its own that nobody renews, so it runs out while the others go on.
//! 2. *Verified in the grant.* The transaction that makes us holder demands that there is none, and
//!    attaches our key to our etcd lease: if that one has died meanwhile, etcd refuses. Whoever
//!    waits and loses its etcd lease loses its place and begins anew.
//! 3. *Honest renewals.* Renewed means: the keepalive was answered with a ttl, and our key is there
//!    under that etcd lease. A ttl of zero or a missing key is etcd's word that it is over.
//! 4. *No herd.* The line is the order of create revisions. Whoever waits acts only when the one
//!    before it has gone, or, as the first, when the holder has; one watch a process tells.
//!
//! etcd starts all ttls again when its own leader changes: leases then last longer than asked for,
//! never shorter, and trust does not depend on it.

mod cluster;
mod keys;
mod news;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::candidacy::LossReason;
use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term};
use bellwether_core::outcome::{LeaseInfo, LeaseState, TermInfo};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::facts::ETCD;
use super::heart::{Beating, Heart, Held, Renewing, leases_by_heart};
use super::{Answer, Facts, Hold, Leases, Renewal, on_renewer};
use crate::clock::Clock;
use crate::error::Error;
use cluster::Cluster;
use keys::{Entry, Kind};
use news::News;
use session::Session;

/// For what nobody's trust depends on.
const PATIENCE: Duration = Duration::from_secs(5);
/// A transaction has at most 128 operations, and each lease takes two.
const READS_MAX: usize = 60;
/// Between two looks of whoever only watches.
const LOOK: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Etcd {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    member: MemberId,
    cluster: Cluster,
    heart: Heart,
    sessions: Mutex<BTreeMap<Duration, Arc<Session>>>,
    /// The ttl that a lease was asked for with, by its id: which session it hangs on.
    asked: Mutex<BTreeMap<LeaseId, Duration>>,
    /// Holds that were dropped and not released.
    abandoned: Mutex<BTreeSet<LeaseId>>,
    news: broadcast::Sender<News>,
    closed: CancellationToken,
}

/// Opens it: something must answer there.
pub(crate) async fn open(address: String) -> Result<Arc<dyn Leases>, Error> {
    let shared = Arc::new(Shared {
        clock: Clock::System,
        member: MemberId(crate::chance::random_u128()),
        cluster: Cluster::read(&address)?,
        heart: Heart::default(),
        sessions: Mutex::default(),
        asked: Mutex::default(),
        abandoned: Mutex::default(),
        news: broadcast::Sender::new(1024),
        closed: CancellationToken::new(),
    });
    let first = Arc::clone(&shared);
    on_renewer(&Clock::System, async move {
        let nothing = keys::range(keys::ALL);
        first.cluster.transaction(vec![], vec![nothing], PATIENCE).await.map(|_| ())
    })
    .await?;
    let watching = news::watch(Arc::clone(&shared), shared.news.clone());
    crate::renewer::spawn(&Clock::System, watching);
    Ok(Arc::new(Etcd { shared }))
}

/// What is kept of a lease.
struct Seen {
    holder: Option<Entry>,
    line: Vec<Entry>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code between lock and unlock can leave these half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn session(&self, ttl: Duration) -> Arc<Session> {
        let mut sessions = lock(&self.sessions);
        Arc::clone(sessions.entry(ttl).or_insert_with(|| Arc::new(Session::new(ttl))))
    }

    /// What the watch says may be about one that is held here.
    fn heard(&self, key: &str, is_gone: bool) {
        if is_gone {
            return;
        }
        let held = self.heart.held().into_iter();
        let asked = held.filter(|(lease, id)| keys::key(Kind::Word, lease, *id) == key);
        asked.for_each(|(lease, id)| self.heart.step_down(&lease, id));
    }

    async fn look(&self, lease: &LeaseName, patience: Duration) -> Result<Seen, Error> {
        let ranges =
            [Kind::Holder, Kind::Line].map(|kind| keys::range_of(&keys::prefix(kind, lease)));
        let (_, answer) = self.cluster.transaction(vec![], ranges.into(), patience).await?;
        Ok(Seen {
            holder: keys::found(&answer, 0).into_iter().next(),
            line: keys::found(&answer, 1),
        })
    }

    fn value(&self, ask: &Acquire) -> Value {
        json!({
            "member": self.member.to_string(),
            "metadata": ask.metadata,
            "ttl_ms": ask.ttl_ms,
            "granted_at": self.clock.now().wall.0,
        })
    }

    async fn acquire(&self, ask: &Acquire) -> Result<Term, Error> {
        let ttl = Duration::from_millis(ask.ttl_ms);
        let (asked_at, patience) = (self.clock.boot(), ttl / 2);
        let until = asked_at.plus_ms(ask.wait_ms);
        let session = self.session(ttl);
        lock(&self.asked).insert(ask.id, ttl);
        let mut news = self.news.subscribe();
        let mine = keys::key(Kind::Line, &ask.lease, ask.id);
        let mut alive_from = asked_at;
        loop {
            // Whatever is granted from here on lives for a ttl from when it was asked for.
            let lease = session.open(&self.cluster, &self.clock, alive_from).await?;
            let seen = self.look(&ask.lease, patience).await?;
            let place = seen.line.iter().position(|entry| entry.key == mine);
            let is_turn = seen.line.is_empty() || place == Some(0);
            match &seen.holder {
                Some(holder) if holder.id() == Some(ask.id) && holder.lease == lease => {
                    return Ok(Term(holder.created));
                }
                None if is_turn => match self.take(ask, lease, patience).await? {
                    Taken::Granted(term) => return Ok(term),
                    Taken::Late => continue,
                    Taken::SessionOver => {
                        session.is_over(lease).await;
                        continue;
                    }
                },
                _ => {}
            }
            let left = Duration::from_millis(self.clock.boot().ms_until(until));
            if left.is_zero() {
                return Err(Refusal::Lease(LeaseRefusal::NotGranted(ask.lease.clone())).into());
            }
            let Some(place) = place else {
                if !self.line_up(ask, &mine, lease, patience).await? {
                    session.is_over(lease).await;
                }
                continue;
            };
            let before = place.checked_sub(1).map(|before| seen.line[before].key.clone());
            let told = self.told(&mut news, ask, before.as_deref());
            tokio::select! {
                () = told => {}
                () = tokio::time::sleep((ttl / 3).min(left)) => alive_from = self.clock.boot(),
            }
        }
    }

    /// Until something happened that may make it our turn.
    async fn told(
        &self,
        news: &mut broadcast::Receiver<News>,
        ask: &Acquire,
        before: Option<&str>,
    ) {
        let holders = keys::prefix(Kind::Holder, &ask.lease);
        let granted = keys::key(Kind::Holder, &ask.lease, ask.id);
        loop {
            let Ok(News { key, is_gone }) = news.recv().await else { return };
            let is_ours = match before {
                Some(before) => is_gone && key == before,
                None => is_gone && key.starts_with(&holders),
            };
            if is_ours || key == granted || key.is_empty() {
                return;
            }
        }
    }

    async fn take(&self, ask: &Acquire, lease: i64, patience: Duration) -> Result<Taken, Error> {
        let holder = keys::key(Kind::Holder, &ask.lease, ask.id);
        let value = self.value(ask);
        let compare = vec![keys::none_of(&keys::prefix(Kind::Holder, &ask.lease))];
        let then = vec![
            keys::put(&holder, &value, lease),
            keys::put(&keys::last(&ask.lease), &value, 0),
            keys::delete(&keys::key(Kind::Line, &ask.lease, ask.id)),
        ];
        match self.cluster.transaction(compare, then, patience).await {
            Ok((true, answer)) => {
                Ok(Taken::Granted(Term(keys::number(&answer["header"]["revision"]))))
            }
            Ok((false, _)) => Ok(Taken::Late),
            Err(error) if is_lease_over(&error) => Ok(Taken::SessionOver),
            Err(error) => Err(error),
        }
    }

    /// Whether our etcd lease was there to hang the place on.
    async fn line_up(
        &self,
        ask: &Acquire,
        mine: &str,
        lease: i64,
        patience: Duration,
    ) -> Result<bool, Error> {
        let then = vec![keys::put(mine, &self.value(ask), lease)];
        match self.cluster.transaction(vec![keys::absent(mine)], then, patience).await {
            Ok(_) => Ok(true),
            Err(error) if is_lease_over(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn release(
        &self,
        lease: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
    ) -> Result<(), Error> {
        lock(&self.abandoned).remove(&id);
        let all = [Kind::Holder, Kind::Line, Kind::Word];
        let deletes: Vec<Value> =
            all.iter().map(|kind| keys::delete(&keys::key(*kind, lease, id))).collect();
        if let Some(successor) = successor {
            let seen = self.look(lease, PATIENCE).await?;
            let holder = seen.holder.filter(|holder| holder.id() == Some(id));
            let next = seen.line.into_iter().find(|entry| entry.member() == Some(successor));
            if let (Some(holder), Some(next)) = (holder, next)
                && self.hand_over(lease, &holder, &next, &deletes).await?
            {
                return Ok(());
            }
        }
        self.cluster.transaction(vec![], deletes, PATIENCE).await?;
        lock(&self.asked).remove(&id);
        Ok(())
    }

    /// From holder to holder in one transaction: nobody comes between.
    async fn hand_over(
        &self,
        lease: &LeaseName,
        holder: &Entry,
        next: &Entry,
        deletes: &[Value],
    ) -> Result<bool, Error> {
        let Some(id) = next.id() else { return Ok(false) };
        let compare = vec![
            keys::created_at(&holder.key, holder.created),
            keys::created_at(&next.key, next.created),
        ];
        let mut value = next.value.clone();
        value["granted_at"] = json!(self.clock.now().wall.0);
        let mut then = deletes.to_vec();
        then.push(keys::put(&keys::key(Kind::Holder, lease, id), &value, next.lease));
        then.push(keys::put(&keys::last(lease), &value, 0));
        then.push(keys::delete(&next.key));
        match self.cluster.transaction(compare, then, PATIENCE).await {
            Ok((done, _)) => Ok(done),
            // The successor has gone in this moment.
            Err(error) if is_lease_over(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn describe(&self, lease: &LeaseName) -> Result<Option<LeaseInfo>, Error> {
        let mut ranges: Vec<Value> = [Kind::Holder, Kind::Line, Kind::Word]
            .map(|kind| keys::range_of(&keys::prefix(kind, lease)))
            .into();
        ranges.push(keys::range(&keys::last(lease)));
        let (_, answer) = self.cluster.transaction(vec![], ranges, PATIENCE).await?;
        let [holder, line, word, last] = [0, 1, 2, 3].map(|n| keys::found(&answer, n));
        let Some(last) = last.into_iter().next() else { return Ok(None) };
        let (holder, is_asked) = (holder.into_iter().next(), !word.is_empty());
        let remaining_ms = match &holder {
            Some(holder) => self.remaining_ms(holder.lease).await?,
            None => 0,
        };
        let state = match (&holder, is_asked) {
            (Some(_), false) => 0,
            (Some(_), true) => 1,
            (None, _) => 2,
        };
        Ok(Some(LeaseInfo {
            slots: 1,
            others: Vec::new(),
            paused: false,
            successor: None,
            name: lease.clone(),
            kind: LeaseKind::Bound,
            state: if holder.is_some() { LeaseState::Leased } else { LeaseState::Available },
            term: Term(holder.as_ref().map_or(last.modified, |holder| holder.created)),
            id: holder.as_ref().and_then(Entry::id),
            holder: holder.as_ref().and_then(Entry::member),
            metadata: last.metadata(),
            ttl_ms: last.ttl_ms(),
            remaining_ms,
            granted_at: last.granted_at(),
            version: last.modified * 4 + state,
            step_down_asked: is_asked,
            waiting: line.iter().filter_map(Entry::member).collect(),
        }))
    }

    async fn remaining_ms(&self, lease: i64) -> Result<u64, Error> {
        let ask = json!({ "ID": lease.to_string() });
        let answer = self.cluster.call("lease/timetolive", &ask, PATIENCE).await?;
        // One that is not there any more has a ttl of less than nothing.
        let seconds = answer["TTL"].as_str().and_then(|ttl| ttl.parse::<u64>().ok());
        Ok(seconds.unwrap_or_default() * 1000)
    }

    async fn ask_step_down(&self, lease: LeaseName) -> Result<(), Error> {
        for _ in 0..3 {
            let Some(holder) = self.look(&lease, PATIENCE).await?.holder else { break };
            let Some(id) = holder.id() else { break };
            let compare = vec![keys::created_at(&holder.key, holder.created)];
            let word = keys::key(Kind::Word, &lease, id);
            let then = vec![keys::put(&word, &json!(holder.created), holder.lease)];
            if self.cluster.transaction(compare, then, PATIENCE).await?.0 {
                return Ok(());
            }
        }
        Err(Refusal::Lease(LeaseRefusal::NotPresent(lease)).into())
    }

    /// What became of those that hang on one etcd lease.
    async fn renew(&self, session: &Session, held: &[&Held]) -> Vec<Renewal> {
        let patience = session.ttl / 2;
        let now = self.clock.boot();
        let alive = session.keep_alive(&self.cluster, &self.clock, now).await;
        let mut fates = Vec::with_capacity(held.len());
        for held in held.chunks(READS_MAX) {
            let both = |one: &&Held| {
                [Kind::Holder, Kind::Word]
                    .map(|kind| keys::range(&keys::key(kind, &one.lease, one.id)))
            };
            let reads = held.iter().flat_map(both).collect();
            let read = match &alive {
                Ok(_) => self.cluster.transaction(vec![], reads, patience).await,
                // Without a sign of life nothing is renewed, whatever can be read.
                Err(error) => Err(error.clone()),
            };
            let Ok((_, answer)) = read else {
                fates.extend(held.iter().map(|_| Renewal::Unknown));
                continue;
            };
            for (n, one) in held.iter().enumerate() {
                if !keys::found(&answer, 2 * n + 1).is_empty() {
                    self.heart.step_down(&one.lease, one.id);
                }
                let holder = keys::found(&answer, 2 * n).into_iter().next();
                let holder = holder.filter(|holder| holder.created == one.term.0);
                fates.push(match (holder, &alive) {
                    (None, _) => Renewal::Lost,
                    (Some(holder), Ok(Some(id))) if holder.lease == *id => Renewal::Renewed,
                    // It hangs on something that nobody keeps alive.
                    (Some(_), _) => Renewal::Unknown,
                });
            }
        }
        fates
    }

    /// The other elections keep the etcd lease alive that this one hangs on: it gets one of its
    /// own, which nobody does.
    async fn detach(&self, held: &Held) -> Result<(), Error> {
        let ttl = lock(&self.asked).get(&held.id).copied().unwrap_or(PATIENCE);
        // Mostly it is released in the next moment.
        tokio::time::sleep(ttl / 4).await;
        if !lock(&self.abandoned).remove(&held.id) {
            return Ok(());
        }
        let lease = session::grant(&self.cluster, ttl).await?;
        let key = keys::key(Kind::Holder, &held.lease, held.id);
        let mut put = keys::put(&key, &Value::Null, lease);
        put["request_put"]["value"] = json!("");
        put["request_put"]["ignore_value"] = json!(true);
        let compare = vec![keys::created_at(&key, held.term.0)];
        self.cluster.transaction(compare, vec![put], PATIENCE).await.map(|_| ())
    }

    async fn close(&self) {
        if self.closed.is_cancelled() {
            return;
        }
        self.closed.cancel();
        let sessions: Vec<Arc<Session>> = lock(&self.sessions).values().cloned().collect();
        for session in sessions {
            if let Some(id) = session.id().await {
                // With it goes all that hangs on it; what cannot be said now runs out by itself.
                let ask = json!({ "ID": id.to_string() });
                let _ = self.cluster.call("lease/revoke", &ask, PATIENCE).await;
                session.is_over(id).await;
            }
        }
    }
}

enum Taken {
    Granted(Term),
    /// Somebody else was faster.
    Late,
    /// Our etcd lease had died before.
    SessionOver,
}

/// etcd does not know the lease that something shall hang on.
fn is_lease_over(error: &Error) -> bool {
    matches!(error, Error::Failed(why) if why.contains("requested lease not found"))
}

impl Beating for Shared {
    fn heart(&self) -> &Heart {
        &self.heart
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn beat(self: Arc<Self>, held: Vec<Held>) -> Answer<Vec<Renewal>> {
        Box::pin(async move {
            if self.closed.is_cancelled() {
                return vec![Renewal::Closed; held.len()];
            }
            let mut fates = vec![Renewal::Unknown; held.len()];
            let ttl_of = |one: &Held| lock(&self.asked).get(&one.id).copied();
            let ttls: BTreeSet<Duration> = held.iter().filter_map(ttl_of).collect();
            for ttl in ttls {
                let of_it: Vec<usize> =
                    (0..held.len()).filter(|n| ttl_of(&held[*n]) == Some(ttl)).collect();
                let these: Vec<&Held> = of_it.iter().map(|n| &held[*n]).collect();
                let session = self.session(ttl);
                for (n, fate) in of_it.iter().zip(self.renew(&session, &these).await) {
                    fates[*n] = fate;
                }
            }
            fates
        })
    }

    fn dropped(self: Arc<Self>, held: Held) {
        lock(&self.abandoned).insert(held.id);
        let clock = self.clock.clone();
        crate::renewer::spawn(&clock, async move {
            // Without an answer it runs out when this process ends or has no other election.
            let _ = self.detach(&held).await;
        });
    }
}

impl Leases for Etcd {
    leases_by_heart! { ETCD }

    fn release(
        &self,
        lease: LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        _: LossReason,
    ) -> Answer<Result<(), Error>> {
        let shared = Arc::clone(&self.shared);
        super::again(move || {
            let (shared, lease) = (Arc::clone(&shared), lease.clone());
            Box::pin(async move { shared.release(&lease, id, successor).await })
        })
    }

    fn watch(
        &self,
        lease: LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Answer<Result<Option<LeaseInfo>, Error>> {
        let shared = Arc::clone(&self.shared);
        on_renewer(&self.shared.clock, async move {
            let mut news = shared.news.subscribe();
            let until = shared.clock.boot().plus_ms(crate::queue::ms(wait));
            loop {
                let info = shared.describe(&lease).await?;
                let version = info.as_ref().map_or(0, |info| info.version);
                let left = Duration::from_millis(shared.clock.boot().ms_until(until));
                if version != seen || left.is_zero() {
                    return Ok(info);
                }
                let is_other = |key: &str| {
                    let mut ours = [Kind::Holder, Kind::Word]
                        .map(|kind| keys::prefix(kind, &lease))
                        .into_iter();
                    !key.is_empty() && !ours.any(|ours| key.starts_with(&ours))
                };
                let told =
                    async { while news.recv().await.is_ok_and(|news| is_other(&news.key)) {} };
                tokio::select! {
                    () = told => {}
                    () = tokio::time::sleep(LOOK.min(left)) => {}
                }
            }
        })
    }

    fn ask_step_down(&self, lease: LeaseName) -> Answer<Result<(), Error>> {
        let shared = Arc::clone(&self.shared);
        on_renewer(&self.shared.clock, async move { shared.ask_step_down(lease).await })
    }
}
