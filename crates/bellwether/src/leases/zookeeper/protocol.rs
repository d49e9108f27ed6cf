//! What is asked of the ensemble, and in which order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bellwether_core::command::{Acquire, LeaseKind};
use bellwether_core::name::{LeaseId, LeaseName, Term};
use bellwether_core::outcome::{LeaseInfo, LeaseState};
use bellwether_core::time::BootTime;
use tokio_util::sync::CancellationToken;

use super::super::Renewal;
use super::super::desk::{
    Desk, Turn, escaped, insist, jittered, left, not_granted, not_present, version,
};
use super::address::Address;
use super::nodes::{Candidate, ERR_SESSION_EXPIRED, Node, Nodes};
use super::session::{Link, ZkFault};
use crate::clock::Clock;
use crate::error::Error;
use crate::renewer;

/// How long opening waits for a session.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// How often a view of an election is looked at.
const POLL: Duration = Duration::from_millis(400);
/// So soon must an ask that was not granted be repeated, or its place in line is given up.
const PLACE: Duration = Duration::from_secs(5);
/// Somebody else wrote at the same moment: so often is it tried again.
const TRIES: u32 = 5;

/// The nodes of all elections, and what this process does with them.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) desk: Arc<Desk>,
    nodes: Nodes,
    servers: String,
    grants: Mutex<BTreeMap<LeaseId, Grant>>,
}

/// What is held here.
#[derive(Clone, Debug)]
struct Grant {
    name: String,
    /// The session it goes with.
    owner: i64,
    ttl_ms: u64,
}

impl Line {
    pub(super) async fn open(address: String) -> Result<Arc<Self>, Error> {
        let read = Address::read(&address).map_err(|why| Error::Address { address, why })?;
        let (link, keeping) = Link::new(read.servers.clone(), read.session);
        renewer::spawn(&Clock::System, keeping);
        let servers = read.servers.join(",");
        let late = |_| {
            let why = format!("no session within {OPEN_MAX:?}");
            Error::Handshake { address: servers.clone(), why }
        };
        tokio::time::timeout(OPEN_MAX, link.established()).await.map_err(late)?;
        let nodes = Nodes::new(link, read.path);
        Ok(Arc::new(Self { desk: Desk::new(), nodes, servers, grants: Mutex::default() }))
    }

    /// How long a session outlives its last word, as the server will have it.
    pub(super) fn session_timeout(&self) -> Duration {
        self.nodes.link.session().timeout
    }

    fn error(&self, fault: ZkFault) -> Error {
        let address = self.servers.clone();
        match fault {
            ZkFault::Unreachable(why) => Error::Handshake { address, why },
            ZkFault::Unknown(why) => Error::Unknown(format!("{address}: {why}")),
            ZkFault::Refused(code) => Error::Failed(format!("{address} answered error {code}")),
        }
    }

    fn grants(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Grant>> {
        // No code between lock and unlock can leave the map half changed.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn acquire(self: &Arc<Self>, ask: &Acquire) -> Result<Term, Error> {
        self.desk.open()?;
        let turn = self.desk.turn(ask.id).await;
        let granted = self.stand_in_line(ask, &turn).await;
        if granted.is_err() {
            // Its place is kept for whoever asks again, and not for ever: a node that nobody speaks
            // for would lead one day.
            self.forget_later(ask.lease.clone(), ask.id, PLACE);
        }
        granted
    }

    async fn stand_in_line(&self, ask: &Acquire, turn: &Turn) -> Result<Term, Error> {
        let until = self.desk.clock.boot().plus_ms(ask.wait_ms);
        let election = escaped(&ask.lease);
        loop {
            let mut events = self.nodes.link.events();
            let (place, line) = self.place(&election, ask).await.map_err(|e| self.error(e))?;
            let watched = match place.checked_sub(1).map(|before| &line[before]) {
                None => {
                    let granted = self.take_office(&election, ask, &line[place]).await;
                    match granted.map_err(|fault| self.error(fault))? {
                        Some(term) => return Ok(term),
                        None => continue,
                    }
                }
                // Only whoever is right behind is woken by a node that goes.
                Some(before) => self.nodes.watch(&election, &before.name).await,
            };
            let Some(path) = watched.map_err(|fault| self.error(fault))? else { continue };
            loop {
                let time = left(&self.desk.clock, until);
                if time.is_zero() {
                    return Err(not_granted(&ask.lease));
                }
                let event = tokio::select! {
                    () = turn.withdrawn().cancelled() => return Err(turn.ended(&ask.lease)),
                    event = events.recv() => event,
                    () = tokio::time::sleep(time) => continue,
                };
                // An empty one: the connection broke, and our watch with it.
                if event.map_or(true, |event| event.is_empty() || event == path) {
                    break;
                }
            }
        }
    }

    /// Our place in line, and the line. A node that an earlier ask under this id has made is found
    /// again by the id; one that goes with an earlier session of ours goes soon, and is not ours.
    async fn place(
        &self,
        election: &str,
        ask: &Acquire,
    ) -> Result<(usize, Vec<Candidate>), ZkFault> {
        loop {
            let line = self.nodes.line(election).await?.unwrap_or_default();
            if let Some(place) = line.iter().position(|candidate| candidate.id == ask.id) {
                let session = self.nodes.link.session().id;
                match self.nodes.node(election, &line[place].name).await? {
                    Some(node) if node.owner() == session => return Ok((place, line)),
                    Some(_) => self.nodes.delete(election, &line[place].name).await?,
                    None => {}
                }
                continue;
            }
            let (member, says) = (self.desk.member, &ask.metadata);
            if !self.nodes.create(election, member, ask.id, ask.ttl_ms, says).await? {
                self.nodes.create_parents(election).await?;
            }
        }
    }

    /// We are first in what our server knows. It knows of every node that was made before ours, for
    /// it has told us that ours was made; what it may not know is that nodes are gone. So nobody is
    /// before us. That ours is still there is asked of the ensemble's leader.
    async fn take_office(
        &self,
        election: &str,
        ask: &Acquire,
        first: &Candidate,
    ) -> Result<Option<Term>, ZkFault> {
        let node = self.nodes.node_now(election, &first.name).await?;
        let session = self.nodes.link.session().id;
        let Some(node) = node.filter(|node| node.owner() == session) else { return Ok(None) };
        let grant = Grant { name: first.name.clone(), owner: session, ttl_ms: ask.ttl_ms };
        self.grants().insert(ask.id, grant);
        self.desk.holds(ask.id, &ask.lease);
        Ok(Some(node.term()))
    }

    pub(super) async fn renew(
        &self,
        lease: &LeaseName,
        id: LeaseId,
        asked: &CancellationToken,
    ) -> Renewal {
        if self.desk.open().is_err() {
            return Renewal::Closed;
        }
        let known = self.grants().get(&id).cloned();
        let Some(grant) = known else { return Renewal::Unknown };
        match self.nodes.node_now(&escaped(lease), &grant.name).await {
            Ok(Some(node)) if node.owner() == grant.owner && self.is_alive(grant.owner) => {
                if node.asked {
                    asked.cancel();
                }
                Renewal::Renewed
            }
            Ok(None) | Err(ZkFault::Refused(ERR_SESSION_EXPIRED)) => Renewal::Lost,
            // A node heard of over a session that is not its own says nothing of its own.
            Ok(Some(_)) | Err(_) => Renewal::Unknown,
        }
    }

    fn is_alive(&self, session: i64) -> bool {
        self.nodes.link.session().id == session
    }

    /// The lease is not renewed any more, and a session is: so its node is taken out of the line when
    /// its time is over.
    pub(super) fn lets_go(self: &Arc<Self>, lease: LeaseName, id: LeaseId) {
        self.desk.lets_go(id);
        let ttl_ms = self.grants().get(&id).map_or(0, |grant| grant.ttl_ms);
        self.forget_later(lease, id, Duration::from_millis(ttl_ms));
    }

    fn forget_later(self: &Arc<Self>, lease: LeaseName, id: LeaseId, later: Duration) {
        let line = Arc::clone(self);
        let forgetting = async move {
            tokio::time::sleep(later).await;
            // Until it is gone, or wanted again. An ask that comes now waits until it is gone.
            while let Some(turn) = line.desk.idle_turn(id) {
                if line.desk.open().is_err() || line.remove(&lease, id).await.is_ok() {
                    return;
                }
                drop(turn);
                tokio::time::sleep(jittered(PLACE)).await;
            }
        };
        renewer::spawn(&Clock::System, forgetting);
    }

    pub(super) async fn release(&self, lease: &LeaseName, id: LeaseId) -> Result<(), Error> {
        // Nothing that was asked under this id is on its way after this.
        let _turn = self.desk.turn(id).await;
        self.desk.lets_go(id);
        insist(&self.desk.clock, || async {
            self.remove(lease, id).await.map_err(|fault| self.error(fault))
        })
        .await
    }

    async fn remove(&self, lease: &LeaseName, id: LeaseId) -> Result<(), ZkFault> {
        let election = escaped(lease);
        let known = self.grants().get(&id).map(|grant| grant.name.clone());
        if let Some(name) = known {
            self.nodes.delete(&election, &name).await?;
            self.grants().remove(&id);
            return Ok(());
        }
        let line = self.nodes.line(&election).await?.unwrap_or_default();
        for candidate in line.iter().filter(|candidate| candidate.id == id) {
            self.nodes.delete(&election, &candidate.name).await?;
        }
        Ok(())
    }

    /// The line, and the node of whoever is first.
    async fn first(
        &self,
        election: &str,
    ) -> Result<Option<(Vec<Candidate>, Option<Node>)>, ZkFault> {
        for _ in 0..TRIES {
            let Some(line) = self.nodes.line(election).await? else { return Ok(None) };
            let Some(first) = line.first() else { return Ok(Some((line, None))) };
            if let Some(node) = self.nodes.node_now(election, &first.name).await? {
                return Ok(Some((line, Some(node))));
            }
        }
        Err(ZkFault::Unknown("it changes too fast to be seen".into()))
    }

    pub(super) async fn describe(&self, lease: &LeaseName) -> Result<Option<LeaseInfo>, Error> {
        self.desk.open()?;
        let found = self.first(&escaped(lease)).await.map_err(|fault| self.error(fault))?;
        // What nobody holds has left nothing but its name.
        let Some((line, Some(node))) = found else { return Ok(None) };
        Ok(Some(LeaseInfo {
            slots: 1,
            others: Vec::new(),
            paused: false,
            successor: None,
            name: lease.clone(),
            kind: LeaseKind::Bound,
            state: LeaseState::Leased,
            term: node.term(),
            id: line.first().map(|first| first.id),
            holder: line.first().map(|first| first.member),
            ttl_ms: node.ttl_ms,
            // When the session was heard of last is known to the ensemble alone; not more than this.
            remaining_ms: node.ttl_ms,
            granted_at: node.since(),
            version: version(node.term(), true, node.asked),
            step_down_asked: node.asked,
            waiting: line.iter().skip(1).map(|candidate| candidate.member).collect(),
            metadata: node.says,
        }))
    }

    pub(super) async fn watch(
        &self,
        lease: &LeaseName,
        seen: u64,
        wait: Duration,
    ) -> Result<Option<LeaseInfo>, Error> {
        let until: BootTime = self.desk.clock.boot().plus_ms(crate::queue::ms(wait));
        loop {
            let info = self.describe(lease).await?;
            let time = left(&self.desk.clock, until);
            if time.is_zero() || info.as_ref().map_or(0, |info| info.version) != seen {
                return Ok(info);
            }
            tokio::time::sleep(jittered(POLL).min(time)).await;
        }
    }

    pub(super) async fn ask_step_down(&self, lease: &LeaseName) -> Result<(), Error> {
        self.desk.open()?;
        let election = escaped(lease);
        for _ in 0..TRIES {
            let found = self.first(&election).await.map_err(|fault| self.error(fault))?;
            let Some((line, Some(node))) = found else { return Err(not_present(lease)) };
            let Some(first) = line.first() else { return Err(not_present(lease)) };
            let left = self.nodes.ask_step_down(&election, &first.name, &node).await;
            if left.map_err(|fault| self.error(fault))? {
                return Ok(());
            }
        }
        Err(self.error(ZkFault::Unknown("it changes too fast to be told".into())))
    }

    /// With the session every node of its own goes.
    pub(super) async fn close(&self) {
        self.desk.close();
        self.nodes.link.close().await;
    }
}
