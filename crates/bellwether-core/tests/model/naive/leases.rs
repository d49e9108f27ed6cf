//! Leases: a table of state and action, row by row.

use bellwether_core::command::{Acquire, LeaseKind, Request};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::fence::Fence;
use bellwether_core::lease::{check_slots, check_ttl};
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term, Ticket};
use bellwether_core::outcome::{HolderInfo, LeaseInfo, LeaseState, Outcome};
use bellwether_core::time::{BootTime, Now, WallTime};

use super::{ForWhat, Naive, Wait};

/// One slot of a lease, once it was granted or the lease was paused.
pub struct Lease {
    pub name: LeaseName,
    /// Which, from zero.
    pub slot: u32,
    /// How many there were when it was granted.
    slots: u32,
    pub term: Term,
    hold: Hold,
    kind: LeaseKind,
    ttl_ms: u64,
    pub member: u32,
    metadata: String,
    granted_at: WallTime,
    /// How often an onlooker could have seen somebody act on it.
    changes: u64,
    pub step_down_asked: bool,
    /// Who shall be next; zero for nobody in particular.
    successor: u32,
    paused: bool,
    /// Its end has been made known.
    pub end_heard: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Hold {
    Free,
    Held { id: LeaseId, renewed_at: BootTime },
    Broken { id: LeaseId, until: BootTime },
}

use LeaseState::{Available, Breaking, Broken, Expired, Leased};

impl Lease {
    pub fn ends_at(&self) -> BootTime {
        match self.hold {
            Hold::Free => BootTime::NEVER,
            Hold::Broken { until, .. } => until,
            Hold::Held { .. } if self.ttl_ms == limits::LEASE_MS_INFINITE => BootTime::NEVER,
            Hold::Held { renewed_at, .. } => match self.kind {
                LeaseKind::Standing => renewed_at.plus_ms(self.ttl_ms),
                // Nobody else before 105 % of the ttl.
                LeaseKind::Bound | LeaseKind::Connected => {
                    renewed_at.plus_ms((self.ttl_ms * 105).div_ceil(100))
                }
            },
        }
    }

    pub fn state(&self, now: Now) -> LeaseState {
        let is_over = self.ends_at() <= now.boot;
        match self.hold {
            Hold::Free => Available,
            Hold::Held { .. } => {
                if is_over {
                    Expired
                } else {
                    Leased
                }
            }
            Hold::Broken { .. } => {
                if is_over {
                    Broken
                } else {
                    Breaking
                }
            }
        }
    }

    pub fn end_is_news(&self) -> bool {
        self.ends_at() != BootTime::NEVER && !self.end_heard
    }

    pub fn id(&self) -> Option<LeaseId> {
        match self.hold {
            Hold::Free => None,
            Hold::Held { id, .. } | Hold::Broken { id, .. } => Some(id),
        }
    }

    pub fn is_bound(&self) -> bool {
        matches!(self.kind, LeaseKind::Bound | LeaseKind::Connected)
    }

    pub fn ends_with_connection(&self) -> bool {
        self.kind == LeaseKind::Connected
    }

    pub fn holder(&self, now: Now) -> Option<u32> {
        matches!(self.state(now), Leased | Breaking).then_some(self.member)
    }

    /// Its member's heartbeat renews it, if it is kept so.
    pub fn beaten(&mut self, now: BootTime) {
        if self.is_bound()
            && let Hold::Held { renewed_at, .. } = &mut self.hold
        {
            *renewed_at = now;
        }
    }

    /// Grows with every visible change; that its time ran out is one.
    fn version(&self, now: Now) -> u64 {
        2 * self.changes + u64::from(matches!(self.state(now), Expired | Broken))
    }

    fn granted(&self) -> Outcome {
        Outcome::Granted { term: self.term, ttl_ms: self.ttl_ms }
    }

    fn set_hold(&mut self, hold: Hold) {
        self.hold = hold;
        self.end_heard = false;
    }
}

impl Naive {
    /// Its first slot, which also keeps what is said to all of them.
    fn lease(&self, name: &LeaseName) -> Option<usize> {
        self.leases.iter().position(|lease| lease.name == *name && lease.slot == 0)
    }

    /// All its slots.
    fn slots(&self, name: &LeaseName) -> Vec<usize> {
        let all = 0..self.leases.len();
        let mut slots: Vec<usize> = all.filter(|i| self.leases[*i].name == *name).collect();
        slots.sort_by_key(|index| self.leases[*index].slot);
        slots
    }

    /// Those that somebody holds.
    fn held_slots(&self, name: &LeaseName) -> Vec<usize> {
        let mut slots = self.slots(name);
        slots.retain(|index| self.leases[*index].holder(self.now).is_some());
        slots
    }

    /// The one that stands for all of them: the oldest that is held, else the newest.
    fn shown(&self, name: &LeaseName) -> Option<usize> {
        let term = |index: &usize| self.leases[*index].term;
        let oldest = self.held_slots(name).into_iter().min_by_key(term);
        oldest.or_else(|| self.slots(name).into_iter().max_by_key(term))
    }

    /// The one that an id holds, else the one that remembers it.
    fn under(&self, name: &LeaseName, id: LeaseId) -> Option<usize> {
        let has_id = |index: &usize| self.leases[*index].id() == Some(id);
        let held = self.held_slots(name).into_iter().find(has_id);
        held.or_else(|| self.slots(name).into_iter().find(has_id))
    }

    fn is_paused(&self, name: &LeaseName) -> bool {
        self.lease(name).is_some_and(|index| self.leases[index].paused)
    }

    fn next_term(&self, name: &LeaseName) -> Term {
        let newest = self.slots(name).into_iter().map(|index| self.leases[index].term.0).max();
        Term((newest.unwrap_or(0) + 1).max(self.now.wall.0))
    }

    /// Who held the others and lost them is forgotten where the new holder of `slot` could not stand
    /// beside it after a restart.
    fn forget_ended(&mut self, name: &LeaseName, slot: u32, slots: u32, id: LeaseId) {
        for index in self.slots(name) {
            let lease = &mut self.leases[index];
            let is_over = matches!(lease.state(self.now), Expired | Broken);
            let is_in_the_way = lease.slots != slots || lease.id() == Some(id);
            if lease.slot != slot && is_over && is_in_the_way {
                lease.set_hold(Hold::Free);
                self.changed(index);
            }
        }
    }

    /// A slot but the first was granted: who was wished to be next is not any more.
    fn end_wish(&mut self, name: &LeaseName) {
        if let Some(index) = self.lease(name)
            && self.leases[index].successor != 0
        {
            self.leases[index].successor = 0;
            self.changed(index);
        }
    }

    /// Somebody acted on it, and onlookers hear of it.
    fn changed(&mut self, index: usize) {
        self.leases[index].changes += 1;
        // A hold that is over the moment it is set has nothing more to tell.
        self.leases[index].end_heard = self.leases[index].ends_at() <= self.now.boot;
        self.tell_watchers(index);
    }

    pub fn tell_watchers(&mut self, index: usize) {
        let name = self.leases[index].name.clone();
        // Who waits under a term that is over is told so first.
        for wait in self.waits.clone() {
            if wait.fence.as_ref().is_some_and(|fence| fence.election == name)
                && let Err(refusal) = self.check_fence(wait.fence.as_ref())
            {
                self.answer_wait(wait.ticket, Err(refusal));
            }
        }
        let is_watch = |wait: &&Wait| matches!(&wait.for_what, ForWhat::Watch(n) if *n == name);
        let watchers = self.waits.iter().filter(is_watch).map(|wait| wait.ticket);
        for ticket in watchers.collect::<Vec<_>>() {
            let info = self.describe_lease(&name);
            self.answer_wait(ticket, Ok(info));
        }
    }

    /// What is asked under a term counts only while somebody holds the lease under that term.
    pub fn check_fence(&self, fence: Option<&Fence>) -> Result<(), Refusal> {
        let Some(Fence { election, term }) = fence else { return Ok(()) };
        let terms = |slots: Vec<usize>| slots.into_iter().map(|index| self.leases[index].term);
        if terms(self.held_slots(election)).any(|held| held == *term) {
            return Ok(());
        }
        let newest = terms(self.slots(election)).max();
        Err(Refusal::Fenced { election: election.clone(), term: *term, newest })
    }

    fn agree(&mut self, slot: u32, name: &LeaseName, term: Term) {
        let held = (name.clone(), term);
        let Some(member) = self.member_mut(slot) else { return };
        if member.gone_at.is_none() && !member.agreed.contains(&held) {
            member.agreed.push(held);
        }
    }

    pub fn acquire(
        &mut self,
        ticket: Ticket,
        request: &Request,
        ask: &Acquire,
    ) -> Result<Option<Outcome>, Refusal> {
        check_ttl(ask.kind, ask.ttl_ms)?;
        check_slots(ask.kind, ask.slots)?;
        let member = request.member.0;
        if ask.kind != LeaseKind::Standing && member == 0 {
            return Err(Refusal::MemberGone);
        }
        match self.try_acquire(ask, member) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(LeaseRefusal::OtherSlots { lease, slots, asked }) => {
                Err(LeaseRefusal::OtherSlots { lease, slots, asked }.into())
            }
            Err(_) if ask.wait_ms > 0 && member != 0 => {
                self.wait(ticket, request, ask.wait_ms, ForWhat::Lease(ask.clone()));
                Ok(None)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn lease_or_new(&mut self, name: &LeaseName, slot: u32) -> usize {
        let known = self.slots(name).into_iter().find(|index| self.leases[*index].slot == slot);
        known.unwrap_or_else(|| {
            self.leases.push(Lease {
                name: name.clone(),
                slot,
                slots: 1,
                term: Term(0),
                hold: Hold::Free,
                kind: LeaseKind::Bound,
                ttl_ms: 0,
                member: 0,
                metadata: String::new(),
                granted_at: self.now.wall,
                changes: 0,
                step_down_asked: false,
                successor: 0,
                paused: false,
                end_heard: false,
            });
            self.leases.len() - 1
        })
    }

    fn try_acquire(&mut self, ask: &Acquire, member: u32) -> Result<Outcome, LeaseRefusal> {
        let (name, now) = (&ask.lease, self.now);
        let held = self.held_slots(name);
        if let Some(first) = held.first().map(|index| &self.leases[*index])
            && first.slots != ask.slots
        {
            let (lease, slots, asked) = (name.clone(), first.slots, ask.slots);
            return Err(LeaseRefusal::OtherSlots { lease, slots, asked });
        }
        let same = held.iter().copied().find(|index| self.leases[*index].id() == Some(ask.id));
        let index = if let Some(index) = same {
            let lease = &mut self.leases[index];
            if lease.state(now) == Breaking {
                return Err(LeaseRefusal::Breaking(name.clone()));
            }
            let before = (lease.kind, lease.ttl_ms, lease.member, lease.metadata.clone());
            let after = (ask.kind, ask.ttl_ms, member, ask.metadata.clone());
            let is_visible = before != after;
            (lease.kind, lease.ttl_ms, lease.member, lease.metadata) = after;
            lease.set_hold(Hold::Held { id: ask.id, renewed_at: now.boot });
            if is_visible {
                self.changed(index);
            }
            index
        } else if held.len() >= ask.slots as usize {
            let term = held.iter().map(|index| self.leases[*index].term).max().unwrap();
            return Err(LeaseRefusal::Held { lease: name.clone(), term });
        } else if self.is_paused(name) {
            return Err(LeaseRefusal::Paused(name.clone()));
        } else {
            let unheard = self.ended_unheard(name);
            let taken = held.iter().chain(&unheard).map(|index| self.leases[*index].slot);
            let taken: Vec<u32> = taken.collect();
            let slot = (0..=taken.len() as u32).find(|slot| !taken.contains(slot)).unwrap();
            self.begin_term(ask, member, slot)
        };
        let (term, granted) = (self.leases[index].term, self.leases[index].granted());
        if ask.kind != LeaseKind::Standing {
            self.agree(member, name, term);
        }
        Ok(granted)
    }

    /// Those whose end is not known yet: they are as good as held until it is.
    fn ended_unheard(&self, name: &LeaseName) -> Vec<usize> {
        let mut slots = self.slots(name);
        slots.retain(|index| {
            let lease = &self.leases[*index];
            matches!(lease.state(self.now), Expired | Broken) && !lease.end_heard
        });
        slots
    }

    fn begin_term(&mut self, ask: &Acquire, member: u32, slot: u32) -> usize {
        let (name, now) = (&ask.lease, self.now);
        self.forget_ended(name, slot, ask.slots, ask.id);
        let term = self.next_term(name);
        let index = self.lease_or_new(name, slot);
        let lease = &mut self.leases[index];
        (lease.term, lease.slots) = (term, ask.slots);
        lease.set_hold(Hold::Held { id: ask.id, renewed_at: now.boot });
        (lease.kind, lease.ttl_ms, lease.member) = (ask.kind, ask.ttl_ms, member);
        lease.metadata.clone_from(&ask.metadata);
        lease.granted_at = now.wall;
        (lease.step_down_asked, lease.successor) = (false, 0);
        self.changed(index);
        if slot != 0 {
            self.end_wish(name);
        }
        index
    }

    /// What is free of a lease goes to the first in line: the highest priority, then the oldest.
    pub fn serve_leases(&mut self) -> bool {
        let names: Vec<LeaseName> = self.leases.iter().map(|lease| lease.name.clone()).collect();
        for name in names {
            let held = self.held_slots(&name);
            let taken = [held.clone(), self.ended_unheard(&name)].concat();
            let is_held_under = |id| taken.iter().any(|index| self.leases[*index].id() == Some(id));
            let line = self.line(&name).into_iter();
            let mut line = line.filter_map(|wait| match &wait.for_what {
                ForWhat::Lease(ask) if !is_held_under(ask.id) => Some((ask.slots, wait)),
                _ => None,
            });
            let Some((slots, first)) = line.next() else { continue };
            let slots = held.first().map_or(slots, |index| self.leases[*index].slots);
            if taken.len() < slots as usize && !self.is_paused(&name) {
                self.grant(&first);
                return true;
            }
        }
        false
    }

    fn line(&self, name: &LeaseName) -> Vec<Wait> {
        let priority = |wait: &Wait| match &wait.for_what {
            ForWhat::Lease(ask) if ask.lease == *name => Some(ask.priority),
            _ => None,
        };
        let mut line: Vec<Wait> =
            self.waits.iter().filter(|wait| priority(wait).is_some()).cloned().collect();
        line.sort_by_key(|wait| (std::cmp::Reverse(priority(wait)), wait.ticket));
        let named = self.lease(name).map_or(0, |index| self.leases[index].successor);
        if let Some(place) = line.iter().position(|wait| wait.member == named) {
            line[..=place].rotate_right(1);
        }
        line
    }

    /// Whoever waits to be the next in line, and is, hears of it.
    pub fn serve_turns(&mut self) -> bool {
        for wait in self.waits.clone() {
            if let ForWhat::Turn(name) = &wait.for_what
                && self.is_next(name, wait.member)
            {
                self.answer_wait(wait.ticket, Ok(Outcome::Turn { next: true }));
                return true;
            }
        }
        false
    }

    fn is_next(&self, name: &LeaseName, member: u32) -> bool {
        self.line(name).first().is_some_and(|first| first.member == member)
    }

    pub fn await_turn(
        &mut self,
        ticket: Ticket,
        request: &Request,
        name: &LeaseName,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        let next = self.is_next(name, request.member.0);
        if next || wait_ms == 0 {
            return Ok(Some(Outcome::Turn { next }));
        }
        self.wait(ticket, request, wait_ms, ForWhat::Turn(name.clone()));
        Ok(None)
    }

    /// Grants a free lease to one in line, if it is still here (E7).
    fn grant(&mut self, wait: &Wait) {
        let ForWhat::Lease(ask) = &wait.for_what else { return };
        if let Err(refusal) = self.check_fence(wait.fence.as_ref()) {
            return self.answer_wait(wait.ticket, Err(refusal));
        }
        if !self.is_present(wait.member) {
            return self.answer_wait(wait.ticket, Err(Refusal::MemberGone));
        }
        let answer = self.try_acquire(ask, wait.member).map_err(Refusal::from);
        let is_granted = answer.is_ok();
        self.answer_wait(wait.ticket, answer);
        if !is_granted {
            return;
        }
        // Asked more than once under one id: every ask is answered.
        for repeat in self.line(&ask.lease) {
            let ForWhat::Lease(again) = &repeat.for_what else { continue };
            if (repeat.member, again.id) == (wait.member, ask.id)
                && let Ok(outcome) = self.try_acquire(again, repeat.member)
            {
                self.answer_wait(repeat.ticket, Ok(outcome));
            }
        }
    }

    pub fn renew_lease(&mut self, name: &LeaseName, id: LeaseId) -> Result<Outcome, Refusal> {
        let now = self.now;
        let mismatch = LeaseRefusal::IdMismatch(name.clone());
        let Some(index) = self.under(name, id) else { return Err(mismatch.into()) };
        let lease = &mut self.leases[index];
        let renewed = Hold::Held { id, renewed_at: now.boot };
        match lease.state(now) {
            _ if lease.id() != Some(id) => return Err(mismatch.into()),
            Available => return Err(mismatch.into()),
            Leased => lease.set_hold(renewed),
            Expired if lease.is_bound() => {
                let (lease, term) = (name.clone(), lease.term);
                return Err(LeaseRefusal::TermOver { lease, term }.into());
            }
            Expired => {
                lease.set_hold(renewed);
                self.changed(index);
            }
            Breaking | Broken => return Err(LeaseRefusal::Broken(name.clone()).into()),
        }
        Ok(self.leases[index].granted())
    }

    pub fn change_lease(
        &mut self,
        name: &LeaseName,
        id: LeaseId,
        to: LeaseId,
    ) -> Result<Outcome, Refusal> {
        let now = self.now;
        let not_present = LeaseRefusal::NotPresent(name.clone());
        let mismatch = LeaseRefusal::IdMismatch(name.clone());
        let held = |id| {
            let has_id = |index: &usize| self.leases[*index].id() == Some(id);
            self.held_slots(name).into_iter().find(has_id)
        };
        let found = match (held(id), held(to)) {
            (Some(a), Some(b)) if a != b => return Err(mismatch.into()),
            (Some(index), _) | (None, Some(index)) => Some(index),
            (None, None) => self.under(name, id).or_else(|| self.shown(name)),
        };
        let Some(index) = found else { return Err(not_present.into()) };
        let lease = &mut self.leases[index];
        let is_a = lease.id() == Some(id);
        let is_b = lease.id() == Some(to);
        match lease.state(now) {
            Available | Expired | Broken => return Err(not_present.into()),
            Breaking if is_a => {
                return Err(LeaseRefusal::BreakingCannotChange(name.clone()).into());
            }
            Breaking => return Err(mismatch.into()),
            Leased if is_b => return Ok(lease.granted()),
            Leased if !is_a => return Err(mismatch.into()),
            Leased => {}
        }
        let Hold::Held { renewed_at, .. } = lease.hold else { panic!("it is leased") };
        let (old, slot) = (lease.term, lease.member);
        let (nth, slots) = (lease.slot, lease.slots);
        self.forget_ended(name, nth, slots, to);
        let term = self.next_term(name);
        let lease = &mut self.leases[index];
        lease.term = term;
        lease.granted_at = now.wall;
        (lease.step_down_asked, lease.successor) = (false, 0);
        lease.set_hold(Hold::Held { id: to, renewed_at });
        let granted = lease.granted();
        let was_agreed = self.member(slot).is_some_and(|m| m.agreed.contains(&(name.clone(), old)));
        if was_agreed {
            self.agree(slot, name, term);
        }
        self.changed(index);
        if nth != 0 {
            self.end_wish(name);
        }
        Ok(granted)
    }

    pub fn release_lease(
        &mut self,
        name: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
    ) -> Result<Outcome, Refusal> {
        let index = self.under(name, id).ok_or_else(|| LeaseRefusal::IdMismatch(name.clone()))?;
        self.leases[index].set_hold(Hold::Free);
        self.leases[index].step_down_asked = false;
        self.changed(index);
        let line = self.line(name);
        let is_successor = |wait: &&Wait| {
            successor.is_some() && self.member(wait.member).map(|member| member.id) == successor
        };
        let taken = [self.held_slots(name), self.ended_unheard(name)].concat();
        let can_have = |wait: &&Wait| match &wait.for_what {
            ForWhat::Lease(ask) => taken.iter().all(|i| self.leases[*i].id() != Some(ask.id)),
            _ => false,
        };
        if let Some(first) = line.iter().filter(can_have).find(is_successor)
            && !self.is_paused(name)
        {
            self.grant(first);
        }
        Ok(Outcome::Done)
    }

    pub fn break_lease(
        &mut self,
        name: &LeaseName,
        period_ms: Option<u64>,
    ) -> Result<Outcome, Refusal> {
        let mut slots = self.held_slots(name);
        if slots.is_empty() {
            slots.extend(self.shown(name));
        }
        let mut longest = Err(LeaseRefusal::NotPresent(name.clone()).into());
        for index in slots {
            let Some(remaining_ms) = self.break_slot(index, period_ms) else { continue };
            longest = Ok(longest.map_or(remaining_ms, |ms: u64| ms.max(remaining_ms)));
        }
        longest.map(|remaining_ms| Outcome::Breaking { remaining_ms })
    }

    fn break_slot(&mut self, index: usize, period_ms: Option<u64>) -> Option<u64> {
        let now = self.now;
        let lease = &mut self.leases[index];
        let id = lease.id()?;
        let left_ms = now.boot.ms_until(lease.ends_at());
        let is_infinite = lease.ends_at() == BootTime::NEVER;
        let remaining_ms = match lease.state(now) {
            Broken => return Some(0),
            Expired | Available => 0,
            Leased | Breaking => match period_ms {
                None if is_infinite => 0,
                None => left_ms,
                Some(period_ms) if is_infinite => period_ms,
                Some(period_ms) => period_ms.min(left_ms),
            },
        };
        let broken = Hold::Broken { id, until: now.boot.plus_ms(remaining_ms) };
        if lease.hold != broken {
            lease.set_hold(broken);
            self.changed(index);
        }
        Some(remaining_ms)
    }

    pub fn touch_lease(&mut self, name: &LeaseName) -> Outcome {
        for index in self.slots(name) {
            if matches!(self.leases[index].state(self.now), Expired | Broken) {
                self.leases[index].set_hold(Hold::Free);
                self.changed(index);
            }
        }
        Outcome::Done
    }

    /// Who holds one slot hears, with the next heartbeat, that it shall step down.
    fn ask_one(&mut self, index: usize) {
        let lease = &mut self.leases[index];
        if lease.state(self.now) == Leased && !lease.step_down_asked {
            lease.step_down_asked = true;
            self.changed(index);
        }
    }

    pub fn ask_step_down(&mut self, name: &LeaseName) -> Result<Outcome, Refusal> {
        let held = self.held_slots(name);
        if held.is_empty() {
            return Err(LeaseRefusal::NotPresent(name.clone()).into());
        }
        for index in held {
            self.ask_one(index);
        }
        Ok(Outcome::Done)
    }

    pub fn hand_over(&mut self, name: &LeaseName, to: MemberId) -> Result<Outcome, Refusal> {
        let not_present = LeaseRefusal::NotPresent(name.clone());
        let shown = self.shown(name).filter(|_| !self.held_slots(name).is_empty());
        let (Some(shown), Some(first)) = (shown, self.lease(name)) else {
            return Err(not_present.into());
        };
        if self.is_paused(name) {
            return Err(LeaseRefusal::Paused(name.clone()).into());
        }
        let line = self.line(name);
        let named = line.iter().find(|w| self.member(w.member).is_some_and(|m| m.id == to));
        let Some(successor) = named.map(|wait| wait.member) else {
            return Err(LeaseRefusal::NotInLine { lease: name.clone(), member: to }.into());
        };
        // In one slot both are said at once.
        let asks = shown == first && self.leases[first].state(self.now) == Leased;
        let lease = &mut self.leases[first];
        let before = (lease.step_down_asked, lease.successor);
        (lease.step_down_asked, lease.successor) = (before.0 || asks, successor);
        if before != (lease.step_down_asked, lease.successor) {
            self.changed(first);
        }
        self.ask_one(shown);
        Ok(Outcome::Done)
    }

    pub fn pause_lease(&mut self, name: &LeaseName, keep_leader: bool) -> Outcome {
        let index = self.lease_or_new(name, 0);
        let asks = !keep_leader && self.leases[index].state(self.now) == Leased;
        let lease = &mut self.leases[index];
        let before = (lease.step_down_asked, lease.paused);
        (lease.step_down_asked, lease.paused) = (before.0 || asks, true);
        if before != (lease.step_down_asked, lease.paused) {
            self.changed(index);
        }
        if !keep_leader {
            for index in self.held_slots(name) {
                self.ask_one(index);
            }
        }
        Outcome::Done
    }

    pub fn resume_lease(&mut self, name: &LeaseName) -> Outcome {
        if let Some(index) = self.lease(name)
            && self.leases[index].paused
        {
            self.leases[index].paused = false;
            self.changed(index);
        }
        Outcome::Done
    }

    /// What one in line hears whose wait ended.
    pub fn not_granted(&self, ask: Acquire) -> LeaseRefusal {
        let is_free = self.held_slots(&ask.lease).len() < ask.slots as usize;
        let is_paused = is_free && self.is_paused(&ask.lease);
        if is_paused {
            LeaseRefusal::Paused(ask.lease)
        } else {
            LeaseRefusal::NotGranted(ask.lease)
        }
    }

    fn version(&self, name: &LeaseName) -> u64 {
        self.slots(name).into_iter().map(|index| self.leases[index].version(self.now)).sum()
    }

    fn left_ms(&self, lease: &Lease) -> u64 {
        match lease.ends_at() {
            BootTime::NEVER => u64::MAX,
            end => self.now.boot.ms_until(end),
        }
    }

    fn info(&self, name: &LeaseName) -> Option<LeaseInfo> {
        let member_id = |slot: u32| self.member(slot).map(|member| member.id);
        let lease = &self.leases[self.shown(name)?];
        let first = &self.leases[self.lease(name)?];
        let mut held: Vec<&Lease> =
            self.held_slots(name).into_iter().map(|index| &self.leases[index]).collect();
        held.sort_by_key(|lease| lease.term);
        let others = held.iter().skip(1).map(|lease| HolderInfo {
            term: lease.term,
            state: lease.state(self.now),
            id: lease.id(),
            holder: member_id(lease.member),
            metadata: lease.metadata.clone(),
            remaining_ms: self.left_ms(lease),
            granted_at: lease.granted_at,
            step_down_asked: lease.step_down_asked,
        });
        let holder = lease.holder(self.now);
        Some(LeaseInfo {
            name: name.clone(),
            kind: lease.kind,
            state: lease.state(self.now),
            term: lease.term,
            id: holder.and(lease.id()),
            holder: holder.and_then(member_id),
            metadata: holder.map_or(String::new(), |_| lease.metadata.clone()),
            ttl_ms: lease.ttl_ms,
            remaining_ms: holder.map_or(0, |_| self.left_ms(lease)),
            granted_at: lease.granted_at,
            version: self.version(name),
            step_down_asked: holder.is_some() && lease.step_down_asked,
            paused: first.paused,
            successor: holder.and_then(|_| member_id(first.successor)),
            waiting: self.line(name).iter().filter_map(|w| member_id(w.member)).collect(),
            slots: lease.slots,
            others: others.collect(),
        })
    }

    pub fn describe_lease(&self, name: &LeaseName) -> Outcome {
        Outcome::Lease(self.info(name).map(Box::new))
    }

    pub fn watch_lease(
        &mut self,
        ticket: Ticket,
        request: &Request,
        name: &LeaseName,
        seen: u64,
        wait_ms: u64,
    ) -> Option<Outcome> {
        if self.version(name) != seen || wait_ms == 0 {
            return Some(self.describe_lease(name));
        }
        self.wait(ticket, request, wait_ms, ForWhat::Watch(name.clone()));
        None
    }

    pub fn list_leases(&self, after: Option<&LeaseName>, max: u32) -> Outcome {
        let firsts = self.leases.iter().filter(|lease| lease.slot == 0);
        let mut infos: Vec<LeaseInfo> = firsts.filter_map(|lease| self.info(&lease.name)).collect();
        infos.retain(|info| after.is_none_or(|after| info.name > *after));
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos.truncate(max as usize);
        Outcome::Leases(infos)
    }

    pub fn restart_leases(&mut self, break_left_ms: impl Fn(&LeaseName, Term) -> u64) {
        for index in 0..self.leases.len() {
            let now = self.now.boot;
            let lease = &mut self.leases[index];
            match &mut lease.hold {
                Hold::Free => {}
                Hold::Held { renewed_at, .. } => *renewed_at = now,
                Hold::Broken { until, .. } => {
                    *until = now.plus_ms(break_left_ms(&lease.name, lease.term));
                }
            }
            lease.end_heard = lease.ends_at() <= now;
            let (name, term, slot) = (lease.name.clone(), lease.term, lease.member);
            if lease.is_bound() && matches!(lease.hold, Hold::Held { .. }) {
                self.agree(slot, &name, term);
            }
        }
    }
}
