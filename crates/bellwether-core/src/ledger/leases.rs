//! Leases: the ledger's side of an election. The rules of one lease are in `lease.rs`; here are
//! who waits, who watches, and what time does.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::change::Change;
use crate::command::{Acquire, Request};
use crate::error::{LeaseRefusal, Refusal};
use crate::lease::{Decision, Hold, Lease, LeaseAt, check_ttl};
use crate::limits;
use crate::name::{LeaseId, LeaseName, MemberId, MemberSlot, RequestNumber, Term, Ticket};
use crate::outcome::{Answer, Barrier, EndedBy, LeaseState, Outcome};
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Waits, refuse};

/// One lease with those who wait for it and those who watch it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: LeaseName,
    pub(super) lease: Option<Lease>,
    /// Who waits: by priority, then by age.
    pub(super) line: BTreeMap<(Reverse<i32>, Ticket), Waiter>,
    pub(super) watchers: BTreeMap<Ticket, (MemberSlot, RequestNumber, BootTime)>,
    /// Who waits to be the next in line.
    pub(super) turns: BTreeMap<Ticket, (MemberSlot, RequestNumber, BootTime)>,
    /// When its timer fires; one that its member's heartbeats renew may have none.
    pub(super) armed: Option<BootTime>,
    /// How often it was granted in this life.
    pub(super) grants: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) member: MemberSlot,
    number: RequestNumber,
    acquire: Acquire,
    until: BootTime,
}

impl Entry {
    pub(super) fn withdraw(
        &mut self,
        ticket: Ticket,
    ) -> Option<(MemberSlot, RequestNumber, BootTime)> {
        let key = self.line.keys().find(|(_, waiting)| *waiting == ticket).copied()?;
        self.line.remove(&key).map(|waiter| (waiter.member, waiter.number, waiter.until))
    }

    /// Who waits, in the order in which they would be granted it.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (Ticket, &Waiter)> {
        let named = self.lease.as_ref().map_or(MemberSlot(0), |lease| lease.successor);
        let all = || self.line.iter().map(|((_, ticket), waiter)| (*ticket, waiter));
        let is_named = move |waiter: &Waiter| named.0 != 0 && waiter.member == named;
        let first = all().find(|(_, waiter)| is_named(waiter));
        let first_ticket = first.map(|(ticket, _)| ticket);
        first.into_iter().chain(all().filter(move |(ticket, _)| Some(*ticket) != first_ticket))
    }

    /// The member's heartbeat renewed it up to then, and renews it no more.
    pub(super) fn renewed_until_now(&mut self, slot: MemberSlot, beaten_at: BootTime) {
        let Some(lease) = &mut self.lease else { return };
        if let Hold::Held { renewed_at, .. } = &mut lease.hold
            && lease.member == slot
            && lease.kind.is_bound()
        {
            *renewed_at = (*renewed_at).max(beaten_at);
        }
    }
}

impl Ledger {
    /// One lease, looked at in one moment.
    pub fn lease_at<'a>(&'a self, now: Now, name: &'a LeaseName) -> LeaseAt<'a> {
        let lease = self
            .lease_names
            .get(name)
            .and_then(|index| self.leases.get(index))
            .and_then(|entry| entry.lease.as_ref());
        let beaten_at = lease
            .and_then(|lease| self.members.get(&lease.member).map(|member| (lease, member)))
            .filter(|(lease, member)| member.renewing.get(name) == Some(lease.term))
            .map(|(_, member)| member.beaten_at);
        LeaseAt { name, lease, now, beaten_at, terms_from: self.terms_from }
    }

    pub(super) fn lease_index(&mut self, name: &LeaseName) -> u32 {
        if let Some(index) = self.lease_names.get(name) {
            return *index;
        }
        self.last_lease += 1;
        let index = self.last_lease;
        self.lease_names.insert(name.clone(), index);
        let entry = Entry {
            name: name.clone(),
            lease: None,
            line: BTreeMap::new(),
            watchers: BTreeMap::new(),
            turns: BTreeMap::new(),
            armed: None,
            grants: 0,
        };
        self.leases.insert(index, entry);
        index
    }

    pub(super) fn set_lease(&mut self, name: &LeaseName, lease: &Lease) {
        let index = self.lease_index(name);
        let Some(entry) = self.leases.get_mut(&index) else { return };
        let old = entry.lease.replace(lease.clone());
        if !self.live {
            return;
        }
        let is_granted = lease.hold != Hold::Free;
        entry.grants +=
            u64::from(is_granted && old.as_ref().is_none_or(|old| old.term != lease.term));
        let mut follows = false;
        if let Some(old) = old
            && let Some(member) = self.members.get_mut(&old.member)
        {
            member.holds.remove(name);
            member.step_down.remove(name);
            // Heartbeats go on renewing it through whatever does not change its holder; but
            // one the holder stopped to name is not renewed again behind its back.
            let renewed = member.renewing.remove(name);
            follows = renewed == Some(old.term) && old.member == lease.member;
        }
        self.name_holder(name, lease);
        if follows {
            self.renew_with_member(name, lease);
        }
    }

    /// The member finds what it holds.
    pub(super) fn name_holder(&mut self, name: &LeaseName, lease: &Lease) {
        if lease.hold != Hold::Free
            && let Some(member) = self.members.get_mut(&lease.member)
        {
            member.holds.insert(name.clone());
        }
    }

    /// The holder's heartbeats renew a bound lease from its grant on.
    pub(super) fn follow_lease(&mut self, name: &LeaseName, lease: &Lease) {
        if lease.kind.is_bound() {
            self.renew_with_member(name, lease);
        }
    }

    fn renew_with_member(&mut self, name: &LeaseName, lease: &Lease) {
        let held = matches!(lease.hold, Hold::Held { .. });
        let Some(member) = self.members.get_mut(&lease.member) else { return };
        if !held || member.gone_at.is_some() {
            return;
        }
        member.renewing.insert(name, lease, member.beaten_at);
        if lease.step_down_asked {
            member.step_down.insert(name.clone());
        }
    }

    /// Makes a grant true, or its confirmation.
    fn granted(
        &mut self,
        now: Now,
        name: &LeaseName,
        decision: Decision,
        fx: &mut Effects,
    ) -> Outcome {
        let lease = decision.lease.clone();
        let outcome = self.decided(now, name, decision, fx);
        self.follow_lease(name, &lease);
        self.arm_lease(now, name);
        outcome
    }

    /// Makes a decision true: journals it if others can see it, tells those who watch.
    fn decided(
        &mut self,
        now: Now,
        name: &LeaseName,
        decision: Decision,
        fx: &mut Effects,
    ) -> Outcome {
        let before = self.lease_at(now, name).lease.map(|lease| lease.version);
        let visible = before != Some(decision.lease.version);
        let change = Change::Lease { name: name.clone(), lease: Box::new(decision.lease) };
        self.set(now, &change, fx);
        if visible {
            self.journal(change, fx);
            self.tell_watchers(now, name, fx);
            self.stir_line(name);
        }
        self.arm_lease(now, name);
        decision.outcome
    }

    /// Writes down why a term ended, for those who will ask.
    fn note_end(&mut self, now: Now, name: &LeaseName, term: Term, by: EndedBy, fx: &mut Effects) {
        let change = Change::TermEnded { name: name.clone(), term, at: now.wall, by };
        self.emit(now, change, fx);
    }

    /// Writes down that the newest term is over because its time is.
    pub(super) fn note_over(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) {
        let at = self.lease_at(now, name);
        let by = match at.state() {
            LeaseState::Expired => EndedBy::RanOut,
            LeaseState::Broken => EndedBy::Broken,
            LeaseState::Available | LeaseState::Leased | LeaseState::Breaking => return,
        };
        if let Some(term) = at.lease.map(|lease| lease.term) {
            self.note_end(now, name, term, by, fx);
        }
    }

    /// Before somebody acts on a lease that has ended and whose timer has not fired yet: what it
    /// would have written down.
    fn note_overdue(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) {
        if self.is_overdue(now, name) {
            self.note_over(now, name, fx);
        }
    }

    /// Gives a free lease to the successor that its holder named if that one waits, else to the one
    /// an operator named, else to the first in line that is still here: a grant to somebody who has gone would be a term without a leader (E7).
    pub(super) fn grant_next(
        &mut self,
        now: Now,
        name: &LeaseName,
        successor: Option<MemberId>,
        fx: &mut Effects,
    ) {
        let Some(index) = self.lease_names.get(name).copied() else { return };
        loop {
            let at = self.lease_at(now, name);
            if at.holder().is_some() || at.is_paused() {
                return;
            }
            let Some(entry) = self.leases.get(&index) else { return };
            let wanted = successor.and_then(|id| self.member_ids.get(&id));
            let next = wanted
                .and_then(|slot| entry.in_order().find(|(_, waiter)| waiter.member == *slot))
                .or_else(|| entry.in_order().next());
            let Some((ticket, waiter)) = next else { return };
            let waiter = waiter.clone();
            let may = self.check_waiting(now, ticket);
            self.withdraw(ticket);
            if let Err(refusal) = may {
                refuse(ticket, refusal, fx);
                continue;
            }
            if self.members.get(&waiter.member).is_none_or(|member| !member.is_present(now)) {
                refuse(ticket, Refusal::MemberGone, fx);
                continue;
            }
            match self.lease_at(now, name).acquire(&waiter.acquire, waiter.member) {
                Ok(decision) => {
                    let result = Ok(self.granted(now, name, decision, fx));
                    fx.answers.push(Answer { ticket, result, barrier: Barrier::Durable });
                    self.confirm_repeats(now, name, &waiter, fx);
                }
                Err(refusal) => refuse(ticket, refusal.into(), fx),
            }
        }
    }

    /// A member that asked again under the same id, not knowing that its first ask stands in line,
    /// hears of the grant in both places. Left in line, the other ask would be granted a term when
    /// nobody expects one any more.
    fn confirm_repeats(&mut self, now: Now, name: &LeaseName, first: &Waiter, fx: &mut Effects) {
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
        let line = entry.into_iter().flat_map(|entry| &entry.line);
        let repeats: Vec<(Ticket, Acquire)> = line
            .filter(|(_, waiter)| waiter.member == first.member)
            .filter(|(_, waiter)| waiter.acquire.id == first.acquire.id)
            .map(|((_, ticket), waiter)| (*ticket, waiter.acquire.clone()))
            .collect();
        for (ticket, acquire) in repeats {
            if let Ok(decision) = self.lease_at(now, name).acquire(&acquire, first.member) {
                self.withdraw(ticket);
                let result = Ok(self.granted(now, name, decision, fx));
                fx.answers.push(Answer { ticket, result, barrier: Barrier::Durable });
            }
        }
    }

    pub(super) fn acquire(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        acquire: &Acquire,
        fx: &mut Effects,
    ) -> Result<Option<Outcome>, Refusal> {
        check_ttl(acquire.kind, acquire.ttl_ms)?;
        if acquire.metadata.len() > limits::METADATA_BYTES_MAX {
            return Err(Refusal::TooLarge {
                what: "a holder's metadata",
                bytes: acquire.metadata.len() as u64,
                bytes_max: limits::METADATA_BYTES_MAX as u64,
            });
        }
        if acquire.kind.is_bound() && request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        let name = &acquire.lease;
        self.check_lease_room(name)?;
        let index = self.lease_index(name);
        // Those who wait are older than this request: they go first if the lease has ended.
        if self.is_overdue(now, name) {
            self.lease_fired(now, now.boot, index, fx);
        }
        let refusal = match self.lease_at(now, name).acquire(acquire, request.member) {
            Ok(decision) => return Ok(Some(self.granted(now, name, decision, fx))),
            Err(refusal) => refusal,
        };
        let can_wait = matches!(
            refusal,
            LeaseRefusal::Held { .. } | LeaseRefusal::Breaking(_) | LeaseRefusal::Paused(_)
        );
        if !can_wait || acquire.wait_ms == 0 || request.member.0 == 0 {
            return Err(refusal.into());
        }
        let until = now.boot.plus_ms(acquire.wait_ms.min(limits::WAIT_MS_MAX));
        let waiter = Waiter {
            member: request.member,
            number: request.number,
            acquire: acquire.clone(),
            until,
        };
        if let Some(entry) = self.leases.get_mut(&index) {
            entry.line.insert((Reverse(acquire.priority), ticket), waiter);
        }
        self.stirred_lines.insert(index);
        self.wait(ticket, request, until, Waits::Lease(index));
        Ok(None)
    }

    pub(super) fn check_lease_room(&self, name: &LeaseName) -> Result<(), Refusal> {
        if !self.lease_names.contains_key(name) && self.leases.len() >= limits::LEASES_MAX {
            return Err(Refusal::TooMany { what: "leases", max: limits::LEASES_MAX as u64 });
        }
        Ok(())
    }

    /// Somebody waits or watches no more. A name nobody ever held and nobody waits for is
    /// forgotten.
    pub(super) fn leave_lease(
        &mut self,
        index: u32,
        ticket: Ticket,
    ) -> Option<(MemberSlot, RequestNumber, BootTime)> {
        let entry = self.leases.get_mut(&index)?;
        let looked = entry.watchers.remove(&ticket).or_else(|| entry.turns.remove(&ticket));
        let left = looked.or_else(|| entry.withdraw(ticket));
        let nobody = entry.watchers.is_empty() && entry.turns.is_empty() && entry.line.is_empty();
        if entry.lease.is_none() && nobody {
            self.lease_names.remove(&entry.name);
            self.leases.remove(&index);
        } else if !entry.turns.is_empty() {
            self.stirred_lines.insert(index);
        }
        left
    }

    pub(super) fn renew_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let decision = self.lease_at(now, name).renew(id)?;
        Ok(self.decided(now, name, decision, fx))
    }

    pub(super) fn change_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        to: LeaseId,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let at = self.lease_at(now, name);
        let before = at.lease.map(|lease| lease.term);
        let decision = at.change(id, to)?;
        if let Some(term) = before.filter(|term| *term != decision.lease.term) {
            self.note_end(now, name, term, EndedBy::ChangedId, fx);
        }
        Ok(self.decided(now, name, decision, fx))
    }

    pub(super) fn release_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        by: EndedBy,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let at = self.lease_at(now, name);
        let decision = at.release(id)?;
        if at.holder().is_some() {
            self.note_end(now, name, decision.lease.term, by, fx);
        } else {
            self.note_overdue(now, name, fx);
        }
        let outcome = self.decided(now, name, decision, fx);
        self.grant_next(now, name, successor, fx);
        Ok(outcome)
    }

    pub(super) fn break_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        period_ms: Option<u64>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let at = self.lease_at(now, name);
        let decision = at.break_hold(period_ms)?;
        let was_held = at.holder().is_some();
        self.note_overdue(now, name, fx);
        let outcome = self.decided(now, name, decision, fx);
        if was_held {
            self.note_over(now, name, fx);
        }
        self.grant_next(now, name, None, fx);
        Ok(outcome)
    }

    pub(super) fn touch_lease(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) -> Outcome {
        if let Some(lease) = self.lease_at(now, name).touch() {
            self.note_overdue(now, name, fx);
            self.decided(now, name, Decision { lease, outcome: Outcome::Done }, fx);
            self.grant_next(now, name, None, fx);
        }
        Outcome::Done
    }

    pub(super) fn ask_step_down(
        &mut self,
        now: Now,
        name: &LeaseName,
        successor: Option<MemberId>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let at = self.lease_at(now, name);
        let slot = match successor {
            Some(_) if at.holder().is_none() => None,
            Some(_) if at.is_paused() => return Err(LeaseRefusal::Paused(name.clone()).into()),
            Some(member) => Some(self.slot_in_line(name, member)?),
            None => None,
        };
        let decision = at.ask_step_down(slot)?;
        Ok(self.decided(now, name, decision, fx))
    }

    /// The member's slot, if it waits for the lease.
    fn slot_in_line(&self, name: &LeaseName, member: MemberId) -> Result<MemberSlot, LeaseRefusal> {
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
        let slot = self.member_ids.get(&member).copied();
        let waits = |slot: &MemberSlot| {
            entry.is_some_and(|entry| entry.line.values().any(|waiter| waiter.member == *slot))
        };
        slot.filter(waits).ok_or_else(|| LeaseRefusal::NotInLine { lease: name.clone(), member })
    }

    pub(super) fn pause_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        keep_leader: bool,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        self.check_lease_room(name)?;
        let decision = self.lease_at(now, name).pause(keep_leader);
        Ok(self.decided(now, name, decision, fx))
    }

    pub(super) fn resume_lease(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) -> Outcome {
        if let Some(lease) = self.lease_at(now, name).resume() {
            self.decided(now, name, Decision { lease, outcome: Outcome::Done }, fx);
            self.grant_next(now, name, None, fx);
        }
        Outcome::Done
    }

    /// Whether a member holds a lease under a term at this moment.
    pub(super) fn is_held(&self, now: Now, name: &LeaseName, term: Term, slot: MemberSlot) -> bool {
        let at = self.lease_at(now, name);
        at.state() == LeaseState::Leased
            && at.lease.is_some_and(|lease| lease.term == term && lease.member == slot)
    }

    /// The bound leases a member holds, with their ids: also those it has stopped to name.
    pub(super) fn held_by(&self, now: Now, slot: MemberSlot) -> Vec<(LeaseName, LeaseId)> {
        let Some(member) = self.members.get(&slot) else { return Vec::new() };
        let held = member.holds.iter().filter_map(|name| {
            let at = self.lease_at(now, name);
            let (id, _) = at.holder()?;
            (at.lease?.kind.is_bound()).then(|| (name.clone(), id))
        });
        held.collect()
    }

    /// All leases a member holds, with their terms.
    pub(super) fn leases_of(&self, now: Now, slot: MemberSlot) -> Vec<(LeaseName, Term)> {
        let Some(member) = self.members.get(&slot) else { return Vec::new() };
        let held = member.holds.iter().filter_map(|name| {
            let at = self.lease_at(now, name);
            at.holder().and(at.lease).map(|lease| (name.clone(), lease.term))
        });
        held.collect()
    }

    /// After a restart everybody who held a lease has it for a full duration from `now`. A break
    /// goes on: what remained of it when it was written down is counted from `now` too, which is
    /// `later` than its record was read.
    pub(super) fn restart_lease(&mut self, now: Now, later_ms: u64, index: u32) {
        let Some(lease) = self.leases.get_mut(&index).and_then(|entry| entry.lease.as_mut()) else {
            return;
        };
        match &mut lease.hold {
            Hold::Free => {}
            Hold::Held { renewed_at, .. } => *renewed_at = now.boot,
            Hold::Broken { until, .. } => *until = until.plus_ms(later_ms),
        }
    }

    /// Leases by index, for snapshots.
    pub(super) fn lease_from(&self, index: u32) -> impl Iterator<Item = (u32, &LeaseName, &Lease)> {
        self.leases
            .range(index..)
            .filter_map(|(index, entry)| Some((*index, &entry.name, entry.lease.as_ref()?)))
    }
}
