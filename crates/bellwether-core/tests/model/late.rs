//! The ledger alone, while flushes and ticks come late: then nobody knows the right answer, but
//! everybody knows what must never happen. The changes tell what did.

use std::collections::BTreeMap;

use bellwether_core::change::{Change, Departure};
use bellwether_core::command::{Command, HeldSet, Loss, Request};
use bellwether_core::lease::{Hold, Lease};
use bellwether_core::ledger::Effects;
use bellwether_core::message::{Standing, State};
use bellwether_core::name::{
    At, LeaseName, LockToken, Part, QueueId, QueueName, SessionId, Term, Ticket,
};
use bellwether_core::outcome::{Answer, Barrier, Outcome};
use bellwether_core::time::BootTime;

use super::STEPS;
use super::world::{World, nobodys};

pub fn lag(seed: u64) {
    let mut late = Late::new(seed);
    for _ in 0..10 {
        let request = late.world.first_request();
        late.apply(&request);
    }
    for _ in 0..STEPS {
        late.random_step();
    }
    late.come_to_rest();
}

/// A message as its changes told.
struct Seen {
    standing: Standing,
    session: Option<SessionId>,
    /// The frame that made it ready.
    ready_in: u64,
    /// When its lock ends at the earliest.
    locked_until: BootTime,
}

struct Late {
    world: World,
    durable: u64,
    messages: BTreeMap<At, Seen>,
    /// Which queues there are, and whether they have sessions.
    queues: BTreeMap<QueueId, (QueueName, bool)>,
    leases: BTreeMap<(LeaseName, u32), (Lease, BootTime)>,
}

impl Late {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.known.alone = true;
        let (messages, queues, leases) = Default::default();
        Self { world, durable: 0, messages, queues, leases }
    }

    fn random_step(&mut self) {
        self.world.step += 1;
        let ms = match self.world.chance.below(10) {
            0..6 => 0,
            6..9 => self.world.chance.below(60),
            _ => self.world.chance.below(900),
        };
        self.world.now = self.world.now.plus_ms(ms);
        if self.world.chance.below(100) == 0 {
            let back = self.world.chance.below(300);
            self.world.now.wall.0 -= back;
        }
        if self.world.chance.below(4) == 0 {
            self.apply(&nobodys(Command::Tick));
        }
        let request = self.world.random_request();
        self.apply(&request);
        if self.world.chance.below(3) == 0 {
            let behind = self.world.chance.below(4);
            self.flush(self.world.frame.saturating_sub(1 + behind));
        }
        if self.world.step.is_multiple_of(32) {
            self.check_totals();
        }
    }

    fn apply(&mut self, request: &Request) {
        if request.command == (Command::Lost { how: Loss::Died }) {
            for seen in self.messages.values_mut() {
                if matches!(seen.standing.state, State::Locked(lock) if lock.member == request.member)
                {
                    seen.locked_until = seen.locked_until.min(self.world.now.boot);
                }
            }
        }
        let world = &mut self.world;
        world.ticket += 1;
        let ticket = Ticket(world.ticket);
        let mut fx = Effects::default();
        world.ledger.begin_frame(world.frame);
        world.asked.insert(ticket, request.clone());
        world.ledger.apply(world.now, ticket, request, &mut fx);
        self.look(request, fx);
        self.world.frame += 1;
        self.world.ledger.begin_frame(self.world.frame);
    }

    fn flush(&mut self, frame: u64) {
        if frame > self.durable {
            self.durable = frame;
            let mut fx = Effects::default();
            self.world.ledger.durable(self.world.now, frame, &mut fx);
            self.look(&nobodys(Command::Tick), fx);
            self.world.frame += 1;
            self.world.ledger.begin_frame(self.world.frame);
        }
    }

    fn look(&mut self, request: &Request, mut fx: Effects) {
        self.world.record(&fx);
        for change in &fx.changes {
            self.look_at(change, request);
        }
        for answer in fx.answers.drain(..) {
            let place = self.world.place();
            let request = self.world.asked.remove(&answer.ticket);
            let request = request.unwrap_or_else(|| panic!("{place}: answered twice: {answer:?}"));
            self.hear(&request, &answer);
            self.world.learn(&request, &answer.result);
        }
    }

    fn look_at(&mut self, change: &Change, request: &Request) {
        let frame = self.world.frame;
        match change {
            Change::Queue { id, name, settings, .. } => {
                self.queues.insert(*id, (name.clone(), settings.sessions));
            }
            Change::QueueGone { id } => {
                self.queues.remove(id);
                self.messages.retain(|at, _| at.queue != *id);
            }
            Change::Message { at, message, session, .. } => {
                let seen = Seen {
                    standing: message.standing,
                    session: session.clone(),
                    ready_in: frame,
                    locked_until: BootTime(0),
                };
                assert!(self.messages.insert(*at, seen).is_none(), "L8 {}", self.world.place());
            }
            Change::Standing { at, standing } => self.stands(*at, *standing),
            Change::Gone { at, why } => {
                if *why == Departure::Completed {
                    self.check_given_out(*at);
                }
                self.messages.remove(at);
            }
            Change::Lease { name, slot, lease } => self.lease_changes(name, *slot, lease, request),
            _ => {}
        }
    }

    fn stands(&mut self, at: At, new: Standing) {
        let place = self.world.place();
        let old = self.messages[&at].standing;
        assert!(new.number >= old.number, "L2 {place}: {at:?}");
        assert!(new.deliveries >= old.deliveries, "L5 {place}: {at:?}");
        match (old.state, new.state) {
            (State::Locked(_), State::Locked(_)) => {
                assert_eq!(new.number, old.number, "L1 {place}: {at:?} is locked twice");
            }
            (_, State::Locked(_)) => {
                assert!(new.number > old.number, "L2 {place}: {at:?}");
                self.check_given_out(at);
            }
            (State::Locked(_), _) if new.crashes > old.crashes => {
                let until = self.messages[&at].locked_until;
                assert!(until <= self.world.now.boot, "L3 {place}: {at:?} until {until:?}");
            }
            _ => {}
        }
        let (frame, now) = (self.world.frame, self.world.now.boot);
        let in_session = self.is_in_session(at);
        let seen = self.messages.get_mut(&at).unwrap();
        seen.standing = new;
        if new.state == State::Ready && old.state != State::Ready {
            seen.ready_in = frame;
        }
        if let (State::Locked(lock), false) = (new.state, in_session) {
            seen.locked_until = now.plus_ms(lock.lock_ms.into());
        }
    }

    fn is_in_session(&self, at: At) -> bool {
        at.part == Part::Main && self.queues[&at.queue].1
    }

    /// A message that was ready is handed out: that it is ready is durable, and in a session
    /// nothing before it waits (L6).
    fn check_given_out(&self, at: At) {
        let seen = &self.messages[&at];
        if seen.standing.state != State::Ready {
            return;
        }
        let place = self.world.place();
        assert!(seen.ready_in <= self.durable, "{place}: {at:?} is shown and is not durable");
        if !self.is_in_session(at) {
            return;
        }
        let first = At { sequence: bellwether_core::name::SequenceNumber(0), ..at };
        for (before, other) in self.messages.range(first..at) {
            let waits = matches!(other.standing.state, State::Ready | State::Delayed { .. });
            assert!(!(waits && other.session == seen.session), "L6 {place}: {before:?} {at:?}");
        }
    }

    fn lease_changes(&mut self, name: &LeaseName, slot: u32, new: &Lease, request: &Request) {
        let (now, place) = (self.world.now.boot, self.world.place());
        let mut renewed_at = now;
        if let Some((old, old_renewed_at)) = self.leases.get(&(name.clone(), slot)) {
            assert!(new.term >= old.term, "E1 {place}: {name:?}");
            let is_change = matches!(request.command, Command::ChangeLease { .. });
            let passes_on = new.term > old.term && !is_change;
            if passes_on && old.kind.is_bound() && matches!(old.hold, Hold::Held { .. }) {
                let end = old_renewed_at.plus_ms((old.ttl_ms * 105).div_ceil(100));
                assert!(end <= now, "E3 {place}: {name:?} holds until {end:?}");
            }
            let is_steered = matches!(
                request.command,
                Command::AskStepDown { .. }
                    | Command::HandOver { .. }
                    | Command::PauseLease { .. }
                    | Command::ResumeLease { .. }
            );
            if is_change || (is_steered && new.term == old.term) {
                renewed_at = *old_renewed_at;
            }
        }
        self.leases.insert((name.clone(), slot), (new.clone(), renewed_at));
    }

    fn hear(&mut self, request: &Request, answer: &Answer) {
        let place = self.world.place();
        let Ok(outcome) = &answer.result else { return };
        let may_be_lost = match (&request.command, outcome) {
            (Command::Receive(_), Outcome::Received(_)) => true,
            (_, outcome) => matches!(outcome, Outcome::Renewed { .. } | Outcome::Beat(_)),
        };
        assert!(may_be_lost || answer.barrier == Barrier::Durable, "D1 {place}: {request:?}");
        match (&request.command, outcome) {
            (Command::RenewLocks { from, tokens, .. }, Outcome::Renewed { refused, .. }) => {
                for (index, token) in tokens.iter().enumerate() {
                    if !refused.iter().any(|(i, _)| *i as usize == index) {
                        self.renewed(&from.queue, from.part, *token);
                    }
                }
            }
            (Command::Heartbeat { held: HeldSet::List(list) }, Outcome::Beat(beat)) => {
                let kept = list.iter().filter(|held| !beat.lost.contains(held));
                kept.for_each(|(name, term)| self.lease_renewed(name, *term));
            }
            (Command::RenewLease { lease, .. }, Outcome::Granted { term, .. }) => {
                self.lease_renewed(lease, *term);
            }
            _ => {}
        }
    }

    fn renewed(&mut self, queue: &QueueName, part: Part, token: LockToken) {
        let found = self.queues.iter().find(|(_, (name, _))| name == queue);
        let Some((id, _)) = found else { return };
        let at = At { queue: *id, part, sequence: token.sequence };
        if self.is_in_session(at) {
            return;
        }
        let now = self.world.now.boot;
        let Some(seen) = self.messages.get_mut(&at) else { return };
        if let State::Locked(lock) = seen.standing.state {
            seen.locked_until = now.plus_ms(lock.lock_ms.into());
        }
    }

    fn lease_renewed(&mut self, name: &LeaseName, term: Term) {
        let now = self.world.now.boot;
        let slots = self.leases.iter_mut().filter(|((slot_of, _), _)| slot_of == name);
        for (_, (_, at)) in slots.filter(|(_, (lease, _))| lease.term == term) {
            *at = now;
        }
    }

    fn check_totals(&mut self) {
        let now = self.world.now;
        for info in World::queues(&mut self.world.ledger, now) {
            World::check_totals(&info, &self.world.place());
        }
    }

    /// When everything is durable and time has come for everything, nobody waits any more.
    fn come_to_rest(&mut self) {
        for _ in 0..200 {
            self.world.now = self.world.now.plus_ms(50);
            self.apply(&nobodys(Command::Tick));
            self.flush(self.world.frame - 1);
        }
        let waiting = &self.world.asked;
        assert!(waiting.is_empty(), "{}: still waiting: {waiting:?}", self.world.place());
        self.check_totals();
        self.world.compare_with_rebuilt();
        for _ in 0..3 {
            self.world.survive_a_power_cut();
        }
    }
}
