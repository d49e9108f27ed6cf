//! What this door has seen happen: a bounded side log in memory.
//!
//! The ledger says how things are, not how they came to be. So somebody looks, again and again, and
//! notes what is different: [`observe`]. What happens between two looks is seen as one change, what
//! happened before the server was started is not seen at all, and what is too old is forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bellwether::core::command::Command;
use bellwether::core::outcome::{Outcome, QueueInfo};
use serde_json::Value as Json;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::id;
use super::leases::ShownLease;
use super::problem::Told;
use super::queues::{PAGE_MAX, ShownQueue};
use super::state::{State, unexpected};

/// So many changes are kept for those who were away for a moment.
const RECENT_MAX: usize = 4096;
/// So many leases, and so many queues, are looked at: the first by name.
const LOOKED_AT_MAX: usize = 10_000;
/// From one look to the next, unless somebody nudges.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while there is no lease and nobody listens. However that is, nobody looks before something
/// has changed: an idle server costs nothing, nor do leases that are only renewed.
const LOOK_IDLY_EVERY: Duration = Duration::from_secs(10);
/// Looking takes at most one part in so many of the time.
const LOOK_SHARE: u32 = 100;

/// One thing that is different.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Counts up in this life of the server.
    pub(crate) number: u64,
    /// `lease` or `queue`.
    pub(crate) kind: &'static str,
    /// Which.
    pub(crate) name: String,
    /// How it is now; null if it is gone.
    pub(crate) data: Json,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Which life of the server this is: numbers of another one mean nothing here.
    life: String,
    log: Mutex<Log>,
    /// The number of the newest change.
    newest: watch::Sender<u64>,
    nudge: Notify,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Log {
    recent: VecDeque<Change>,
}

impl Observed {
    /// Nothing was seen yet; `stop` ends all that waits here.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            life: id::text(id::random())[..8].to_owned(),
            log: Mutex::default(),
            newest: watch::Sender::new(0),
            nudge: Notify::new(),
            stop,
        }
    }

    pub(crate) fn life(&self) -> &str {
        &self.life
    }

    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.stop
    }

    /// Something has probably changed: look at once.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// The number of the newest change, and of every one to come.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The changes after a number, and whether some of them are forgotten.
    pub(crate) fn after(&self, number: u64) -> (Vec<Change>, bool) {
        let log = self.lock();
        let oldest = log.recent.front().map(|change| change.number);
        let gap = oldest.is_some_and(|oldest| number + 1 < oldest);
        let changes = log.recent.iter().filter(|change| change.number > number).cloned().collect();
        (changes, gap)
    }

    fn note(&self, kind: &'static str, name: String, data: Json) {
        let mut log = self.lock();
        let number = *self.newest.borrow() + 1;
        push(&mut log.recent, Change { number, kind, name, data }, RECENT_MAX);
        drop(log);
        self.newest.send_replace(number);
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(log: &mut VecDeque<T>, entry: T, max: usize) {
    if log.len() == max {
        log.pop_front();
    }
    log.push_back(entry);
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct Seen {
    has_looked: bool,
    /// The version of each lease.
    leases: BTreeMap<String, u64>,
    /// Each queue; `None` while nobody wants to know.
    queues: Option<BTreeMap<String, QueueInfo>>,
}

/// Looks until it is stopped, or the store is closed.
pub(crate) async fn observe(state: State) {
    let observed = state.observed();
    let mut seen = Seen::default();
    let (mut pause, mut stirred) = (Duration::ZERO, 0);
    loop {
        let due = async {
            tokio::time::sleep(pause).await;
            if let Ok(now) = state.bellwether().changed(stirred).await {
                stirred = now;
            }
        };
        tokio::select! {
            () = observed.stop.cancelled() => return,
            () = observed.nudge.notified() => {}
            () = due => {}
        }
        let before = state.now().boot;
        // A store that cannot be read now may be read later; when it is closed we are stopped.
        let _ = look(&state, &mut seen).await;
        let took = Duration::from_millis(before.ms_until(state.now().boot));
        let is_idle = seen.leases.is_empty() && observed.newest.receiver_count() == 0;
        let every = if is_idle { LOOK_IDLY_EVERY } else { LOOK_EVERY };
        pause = every.max(took * LOOK_SHARE);
    }
}

async fn look(state: &State, seen: &mut Seen) -> Told<()> {
    look_at_leases(state, seen).await?;
    seen.has_looked = true;
    if state.observed().newest.receiver_count() == 0 {
        seen.queues = None;
        return Ok(());
    }
    look_at_queues(state, seen).await
}

async fn look_at_leases(state: &State, seen: &mut Seen) -> Told<()> {
    let observed = state.observed();
    let mut found = BTreeMap::new();
    let mut after = None;
    while found.len() < LOOKED_AT_MAX {
        let leases = match state.ask(Command::ListLeases { after, max: PAGE_MAX }).await? {
            Outcome::Leases(leases) => leases,
            other => unexpected(&other),
        };
        after = leases.last().map(|last| last.name.clone());
        let is_last = leases.len() < PAGE_MAX as usize;
        for info in leases {
            let name = info.name.to_string();
            let before = seen.leases.get(&name).copied();
            // What was there at the first look is not new.
            if seen.has_looked && before != Some(info.version) {
                let data = serde_json::to_value(ShownLease::from(&info)).unwrap_or_default();
                observed.note("lease", info.name.to_string(), data);
            }
            found.insert(name, info.version);
        }
        if is_last {
            break;
        }
    }
    seen.leases = found;
    Ok(())
}

async fn look_at_queues(state: &State, seen: &mut Seen) -> Told<()> {
    let observed = state.observed();
    let mut found = BTreeMap::new();
    let mut after = None;
    while found.len() < LOOKED_AT_MAX {
        let queues = match state.ask(Command::ListQueues { after, max: PAGE_MAX }).await? {
            Outcome::Queues(queues) => queues,
            other => unexpected(&other),
        };
        after = queues.last().map(|last| last.name.clone());
        let is_last = queues.len() < PAGE_MAX as usize;
        found.extend(queues.into_iter().map(|info| (info.name.to_string(), info)));
        if is_last {
            break;
        }
    }
    if let Some(before) = &seen.queues {
        for (name, info) in found.iter().filter(|(name, info)| before.get(*name) != Some(info)) {
            let data = serde_json::to_value(ShownQueue::from(info.clone())).unwrap_or_default();
            observed.note("queue", name.clone(), data);
        }
        for name in before.keys().filter(|name| !found.contains_key(*name)) {
            observed.note("queue", name.clone(), Json::Null);
        }
    }
    seen.queues = Some(found);
    Ok(())
}
