//! Many offices, spread over the members: each shard has one leader, and all have about as many.
//!
//! ```text
//!   look ─► who is here, and with which weight ─► spread ─► ours, and those we stand by for
//!    ▲                                                 │
//!    └── after a while ◄── hand over what is another's ┘   (`bellwether_core::shards`)
//! ```
//!
//! Every shard is an election of its own, `NAME/shard/17`, so all that holds for elections holds for
//! it; one heartbeat renews them all. Members are found by the elections `NAME/weight/W`, in whose
//! line they stand. A leader keeps a shard that is another's until that one waits for it: there is
//! no gap but the hand-over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseName, MemberId};
use bellwether_core::outcome::{LeaseInfo, Outcome};
use bellwether_core::shards::{Place, WEIGHT_MAX, spread};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::elector::{Election, Leadership, WorkOutput};
use crate::error::Error;
use crate::handle::{Bellwether, Inner, unreachable_outcome};

/// How many shards there may be: each look reads them all.
pub const SHARDS_MAX: u32 = 16_384;
/// Pause between two looks.
const LOOK_MS: u64 = 500;
/// Whoever is missed in so many looks in a row is gone: a wait that is repeated is out of line for a
/// moment.
const MISSED_MAX: u32 = 2;
/// How long one call stands in the line of members.
const STANDING: Duration = Duration::from_secs(3_600);
const PAGE: u32 = 1_000;

/// Shards that this member takes its part of.
///
/// ```no_run
/// # async fn example(shutdown: tokio_util::sync::CancellationToken) -> Result<(), bellwether::Error> {
/// let bw = bellwether::Bellwether::open("bellwether://10.0.0.5:7401").await?;
/// let shards = bw.shards("orders", 256)?.weight(2);
/// shards.run(|shard, leadership| async move {
///     println!("leading shard {shard} under term {}", leadership.term());
///     leadership.cancelled().await;
/// }, shutdown.cancelled()).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Shards {
    bellwether: Bellwether,
    name: LeaseName,
    count: u32,
    weight: u32,
    configure: Configure,
}

/// What every shard's election is configured with.
#[derive(Clone)]
struct Configure(Arc<dyn Fn(Election) -> Election + Send + Sync>);

impl fmt::Debug for Configure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Configure")
    }
}

impl Bellwether {
    /// `count` shards under one name, whose leadership is spread over all members that run them.
    /// Every member gives the same count.
    pub fn shards(&self, name: &str, count: u32) -> Result<Shards, Error> {
        if count == 0 || count > SHARDS_MAX {
            let why = format!("{count} is not between 1 and {SHARDS_MAX}");
            return Err(Refusal::InvalidValue { what: "count of shards", why }.into());
        }
        // The longest name of them all must be one.
        LeaseName::new(&shard_name(name, count - 1))?;
        LeaseName::new(&weight_name(name, WEIGHT_MAX))?;
        let name = LeaseName::new(name)?;
        let configure = Configure(Arc::new(|election| election));
        Ok(Shards { bellwether: self.clone(), name, count, weight: 1, configure })
    }
}

fn shard_name(name: &str, shard: u32) -> String {
    format!("{name}/shard/{shard}")
}

fn weight_name(name: &str, weight: impl fmt::Display) -> String {
    format!("{name}/weight/{weight}")
}

impl Shards {
    /// This member's share, in proportion to the weights of the others; one if not said.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the ttl, grace, limit of progress and so on of every shard's election.
    #[must_use]
    pub fn configure(
        mut self,
        configure: impl Fn(Election) -> Election + Send + Sync + 'static,
    ) -> Self {
        self.configure = Configure(Arc::new(configure));
        self
    }

    /// Leads its part of the shards until `shutdown` is ready; then stops all work and gives all of
    /// them back. Ends early only if the store is closed.
    pub async fn run<F, Fut>(self, work: F, shutdown: impl Future) -> Result<(), Error>
    where
        F: Fn(u32, Leadership) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: WorkOutput> + Send + 'static,
    {
        if self.weight == 0 || self.weight > WEIGHT_MAX {
            let why = format!("{} is not between 1 and {WEIGHT_MAX}", self.weight);
            return Err(Refusal::InvalidValue { what: "weight", why }.into());
        }
        // Refuses what cannot work before anybody counts on this member.
        (self.configure.0)(self.election(&shard_name(self.name.as_str(), 0))?).check()?;
        let inner = &self.bellwether.inner;
        let me = inner.renewer().await?.engine.member_id();
        let stop = CancellationToken::new();
        let _stop_when_dropped = stop.clone().drop_guard();
        let mut runner = Runner {
            shards: &self,
            work: Arc::new(work),
            me,
            roster: BTreeMap::new(),
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        runner.stand_in_line(&stop)?;
        tokio::pin!(shutdown);
        let ended = loop {
            if let Err(error) = runner.look().await {
                break Err(error);
            }
            let next = inner.clock.boot().plus_ms(LOOK_MS);
            tokio::select! {
                biased;
                _ = &mut shutdown => break Ok(()),
                Some(ended) = runner.tasks.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => break Err(error),
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                },
                () = inner.clock.sleep_until(next) => {}
            }
        };
        stop.cancel();
        runner.end().await;
        ended
    }

    fn election(&self, name: &str) -> Result<Election, Error> {
        self.bellwether.election(name)
    }

    /// All leases of these shards and their members.
    async fn leases(&self) -> Result<Vec<LeaseInfo>, Error> {
        let prefix = format!("{}/", self.name.as_str());
        let mut after = self.name.clone();
        let mut all = Vec::new();
        loop {
            let page = list(&self.bellwether.inner, after).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = last.name.clone();
            let ours = |info: &LeaseInfo| info.name.as_str().starts_with(&prefix);
            let is_past = !ours(last) && *last.name.as_str() > *prefix;
            let is_last = page.len() < PAGE as usize;
            all.extend(page.into_iter().filter(ours));
            if is_last || is_past {
                return Ok(all);
            }
        }
    }
}

async fn list(inner: &Inner, after: LeaseName) -> Result<Vec<LeaseInfo>, Error> {
    let command = Command::ListLeases { after: Some(after), max: PAGE };
    match inner.ask(command).await?.outcome {
        Outcome::Leases(leases) => Ok(leases),
        other => unreachable_outcome(&other),
    }
}

/// One member's part, at work.
struct Runner<'a, F> {
    shards: &'a Shards,
    work: Arc<F>,
    me: MemberId,
    /// Weight, and in how many looks it was missed.
    roster: BTreeMap<MemberId, (u32, u32)>,
    running: BTreeMap<u32, Running>,
    tasks: JoinSet<Result<(), Error>>,
}

/// A candidacy for one shard.
struct Running {
    stop: CancellationToken,
    leading: Arc<Mutex<Option<Leadership>>>,
}

impl Running {
    fn leading(&self) -> Option<Leadership> {
        self.leading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<F, Fut> Runner<'_, F>
where
    F: Fn(u32, Leadership) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: WorkOutput> + Send + 'static,
{
    /// Makes this member known to the others.
    fn stand_in_line(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let name = weight_name(self.shards.name.as_str(), self.shards.weight);
        let elector = self.shards.election(&name)?.wait(STANDING).lead(|leadership| async move {
            leadership.cancelled().await;
        });
        self.tasks.spawn(elector.run(stop.clone().cancelled_owned()));
        Ok(())
    }

    /// Finds out who is here and what is whose, and does its part.
    async fn look(&mut self) -> Result<(), Error> {
        let leases = match self.shards.leases().await {
            Ok(leases) => leases,
            Err(Error::Closed) => return Err(Error::Closed),
            // Unable to tell who is here: everybody stays where he is.
            Err(_) => return Ok(()),
        };
        self.call_roll(&leases);
        let members: Vec<(MemberId, u32)> =
            self.roster.iter().map(|(id, (weight, _))| (*id, *weight)).collect();
        let places = spread(self.shards.count, &members);
        let waiting: BTreeMap<&str, &LeaseInfo> =
            leases.iter().map(|info| (info.name.as_str(), info)).collect();
        for (shard, place) in (0..).zip(places) {
            let name = shard_name(self.shards.name.as_str(), shard);
            self.place(shard, place, waiting.get(name.as_str()).copied())?;
        }
        Ok(())
    }

    fn call_roll(&mut self, leases: &[LeaseInfo]) {
        let prefix = weight_name(self.shards.name.as_str(), "");
        let mut here = BTreeSet::from([self.me]);
        self.roster.insert(self.me, (self.shards.weight, 0));
        for info in leases {
            let weight = info.name.as_str().strip_prefix(&prefix).and_then(|w| w.parse().ok());
            let Some(weight) = weight else { continue };
            for member in info.holder.iter().chain(&info.waiting) {
                if *member != self.me {
                    here.insert(*member);
                    self.roster.insert(*member, (weight, 0));
                }
            }
        }
        self.roster.retain(|member, (_, missed)| {
            *missed = if here.contains(member) { 0 } else { *missed + 1 };
            *missed < MISSED_MAX
        });
    }

    /// Contends for what is ours or what we stand by for, and lets go of all else.
    fn place(&mut self, shard: u32, place: Place, info: Option<&LeaseInfo>) -> Result<(), Error> {
        let wanted = place.leader == self.me || place.standby == Some(self.me);
        let Some(running) = self.running.get(&shard) else {
            return if wanted { self.contend(shard) } else { Ok(()) };
        };
        match running.leading() {
            Some(_) if place.leader == self.me => {}
            Some(leadership) => {
                let waits = info.is_some_and(|info| info.waiting.contains(&place.leader));
                if waits {
                    leadership.hand_over(place.leader);
                }
            }
            None if wanted => {}
            None => {
                running.stop.cancel();
                self.running.remove(&shard);
            }
        }
        Ok(())
    }

    fn contend(&mut self, shard: u32) -> Result<(), Error> {
        let name = shard_name(self.shards.name.as_str(), shard);
        let election = (self.shards.configure.0)(self.shards.election(&name)?);
        let leading = Arc::new(Mutex::new(None));
        let (work, seat) = (Arc::clone(&self.work), Arc::clone(&leading));
        let elector = election.lead(move |leadership| {
            let (work, seat) = (Arc::clone(&work), Seat(Arc::clone(&seat)));
            seat.sit(Some(leadership.clone()));
            async move {
                let _seat = seat;
                work(shard, leadership).await.failure().map_or(Ok(()), Err)
            }
        });
        let stop = CancellationToken::new();
        self.tasks.spawn(elector.run(stop.clone().cancelled_owned()));
        self.running.insert(shard, Running { stop, leading });
        Ok(())
    }

    async fn end(mut self) {
        for running in self.running.values() {
            running.stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Says whether a shard is led here, also if its work panics or is aborted.
struct Seat(Arc<Mutex<Option<Leadership>>>);

impl Seat {
    fn sit(&self, leadership: Option<Leadership>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = leadership;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.sit(None);
    }
}
