//! Leases: a table of state and action, row by row.

use bellwether_core::command::{Acquire, LeaseKind, Request};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::fence::Fence;
use bellwether_core::lease::check_ttl;
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, LeaseName, MemberId, Term, Ticket};
use bellwether_core::outcome::{LeaseInfo, LeaseState, Outcome};
use bellwether_core::time::{BootTime, Now, WallTime};

use super::{ForWhat, Naive, Wait};

pub struct Lease {
    pub name: LeaseName,
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

    fn next_term(&self, now: Now) -> Term {
        Term((self.term.0 + 1).max(now.wall.0))
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
    fn lease(&self, name: &LeaseName) -> Option<usize> {
        self.leases.iter().position(|lease| lease.name == *name)
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
        let found = self.leases.iter().find(|lease| lease.name == *election);
        let is_held = found.is_some_and(|l| l.term == *term && l.holder(self.now).is_some());
        if is_held {
            return Ok(());
        }
        let newest = found.map(|lease| lease.term);
        Err(Refusal::Fenced { election: election.clone(), term: *term, newest })
    }

    fn agree(&mut self, slot: u32, name: &LeaseName, term: Term) {
        let Some(member) = self.member_mut(slot) else { return };
        member.agreed.retain(|(n, _)| n != name);
        if member.gone_at.is_none() {
            member.agreed.push((name.clone(), term));
        }
    }

    pub fn acquire(
        &mut self,
        ticket: Ticket,
        request: &Request,
        ask: &Acquire,
    ) -> Result<Option<Outcome>, Refusal> {
        check_ttl(ask.kind, ask.ttl_ms)?;
        let member = request.member.0;
        if ask.kind != LeaseKind::Standing && member == 0 {
            return Err(Refusal::MemberGone);
        }
        match self.try_acquire(ask, member) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(_) if ask.wait_ms > 0 && member != 0 => {
                self.wait(ticket, request, ask.wait_ms, ForWhat::Lease(ask.clone()));
                Ok(None)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn lease_or_new(&mut self, name: &LeaseName) -> usize {
        self.lease(name).unwrap_or_else(|| {
            self.leases.push(Lease {
                name: name.clone(),
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
        let name = &ask.lease;
        let index = self.lease_or_new(name);
        let now = self.now;
        let lease = &mut self.leases[index];
        let is_same = lease.id() == Some(ask.id);
        match lease.state(now) {
            Breaking if is_same => return Err(LeaseRefusal::Breaking(name.clone())),
            Leased | Breaking if !is_same => {
                return Err(LeaseRefusal::Held { lease: name.clone(), term: lease.term });
            }
            Leased | Breaking => {
                let before = (lease.kind, lease.ttl_ms, lease.member, lease.metadata.clone());
                let after = (ask.kind, ask.ttl_ms, member, ask.metadata.clone());
                let is_visible = before != after;
                (lease.kind, lease.ttl_ms, lease.member, lease.metadata) = after;
                lease.set_hold(Hold::Held { id: ask.id, renewed_at: now.boot });
                if is_visible {
                    self.changed(index);
                }
            }
            Available | Expired | Broken if lease.paused => {
                return Err(LeaseRefusal::Paused(name.clone()));
            }
            Available | Expired | Broken => {
                lease.term = lease.next_term(now);
                lease.set_hold(Hold::Held { id: ask.id, renewed_at: now.boot });
                (lease.kind, lease.ttl_ms, lease.member) = (ask.kind, ask.ttl_ms, member);
                lease.metadata.clone_from(&ask.metadata);
                lease.granted_at = now.wall;
                (lease.step_down_asked, lease.successor) = (false, 0);
                self.changed(index);
            }
        }
        let (term, granted) = (self.leases[index].term, self.leases[index].granted());
        if ask.kind != LeaseKind::Standing {
            self.agree(member, name, term);
        }
        Ok(granted)
    }

    /// A free lease goes to the first in line: the highest priority, then the oldest.
    pub fn serve_leases(&mut self) -> bool {
        for index in 0..self.leases.len() {
            let lease = &self.leases[index];
            let is_free = lease.hold == Hold::Free || lease.end_heard;
            if is_free && lease.holder(self.now).is_none() && !lease.paused {
                let name = lease.name.clone();
                if let Some(first) = self.line(&name).first() {
                    self.grant(&first.clone());
                    return true;
                }
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
        let Some(index) = self.lease(name) else { return Err(mismatch.into()) };
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
        let Some(index) = self.lease(name) else { return Err(not_present.into()) };
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
        lease.term = lease.next_term(now);
        lease.granted_at = now.wall;
        (lease.step_down_asked, lease.successor) = (false, 0);
        lease.set_hold(Hold::Held { id: to, renewed_at });
        let (term, granted) = (lease.term, lease.granted());
        let was_agreed = self.member(slot).is_some_and(|m| m.agreed.contains(&(name.clone(), old)));
        if was_agreed {
            self.agree(slot, name, term);
        }
        self.changed(index);
        Ok(granted)
    }

    pub fn release_lease(
        &mut self,
        name: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
    ) -> Result<Outcome, Refusal> {
        let found = self.lease(name).filter(|index| self.leases[*index].id() == Some(id));
        let index = found.ok_or_else(|| LeaseRefusal::IdMismatch(name.clone()))?;
        self.leases[index].set_hold(Hold::Free);
        self.leases[index].step_down_asked = false;
        self.changed(index);
        let line = self.line(name);
        let is_successor = |wait: &&Wait| {
            successor.is_some() && self.member(wait.member).map(|member| member.id) == successor
        };
        if let Some(first) = line.iter().find(is_successor)
            && !self.leases[index].paused
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
        let now = self.now;
        let not_present = LeaseRefusal::NotPresent(name.clone());
        let found = self.lease(name).and_then(|index| Some((index, self.leases[index].id()?)));
        let Some((index, id)) = found else { return Err(not_present.into()) };
        let lease = &mut self.leases[index];
        let left_ms = now.boot.ms_until(lease.ends_at());
        let is_infinite = lease.ends_at() == BootTime::NEVER;
        let remaining_ms = match lease.state(now) {
            Broken => return Ok(Outcome::Breaking { remaining_ms: 0 }),
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
        Ok(Outcome::Breaking { remaining_ms })
    }

    pub fn touch_lease(&mut self, name: &LeaseName) -> Outcome {
        if let Some(index) = self.lease(name)
            && matches!(self.leases[index].state(self.now), Expired | Broken)
        {
            self.leases[index].set_hold(Hold::Free);
            self.changed(index);
        }
        Outcome::Done
    }

    pub fn ask_step_down(&mut self, name: &LeaseName) -> Result<Outcome, Refusal> {
        let not_present = LeaseRefusal::NotPresent(name.clone());
        let Some(index) = self.lease(name) else { return Err(not_present.into()) };
        match self.leases[index].state(self.now) {
            Available | Expired | Broken => return Err(not_present.into()),
            Leased if !self.leases[index].step_down_asked => {
                self.leases[index].step_down_asked = true;
                self.changed(index);
            }
            Leased | Breaking => {}
        }
        Ok(Outcome::Done)
    }

    pub fn hand_over(&mut self, name: &LeaseName, to: MemberId) -> Result<Outcome, Refusal> {
        let not_present = LeaseRefusal::NotPresent(name.clone());
        let Some(index) = self.lease(name) else { return Err(not_present.into()) };
        if self.leases[index].holder(self.now).is_none() {
            return Err(not_present.into());
        }
        if self.leases[index].paused {
            return Err(LeaseRefusal::Paused(name.clone()).into());
        }
        let line = self.line(name);
        let named = line.iter().find(|w| self.member(w.member).is_some_and(|m| m.id == to));
        let Some(successor) = named.map(|wait| wait.member) else {
            return Err(LeaseRefusal::NotInLine { lease: name.clone(), member: to }.into());
        };
        let asks = self.leases[index].state(self.now) == Leased;
        let lease = &mut self.leases[index];
        let before = (lease.step_down_asked, lease.successor);
        (lease.step_down_asked, lease.successor) = (before.0 || asks, successor);
        if before != (lease.step_down_asked, lease.successor) {
            self.changed(index);
        }
        Ok(Outcome::Done)
    }

    pub fn pause_lease(&mut self, name: &LeaseName, keep_leader: bool) -> Outcome {
        let index = self.lease_or_new(name);
        let asks = !keep_leader && self.leases[index].state(self.now) == Leased;
        let lease = &mut self.leases[index];
        let before = (lease.step_down_asked, lease.paused);
        (lease.step_down_asked, lease.paused) = (before.0 || asks, true);
        if before != (lease.step_down_asked, lease.paused) {
            self.changed(index);
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
    pub fn not_granted(&self, name: LeaseName) -> LeaseRefusal {
        let lease = self.lease(&name).map(|index| &self.leases[index]);
        let is_paused = lease.is_some_and(|l| l.paused && l.holder(self.now).is_none());
        if is_paused { LeaseRefusal::Paused(name) } else { LeaseRefusal::NotGranted(name) }
    }

    fn info(&self, lease: &Lease) -> LeaseInfo {
        let member_id = |slot: u32| self.member(slot).map(|member| member.id);
        let holder = lease.holder(self.now);
        let left_ms = match lease.ends_at() {
            BootTime::NEVER => u64::MAX,
            end => self.now.boot.ms_until(end),
        };
        LeaseInfo {
            name: lease.name.clone(),
            kind: lease.kind,
            state: lease.state(self.now),
            term: lease.term,
            id: holder.and(lease.id()),
            holder: holder.and_then(member_id),
            metadata: holder.map_or(String::new(), |_| lease.metadata.clone()),
            ttl_ms: lease.ttl_ms,
            remaining_ms: holder.map_or(0, |_| left_ms),
            granted_at: lease.granted_at,
            version: lease.version(self.now),
            step_down_asked: holder.is_some() && lease.step_down_asked,
            paused: lease.paused,
            successor: holder.and_then(|_| member_id(lease.successor)),
            waiting: self.line(&lease.name).iter().filter_map(|w| member_id(w.member)).collect(),
        }
    }

    pub fn describe_lease(&self, name: &LeaseName) -> Outcome {
        let found = self.lease(name).map(|index| Box::new(self.info(&self.leases[index])));
        Outcome::Lease(found)
    }

    pub fn watch_lease(
        &mut self,
        ticket: Ticket,
        request: &Request,
        name: &LeaseName,
        seen: u64,
        wait_ms: u64,
    ) -> Option<Outcome> {
        let version = self.lease(name).map_or(0, |index| self.leases[index].version(self.now));
        if version != seen || wait_ms == 0 {
            return Some(self.describe_lease(name));
        }
        self.wait(ticket, request, wait_ms, ForWhat::Watch(name.clone()));
        None
    }

    pub fn list_leases(&self, after: Option<&LeaseName>, max: u32) -> Outcome {
        let mut infos: Vec<LeaseInfo> = self.leases.iter().map(|lease| self.info(lease)).collect();
        infos.retain(|info| after.is_none_or(|after| info.name > *after));
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos.truncate(max as usize);
        Outcome::Leases(infos)
    }

    pub fn restart_leases(&mut self, break_left_ms: impl Fn(&LeaseName) -> u64) {
        for index in 0..self.leases.len() {
            let now = self.now.boot;
            let lease = &mut self.leases[index];
            match &mut lease.hold {
                Hold::Free => {}
                Hold::Held { renewed_at, .. } => *renewed_at = now,
                Hold::Broken { until, .. } => *until = now.plus_ms(break_left_ms(&lease.name)),
            }
            lease.end_heard = lease.ends_at() <= now;
            let (name, term, slot) = (lease.name.clone(), lease.term, lease.member);
            if lease.is_bound() && matches!(lease.hold, Hold::Held { .. }) {
                self.agree(slot, &name, term);
            }
        }
    }
}
