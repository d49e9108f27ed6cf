//! The server's boundary: turns what is applied and said there into history.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use bellwether::Error;
use bellwether::engine::{Call, Reply};
use bellwether_core::command::{Command, Disposition, HeldSet, Request, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::message::{MessageView, Reason, State};
use bellwether_core::name::{
    LeaseName, LockToken, Part, QueueName, QueuePath, SequenceNumber, SessionId, SessionToken,
};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;

use crate::bodies::Bodies;
use crate::bus::{Bus, Packet};
use crate::history::{Body, Delivery, Hold, How, Key, Seen, Spot, Stands, Token, What};

/// Who asked the server.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A member.
    Member(Rc<Packet>),
    /// The auditor, about one half of a queue, or about its counters.
    Audit {
        /// Which look.
        audit: u64,
        /// Which queue.
        queue: u8,
        /// Which half; `None` for the counters.
        part: Option<Part>,
    },
}

/// A request that was applied.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Who asked.
    pub asker: Asker,
    /// When it was applied.
    pub applied_ms: u64,
    /// In which record.
    pub as_of: u64,
}

/// One look of the auditor, under way.
#[derive(Debug)]
struct Audit {
    as_of: u64,
    begun_ms: u64,
    parts_missing: usize,
    messages: Vec<Seen>,
    on_their_way: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Boundary {
    bodies: Bodies,
    /// Requests that were answered with success.
    said: BTreeSet<Key>,
    /// When a request was first applied: then, or at a later time, it was decided.
    first_ms: BTreeMap<Key, u64>,
    audits: BTreeMap<u64, Audit>,
    /// When the newest complete look was, and what it saw.
    pub last_audit: Option<(u64, Vec<Seen>)>,
}

/// Number of a queue, session or election, from its name.
fn index(name: &str) -> u8 {
    name[1..].parse().expect("names of the world are a letter and a number")
}

/// Name of a queue.
pub(crate) fn queue_name(queue: u8) -> QueueName {
    QueueName::new(&format!("q{queue}")).expect("a good name")
}

/// Name of a session.
pub(crate) fn session_name(session: u8) -> SessionId {
    SessionId::new(&format!("s{session}")).expect("a good name")
}

/// Name of an election.
pub(crate) fn lease_name(election: u8) -> LeaseName {
    LeaseName::new(&format!("e{election}")).expect("a good name")
}

fn token(from: &QueuePath, token: LockToken) -> Token {
    Token {
        spot: spot(from, token.sequence),
        number: token.number.0,
        incarnation: token.incarnation.0,
    }
}

fn spot(from: &QueuePath, sequence: SequenceNumber) -> Spot {
    Spot { queue: index(from.queue.as_str()), part: from.part, sequence: sequence.0 }
}

fn hold(queue: &QueueName, token: &SessionToken) -> Hold {
    Hold {
        queue: index(queue.as_str()),
        session: index(token.session.as_str()),
        number: token.number.0,
        incarnation: token.incarnation.0,
    }
}

fn how(disposition: Disposition) -> How {
    match disposition {
        Disposition::Complete => How::Complete,
        Disposition::Abandon { delay_ms } => How::Abandon(delay_ms.unwrap_or(0)),
        Disposition::Release => How::Release,
        Disposition::Defer => How::Defer,
        Disposition::DeadLetter => How::DeadLetter,
    }
}

fn key(request: &Request) -> Key {
    Key { slot: request.member.0, number: request.number.0 }
}

fn is_durable(command: &Command) -> bool {
    matches!(
        command,
        Command::Send { .. }
            | Command::Cancel { .. }
            | Command::Settle { .. }
            | Command::AcceptSession { .. }
            | Command::CloseSession { .. }
            | Command::SetSessionState { .. }
            | Command::Acquire(_)
            | Command::ReleaseLease { .. }
    )
}

/// Whether a request asked again gets its first answer. An acquire does not: the lease may have
/// passed on since.
fn is_kept(command: &Command) -> bool {
    is_durable(command) && !matches!(command, Command::Acquire(_))
}

fn ids(call: &Call) -> Vec<u64> {
    let id = |body: &bytes::Bytes| body.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
    call.contents.iter().map(id).collect()
}

impl Boundary {
    /// Before anything is said.
    pub(crate) fn new(bodies: Bodies) -> Self {
        Self {
            bodies,
            said: BTreeSet::new(),
            first_ms: BTreeMap::new(),
            audits: BTreeMap::new(),
            last_audit: None,
        }
    }

    /// The auditor begins a look that consists of so many parts.
    pub(crate) fn begin_audit(&mut self, bus: &Bus, audit: u64, parts: usize) {
        let as_of = bus.history.len();
        let begun_ms = bus.now_ms();
        let begun =
            Audit { as_of, begun_ms, parts_missing: parts, messages: Vec::new(), on_their_way: 0 };
        self.audits.insert(audit, begun);
    }

    /// The server's process has ended: who waited for an answer gets none.
    pub(crate) fn life_ended(&mut self) {
        self.audits.clear();
    }

    /// A member's request is about to be applied.
    pub(crate) fn applied(&mut self, bus: &mut Bus, packet: &Packet) {
        let request = &packet.call.request;
        let now_ms = bus.now_ms();
        self.first_ms.entry(key(request)).or_insert(now_ms);
        let (slot, answered_below) = (request.member.0, request.answered_below.0);
        bus.record(What::Applied { slot, answered_below });
        match &request.command {
            Command::Send { queue, messages } => {
                let wall_ms = bus.wall_ms();
                let queue = index(queue.as_str());
                let cut = bus.plan.queues[usize::from(queue)].settings.ttl_ms;
                let due = messages[0].due.map_or(0, |due| due.0);
                let ttl_ms = messages[0].ttl_ms.into_iter().chain(cut).min();
                let expires = ttl_ms.map_or(u64::MAX, |ttl_ms| due.max(wall_ms) + ttl_ms);
                bus.record(What::SendApplied {
                    key: key(request),
                    queue,
                    ids: ids(&packet.call),
                    hashes: messages.iter().map(|new| new.id_hash as u64).collect(),
                    wall_ms,
                    due_wall_ms: due,
                    expires_wall_ms: expires,
                });
            }
            Command::Cancel { queue, sequences } => {
                let sequences = sequences.iter().map(|sequence| sequence.0).collect();
                bus.record(What::CancelApplied { queue: index(queue.as_str()), sequences });
            }
            Command::Settle { from, settlements } => {
                for Settlement { token: shown, disposition, .. } in settlements {
                    let (token, how) = (token(from, *shown), how(*disposition));
                    bus.record(What::SettleApplied { token, how });
                }
            }
            Command::RenewLocks { from, tokens, .. } => {
                for shown in tokens {
                    bus.record(What::RenewApplied { token: token(from, *shown) });
                }
            }
            Command::RenewSession { queue, token } => {
                bus.record(What::HoldRenewApplied { hold: hold(queue, token) });
            }
            Command::CloseSession { queue, token } => {
                bus.record(What::HoldClosing { hold: hold(queue, token) });
            }
            Command::ReleaseLease { lease, id, .. } => {
                bus.record(What::ReleaseApplied { election: index(lease.as_str()), id: id.0 });
            }
            _ => {}
        }
    }

    /// An answer leaves the server. `boot_zero_ms` is the true time at which its boot clock began.
    pub(crate) fn said(
        &mut self,
        bus: &mut Bus,
        asked: &Asked,
        result: &Result<Reply, Error>,
        boot_zero_ms: u64,
    ) {
        match &asked.asker {
            Asker::Audit { audit, queue, part } => {
                if let Ok(reply) = result {
                    self.audited(bus, *audit, *queue, *part, reply);
                }
            }
            Asker::Member(packet) => match result {
                Ok(reply) => {
                    let key = key(&packet.call.request);
                    let first_ms = self.first_ms.get(&key).filter(|_| key.number != 0);
                    let decided_ms = first_ms.copied().unwrap_or(asked.applied_ms);
                    self.said_yes(bus, packet, (decided_ms, asked), reply, boot_zero_ms);
                }
                Err(Error::Refused(refusal)) => {
                    Self::said_no(bus, &packet.call, asked, refusal);
                }
                Err(_) => {}
            },
        }
    }

    fn said_yes(
        &mut self,
        bus: &mut Bus,
        packet: &Packet,
        (applied_ms, asked): (u64, &Asked),
        reply: &Reply,
        boot_zero_ms: u64,
    ) {
        let request = &packet.call.request;
        let key = key(request);
        let durable = is_durable(&request.command) && reply.outcome != Outcome::Session(None);
        let mut digest = DefaultHasher::new();
        format!("{:?}", reply.outcome).hash(&mut digest);
        let kept = durable && is_kept(&request.command);
        let digest = digest.finish();
        bus.record(What::Answered { key, durable, kept, ok: true, digest, why: None });
        let again = kept && key.number != 0 && !self.said.insert(key);
        if let Outcome::Received(views) = &reply.outcome {
            self.delivered(bus, request, key, views, reply, boot_zero_ms);
        }
        if again {
            // It was said before, and judged by that time.
            return;
        }
        match (&request.command, &reply.outcome) {
            (Command::Send { queue, messages }, Outcome::Sent(sequences)) => {
                let sequences: Vec<u64> = sequences.iter().map(|sequence| sequence.0).collect();
                let count = sequences.iter().filter(|sequence| **sequence != 0).count() as u64;
                bus.stats.sent += count;
                bus.backlog += count;
                bus.record(What::Sent {
                    as_of: asked.as_of,
                    key,
                    queue: index(queue.as_str()),
                    ids: ids(&packet.call),
                    sequences,
                    session: messages[0].session.as_ref().map(|session| index(session.as_str())),
                    scheduled: messages[0].due.is_some(),
                });
            }
            (Command::Settle { from, settlements }, Outcome::Settled { refused }) => {
                for (at, settlement) in settlements.iter().enumerate() {
                    let no = refused.iter().find(|(index, _)| *index as usize == at);
                    let no = no.map(|(_, refusal)| refusal);
                    let applied_ms = if no.is_none() { applied_ms } else { asked.applied_ms };
                    settled(bus, key, from, settlement, no, applied_ms);
                }
            }
            (Command::RenewLocks { from, tokens, .. }, Outcome::Renewed { refused, .. }) => {
                for (at, shown) in tokens.iter().enumerate() {
                    let no = refused.iter().find(|(index, _)| *index as usize == at);
                    let lock_lost = matches!(no, Some((_, Refusal::LockLost(_))));
                    let (token, ok) = (token(from, *shown), no.is_none());
                    bus.record(What::Renewed { token, ok, lock_lost, applied_ms });
                }
            }
            (Command::AcceptSession { queue, .. }, Outcome::Session(Some(held))) => {
                bus.stats.holds += 1;
                let (hold, lock_ms) = (hold(queue, &held.token), held.lock_ms.into());
                bus.probes.retain(|_, probe| *probe != (hold.queue, Some(hold.session)));
                bus.record(What::Held { hold, key, lock_ms, applied_ms });
            }
            (Command::RenewSession { queue, token }, _) => {
                bus.record(What::HoldRenewed { hold: hold(queue, token), ok: true, applied_ms });
            }
            (Command::Acquire(acquire), Outcome::Granted { term, ttl_ms }) => {
                bus.stats.grants += 1;
                bus.record(What::Granted {
                    election: index(acquire.lease.as_str()),
                    term: term.0,
                    id: acquire.id.0,
                    slot: request.member.0,
                    ttl_ms: *ttl_ms,
                    applied_ms,
                });
            }
            (Command::RenewLease { lease, id }, Outcome::Granted { .. }) => {
                let election = index(lease.as_str());
                bus.record(What::RenewedById { election, id: id.0, ok: true, applied_ms });
            }
            (Command::ReleaseLease { lease, id, .. }, Outcome::Done) => {
                let election = index(lease.as_str());
                bus.record(What::Released { election, id: id.0, ok: true, applied_ms });
            }
            (Command::Heartbeat { held: HeldSet::List(list) }, Outcome::Beat(beat)) => {
                for (lease, term) in list {
                    let ok = !beat.resync && !beat.lost.contains(&(lease.clone(), *term));
                    bus.record(What::Kept {
                        election: index(lease.as_str()),
                        term: term.0,
                        slot: request.member.0,
                        ok,
                        applied_ms,
                    });
                }
            }
            _ => {}
        }
    }

    fn said_no(bus: &mut Bus, call: &Call, asked: &Asked, refusal: &Refusal) {
        let (applied_ms, as_of) = (asked.applied_ms, asked.as_of);
        let request = &call.request;
        let key = key(request);
        // A refusal that may pass is no answer to rely on.
        let durable = is_durable(&request.command) && !refusal.retry();
        let mut digest = DefaultHasher::new();
        format!("{refusal:?}").hash(&mut digest);
        let (kept, digest) = (durable && is_kept(&request.command), digest.finish());
        let why = Some(format!("{refusal:?}"));
        bus.record(What::Answered { key, durable, kept, ok: false, digest, why });
        match &request.command {
            Command::Send { .. } => bus.record(What::SendRefused { key, ids: ids(call), as_of }),
            Command::Settle { from, settlements } => {
                for settlement in settlements {
                    settled(bus, key, from, settlement, Some(refusal), applied_ms);
                }
            }
            Command::Receive(receive) => {
                let session = receive.session.as_ref();
                if let (Some(token), Refusal::SessionLost(_)) = (session, refusal) {
                    let hold = hold(&receive.from.queue, token);
                    bus.record(What::HoldRefused { hold, applied_ms });
                }
            }
            Command::RenewSession { queue, token } => {
                if let Refusal::SessionLost(_) = refusal {
                    let hold = hold(queue, token);
                    bus.record(What::HoldRenewed { hold, ok: false, applied_ms });
                }
            }
            Command::ReleaseLease { lease, id, .. } => {
                let election = index(lease.as_str());
                bus.record(What::Released { election, id: id.0, ok: false, applied_ms });
            }
            _ => {}
        }
    }

    fn delivered(
        &self,
        bus: &mut Bus,
        request: &Request,
        key: Key,
        views: &[MessageView],
        reply: &Reply,
        boot_zero_ms: u64,
    ) {
        let (from, session) = match &request.command {
            Command::Receive(receive) => (&receive.from, receive.session.as_ref()),
            Command::ReceiveDeferred { from, session, .. } => (from, session.as_ref()),
            _ => return,
        };
        let hold = session.map(|token| hold(&from.queue, token));
        let mut contents = reply.contents.iter();
        for view in views {
            let body = self.body(view, &mut contents);
            let (Some(shown), State::Locked(lock)) = (view.token(), view.message.standing.state)
            else {
                continue;
            };
            let granted_ms = if lock.until == BootTime::NEVER {
                bus.now_ms()
            } else {
                (lock.until.0 - u64::from(lock.lock_ms)).wrapping_add(boot_zero_ms)
            };
            bus.stats.deliveries += 1;
            if let Body::Of(id) = body {
                bus.probes.remove(&id);
            }
            bus.record(What::Delivered(Delivery {
                token: token(from, shown),
                key,
                body,
                origin: view.message.origin.0,
                counted: view.message.standing.deliveries,
                granted_ms,
                lock_ms: lock.lock_ms.into(),
                hold,
            }));
        }
    }

    /// The body of a message; what its receivers wrote beside it is only looked at.
    fn body<'a>(
        &self,
        view: &MessageView,
        contents: &mut impl Iterator<Item = &'a Result<bytes::Bytes, String>>,
    ) -> Body {
        let mut mine = contents.by_ref().take(view.contents().count());
        let body = mine.next().map_or(Body::Wrong("none".into()), |c| self.bodies.tell(c));
        match mine.next() {
            Some(Err(why)) => Body::Unreadable(why.clone()),
            _ => body,
        }
    }

    fn audited(&mut self, bus: &mut Bus, audit: u64, queue: u8, part: Option<Part>, reply: &Reply) {
        let Some(under_way) = self.audits.get_mut(&audit) else { return };
        let as_of = under_way.as_of;
        under_way.parts_missing -= 1;
        if let Outcome::Queue(info) = &reply.outcome {
            let (counts, totals) = (info.counts, info.totals);
            under_way.on_their_way += counts.ready + counts.locked + counts.scheduled;
            bus.record(What::Counted { as_of, queue, counts, totals });
        }
        if let (Outcome::Peeked(views), Some(part)) = (&reply.outcome, part) {
            let mut contents = reply.contents.iter();
            let mut seen = Vec::with_capacity(views.len());
            for view in views {
                let standing = view.message.standing;
                seen.push(Seen {
                    spot: Spot { queue, part, sequence: view.sequence.0 },
                    body: self.body(view, &mut contents),
                    origin: view.message.origin.0,
                    stands: match standing.state {
                        State::Ready => Stands::Ready,
                        State::Locked(_) => Stands::Locked,
                        State::Scheduled { .. } | State::Delayed { .. } => Stands::Later,
                        State::Deferred => Stands::Deferred,
                    },
                    counted: standing.deliveries,
                    too_often: standing.reason == Reason::MaxDeliveryCountExceeded,
                });
            }
            if let Some(under_way) = self.audits.get_mut(&audit) {
                under_way.messages.append(&mut seen);
            }
        }
        if self.audits.get(&audit).is_some_and(|under_way| under_way.parts_missing == 0) {
            let Some(done) = self.audits.remove(&audit) else { return };
            bus.backlog = done.on_their_way;
            bus.stats.audits += 1;
            let messages = done.messages;
            self.last_audit = Some((done.begun_ms, messages.clone()));
            bus.record(What::Audited { as_of, messages });
        }
    }
}

fn settled(
    bus: &mut Bus,
    key: Key,
    from: &QueuePath,
    settlement: &Settlement,
    refused: Option<&Refusal>,
    applied_ms: u64,
) {
    let lock_lost = matches!(refused, Some(Refusal::LockLost(_)));
    bus.stats.locks_lost += u64::from(lock_lost);
    let (token, how) = (token(from, settlement.token), how(settlement.disposition));
    let ok = refused.is_none();
    bus.stats.completed += u64::from(ok && how == How::Complete);
    bus.record(What::Settled { key, token, how, ok, lock_lost, applied_ms });
}
