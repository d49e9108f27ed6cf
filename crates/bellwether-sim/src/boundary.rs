//! The server's boundary: turns what is applied and said there into history.

mod audit;
mod errands;
mod leases;
mod line;
mod queues;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use bellwether::Error;
use bellwether::engine::{Call, Reply};
use bellwether_core::command::{Acquire, Command, Request, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::message::{MessageView, State};
use bellwether_core::name::{LeaseId, Part};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;

use crate::bodies::Bodies;
use crate::bus::{Bus, Packet};
use crate::history::{Body, Delivery, How, Key, Queue, Seen, What};
use audit::Audit;
pub(crate) use line::Release;
use words::{hold, how, ids, index, is_durable, is_kept, is_relaxed, is_volatile, key, token};
pub(crate) use words::{lease_name, queue_name, session_name};

/// Who asked the server.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A member.
    Member(Rc<Packet>),
    /// The auditor, about one half of a queue, or about its counters.
    Audit {
        /// Which look.
        audit: u64,
        /// Which half; `None` for the counters.
        part: Option<Part>,
    },
}

/// A request that was applied.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Who asked.
    pub asker: Asker,
    /// Its ticket.
    pub ticket: u64,
    /// When it was applied.
    pub applied_ms: u64,
    /// In which record.
    pub as_of: u64,
    /// In which queue it was decided, if it names one.
    pub queue: Queue,
    /// Which of the leases it shows stood as it shows them.
    pub stood: Vec<bool>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Boundary {
    bodies: Bodies,
    /// Requests that were answered with success.
    said: BTreeSet<Key>,
    /// When a request was first applied: then, or at a later time, it was decided.
    first_ms: BTreeMap<Key, u64>,
    /// Releases that were applied while their lease stood under the id they show.
    stood: BTreeSet<Key>,
    /// Leases as the ledger had them when they were last looked at: terms and ids.
    leases: BTreeMap<u8, (u64, Option<LeaseId>)>,
    /// The queues that have their names now.
    queues: BTreeMap<u8, Queue>,
    /// In which queue a request was decided, or would be.
    decided_in: BTreeMap<Key, Queue>,
    /// Under which slots processes are known.
    slots: BTreeMap<u32, u32>,
    audits: BTreeMap<u64, Audit>,
    /// When the newest complete look was, and what it saw.
    pub last_audit: Option<(u64, Vec<Seen>)>,
}

impl Boundary {
    /// Before anything is said.
    pub(crate) fn new(bodies: Bodies) -> Self {
        Self {
            bodies,
            said: BTreeSet::new(),
            first_ms: BTreeMap::new(),
            stood: BTreeSet::new(),
            leases: BTreeMap::new(),
            queues: BTreeMap::new(),
            decided_in: BTreeMap::new(),
            slots: BTreeMap::new(),
            audits: BTreeMap::new(),
            last_audit: None,
        }
    }

    /// The server's process has ended: who waited for an answer gets none.
    pub(crate) fn life_ended(&mut self) {
        self.audits.clear();
    }

    /// A member's request is about to be applied.
    pub(crate) fn applied(&mut self, bus: &mut Bus, packet: &Packet, queue: Queue) {
        let request = &packet.call.request;
        let now_ms = bus.now_ms();
        self.first_ms.entry(key(request)).or_insert(now_ms);
        let (slot, answered_below) = (request.member.0, request.answered_below.0);
        if slot != 0 {
            self.slots.insert(packet.process, slot);
        }
        bus.record(What::Applied { slot, answered_below });
        match &request.command {
            Command::Send { messages, .. } => {
                let wall_ms = bus.wall_ms();
                // It may be moved to the first queue at once, and live as long as that one says.
                let cuts = [queue.into(), 0].map(|at: usize| bus.plan.queues[at].settings.ttl_ms);
                let due = messages[0].due.map_or(0, |due| due.0);
                let ttl_ms = messages[0].ttl_ms.into_iter().chain(cuts.into_iter().flatten()).min();
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
            Command::Cancel { sequences, .. } => {
                let sequences = sequences.iter().map(|sequence| sequence.0).collect();
                bus.record(What::CancelApplied { queue, sequences });
            }
            Command::Settle { from, settlements } => {
                for Settlement { token: shown, disposition, .. } in settlements {
                    let (token, how) = (token(queue, from.part, *shown), how(*disposition));
                    bus.record(What::SettleApplied { token, how });
                }
            }
            Command::RenewLocks { from, tokens, lock_ms } => {
                for shown in tokens {
                    let lock_ms = lock_ms.map(u64::from);
                    let token = token(queue, from.part, *shown);
                    bus.record(What::RenewApplied { token, lock_ms });
                }
            }
            Command::RenewSession { token, .. } => {
                bus.record(What::HoldRenewApplied { hold: hold(queue, token) });
            }
            Command::CloseSession { token, .. } => {
                bus.record(What::HoldClosing { hold: hold(queue, token) });
            }
            Command::Acquire(Acquire { lease, id, .. }) => {
                bus.record(What::AcquireApplied { election: index(lease.as_str()), id: id.0 });
            }
            Command::ChangeLease { lease, id, .. } => {
                bus.record(What::ChangeApplied { election: index(lease.as_str()), id: id.0 });
            }
            Command::ReleaseLease { lease, id, .. } => {
                bus.record(What::ReleaseApplied { election: index(lease.as_str()), id: id.0 });
            }
            _ => Self::errand_applied(bus, packet, queue),
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
            Asker::Audit { audit, part } => match result {
                Ok(reply) => self.audited(bus, *audit, asked.queue, *part, Some(reply)),
                Err(Error::Refused(Refusal::QueueNotFound(_))) => {
                    self.audited(bus, *audit, asked.queue, *part, None);
                }
                Err(_) => {}
            },
            Asker::Member(packet) => match result {
                Ok(reply) => {
                    let key = key(&packet.call.request);
                    // What is not kept is decided anew each time.
                    let kept = key.number != 0 && is_kept(&packet.call.request.command);
                    let first_ms = self.first_ms.get(&key).filter(|_| kept);
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
        let (key, queue) = (key(request), asked.queue);
        let tells = reply.outcome != Outcome::Session(None);
        let volatile = is_volatile(&bus.plan, &request.command);
        let durable = is_durable(&request.command) && tells && !volatile;
        let mut digest = DefaultHasher::new();
        format!("{:?}", reply.outcome).hash(&mut digest);
        let kept = is_kept(&request.command) && tells;
        let digest = digest.finish();
        let (why, as_of) = (None, asked.as_of);
        bus.record(What::Answered { key, durable, kept, ok: true, digest, why, as_of });
        let again = kept && key.number != 0 && !self.said.insert(key);
        if let Outcome::Received(views) = &reply.outcome {
            self.delivered(bus, request, (key, queue), views, reply, boot_zero_ms);
        }
        if again {
            // It was said before, and judged by that time.
            return;
        }
        match (&request.command, &reply.outcome) {
            (Command::Send { messages, .. }, Outcome::Sent(sequences)) => {
                let sequences: Vec<u64> = sequences.iter().map(|sequence| sequence.0).collect();
                let count = sequences.iter().filter(|sequence| **sequence != 0).count() as u64;
                bus.stats.sent += count;
                bus.stats.relaxed += if volatile { count } else { 0 };
                bus.backlog += count;
                bus.record(What::Sent {
                    as_of: asked.as_of,
                    key,
                    queue,
                    ids: ids(&packet.call),
                    sequences,
                    session: messages[0].session.as_ref().map(|session| index(session.as_str())),
                    scheduled: messages[0].due.is_some(),
                    volatile,
                });
            }
            (Command::Settle { from, settlements }, Outcome::Settled { refused }) => {
                for (at, settlement) in settlements.iter().enumerate() {
                    let no = refused.iter().find(|(index, _)| *index as usize == at);
                    let no = no.map(|(_, refusal)| refusal);
                    let applied_ms = if no.is_none() { applied_ms } else { asked.applied_ms };
                    settled(bus, key, (queue, from.part), settlement, no, applied_ms);
                }
            }
            (Command::RenewLocks { from, tokens, .. }, Outcome::Renewed { refused, .. }) => {
                for (at, shown) in tokens.iter().enumerate() {
                    let no = refused.iter().find(|(index, _)| *index as usize == at);
                    let lock_lost = matches!(no, Some((_, Refusal::LockLost(_))));
                    let (token, ok) = (token(queue, from.part, *shown), no.is_none());
                    bus.record(What::Renewed { token, ok, lock_lost, applied_ms });
                }
            }
            (Command::AcceptSession { .. }, Outcome::Session(Some(held))) => {
                bus.stats.holds += 1;
                let (hold, lock_ms) = (hold(queue, &held.token), held.lock_ms.into());
                bus.probes.retain(|_, probe| *probe != (queue.index, Some(hold.session)));
                bus.record(What::Held { hold, key, lock_ms, applied_ms });
            }
            (Command::RenewSession { token, .. }, _) => {
                bus.record(What::HoldRenewed { hold: hold(queue, token), ok: true, applied_ms });
            }
            _ => {
                self.lease_said(bus, request, (applied_ms, asked), reply);
                self.errand_said(bus, request, asked, reply);
            }
        }
    }

    fn said_no(bus: &mut Bus, call: &Call, asked: &Asked, refusal: &Refusal) {
        let (applied_ms, as_of, queue) = (asked.applied_ms, asked.as_of, asked.queue);
        let request = &call.request;
        let key = key(request);
        // A refusal that may pass is no answer to rely on.
        let durable = is_durable(&request.command) && !refusal.retry();
        let mut digest = DefaultHasher::new();
        format!("{refusal:?}").hash(&mut digest);
        let (kept, digest) = (durable && is_kept(&request.command), digest.finish());
        let why = Some(format!("{refusal:?}"));
        bus.record(What::Answered { key, durable, kept, ok: false, digest, why, as_of });
        match &request.command {
            Command::Send { .. } => {
                let ids = ids(call);
                // A full queue is no reason to wait for it.
                bus.probes.retain(|id, _| !ids.contains(id));
                bus.record(What::SendRefused { key, ids, as_of });
            }
            Command::Settle { from, settlements } => {
                for settlement in settlements {
                    settled(bus, key, (queue, from.part), settlement, Some(refusal), applied_ms);
                }
            }
            Command::Receive(receive) => {
                let session = receive.session.as_ref();
                if let (Some(token), Refusal::SessionLost(_)) = (session, refusal) {
                    let hold = hold(queue, token);
                    bus.record(What::HoldRefused { hold, applied_ms });
                }
            }
            Command::RenewSession { token, .. } => {
                if let Refusal::SessionLost(_) = refusal {
                    let hold = hold(queue, token);
                    bus.record(What::HoldRenewed { hold, ok: false, applied_ms });
                }
            }
            Command::ReleaseLease { lease, id, .. } => {
                let (election, id) = (index(lease.as_str()), id.0);
                let stood = asked.stood == [true];
                bus.record(What::Released { election, id, ok: false, stood, applied_ms });
            }
            _ => {}
        }
    }

    fn delivered(
        &self,
        bus: &mut Bus,
        request: &Request,
        (key, queue): (Key, Queue),
        views: &[MessageView],
        reply: &Reply,
        boot_zero_ms: u64,
    ) {
        let (from, session, wanted_ms) = match &request.command {
            Command::Receive(receive) => {
                (&receive.from, receive.session.as_ref(), receive.lock_ms.map(u64::from))
            }
            Command::ReceiveDeferred { from, session, .. } => (from, session.as_ref(), None),
            _ => return,
        };
        let hold = session.map(|token| hold(queue, token));
        let mut contents = reply.contents.iter();
        for view in views {
            let body = self.body(view, &mut contents);
            if let Body::Of(id) = body {
                bus.probes.remove(&id);
            }
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
            bus.record(What::Delivered(Delivery {
                token: token(queue, from.part, shown),
                key,
                body,
                origin: view.message.origin.0,
                counted: view.message.standing.deliveries,
                granted_ms,
                lock_ms: lock.lock_ms.into(),
                wanted_ms,
                hold,
            }));
        }
    }
}

fn settled(
    bus: &mut Bus,
    key: Key,
    (queue, part): (Queue, Part),
    settlement: &Settlement,
    refused: Option<&Refusal>,
    applied_ms: u64,
) {
    let lock_lost = matches!(refused, Some(Refusal::LockLost(_)));
    bus.stats.locks_lost += u64::from(lock_lost);
    let (token, how) = (token(queue, part, settlement.token), how(settlement.disposition));
    let ok = refused.is_none();
    bus.stats.completed += u64::from(ok && how == How::Complete);
    let volatile = is_relaxed(&bus.plan, queue);
    bus.record(What::Settled { key, token, how, ok, lock_lost, applied_ms, volatile });
}
