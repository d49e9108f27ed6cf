//! Leases: the ledger's side of an election. The rules of one lease are in `lease.rs`; here are
//! who waits, who watches, and what time does.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::change::Change;
use crate::command::{Acquire, Request};
use crate::error::{LeaseRefusal, Refusal};
use crate::lease::{Decision, Hold, Lease, check_slots, check_ttl};
use crate::limits;
use crate::name::{LeaseId, LeaseName, MemberId, MemberSlot, RequestNumber, Term, Ticket};
use crate::outcome::{Answer, Barrier, EndedBy, Outcome};
use crate::time::{BootTime, Now};

use super::slots::Slot;
use super::{Effects, Ledger, Waits, refuse};

/// One lease with those who wait for it and those who watch it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: LeaseName,
    /// Those that were ever granted, by number from zero.
    pub(super) slots: BTreeMap<u32, Slot>,
    /// Who waits: by priority, then by age.
    pub(super) line: BTreeMap<(Reverse<i32>, Ticket), Waiter>,
    pub(super) watchers: BTreeMap<Ticket, (MemberSlot, RequestNumber, BootTime)>,
    /// Who waits to be the next in line.
    pub(super) turns: BTreeMap<Ticket, (MemberSlot, RequestNumber, BootTime)>,
    /// How often it was granted in this life.
    pub(super) grants: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) member: MemberSlot,
    number: RequestNumber,
    pub(super) acquire: Acquire,
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
        let named = self.record(0).map_or(MemberSlot(0), |lease| lease.successor);
        let all = || self.line.iter().map(|((_, ticket), waiter)| (*ticket, waiter));
        let is_named = move |waiter: &Waiter| named.0 != 0 && waiter.member == named;
        let first = all().find(|(_, waiter)| is_named(waiter));
        let first_ticket = first.map(|(ticket, _)| ticket);
        first.into_iter().chain(all().filter(move |(ticket, _)| Some(*ticket) != first_ticket))
    }

    /// How a slot stands, if it was ever granted.
    pub(super) fn record(&self, nth: u32) -> Option<&Lease> {
        self.slots.get(&nth).map(|slot| &slot.lease)
    }

    /// Every slot that was ever granted.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, &Lease)> {
        self.slots.iter().map(|(nth, slot)| (*nth, &slot.lease))
    }

    /// The slot that has this term.
    pub(super) fn slot_under(&self, term: Term) -> Option<u32> {
        self.records().find(|(_, lease)| lease.term == term).map(|(nth, _)| nth)
    }

    /// How the slot stands that has this term.
    pub(super) fn under(&self, term: Term) -> Option<&Lease> {
        self.slot_under(term).and_then(|nth| self.record(nth))
    }

    /// The member's heartbeat renewed a term of it up to then, and renews it no more.
    pub(super) fn renewed_until_now(&mut self, slot: MemberSlot, term: Term, beaten_at: BootTime) {
        let leases = self.slots.values_mut().map(|slot| &mut slot.lease);
        for lease in leases.filter(|lease| lease.term == term) {
            if let Hold::Held { renewed_at, .. } = &mut lease.hold
                && lease.member == slot
                && lease.kind.is_bound()
            {
                *renewed_at = (*renewed_at).max(beaten_at);
            }
        }
    }
}

impl Ledger {
    pub(super) fn lease_index(&mut self, name: &LeaseName) -> u32 {
        if let Some(index) = self.lease_names.get(name) {
            return *index;
        }
        self.last_lease += 1;
        let index = self.last_lease;
        self.lease_names.insert(name.clone(), index);
        let entry = Entry {
            name: name.clone(),
            slots: BTreeMap::new(),
            line: BTreeMap::new(),
            watchers: BTreeMap::new(),
            turns: BTreeMap::new(),
            grants: 0,
        };
        self.leases.insert(index, entry);
        index
    }

    pub(super) fn set_lease(&mut self, name: &LeaseName, nth: u32, lease: &Lease) {
        let index = self.lease_index(name);
        let Some(entry) = self.leases.get_mut(&index) else { return };
        let armed = entry.slots.get(&nth).and_then(|slot| slot.armed);
        let slot = Slot { lease: lease.clone(), armed };
        let old = entry.slots.insert(nth, slot).map(|slot| slot.lease);
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
            let held = (name.clone(), old.term);
            member.holds.remove(&(name.clone(), nth));
            member.step_down.remove(&held);
            // Heartbeats go on renewing it through whatever does not change its holder; but
            // one the holder stopped to name is not renewed again behind its back.
            follows = member.renewing.remove(name, old.term) && old.member == lease.member;
        }
        self.name_holder(name, nth, lease);
        if follows {
            self.renew_with_member(name, lease);
        }
    }

    /// The member finds what it holds.
    pub(super) fn name_holder(&mut self, name: &LeaseName, nth: u32, lease: &Lease) {
        if lease.hold != Hold::Free
            && let Some(member) = self.members.get_mut(&lease.member)
        {
            member.holds.insert((name.clone(), nth));
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
            member.step_down.insert((name.clone(), lease.term));
        }
    }

    /// Makes a grant true, or its confirmation.
    fn granted(
        &mut self,
        now: Now,
        name: &LeaseName,
        nth: u32,
        decision: Decision,
        fx: &mut Effects,
    ) -> Outcome {
        let lease = decision.lease.clone();
        let is_new = self.slot_at(now, name, nth).term() != lease.term;
        if is_new {
            self.forget_ended(now, name, nth, &lease, fx);
        }
        let outcome = self.decided(now, name, nth, decision, fx);
        self.follow_lease(name, &lease);
        self.arm_lease(now, name, nth);
        if is_new && nth != 0 {
            self.end_wish(now, name, fx);
        }
        outcome
    }

    /// Makes a decision true: journals it if others can see it, tells those who watch.
    pub(super) fn decided(
        &mut self,
        now: Now,
        name: &LeaseName,
        nth: u32,
        decision: Decision,
        fx: &mut Effects,
    ) -> Outcome {
        let before = self.slot_at(now, name, nth).lease.map(|lease| lease.version);
        let visible = before != Some(decision.lease.version);
        let (name_of, lease) = (name.clone(), Box::new(decision.lease));
        let change = Change::Lease { name: name_of, slot: nth, lease };
        self.set(now, &change, fx);
        if visible {
            self.journal(change, fx);
            self.tell_watchers(now, name, fx);
            self.stir_line(name);
        }
        self.arm_lease(now, name, nth);
        decision.outcome
    }

    /// The same for a decision that is no answer.
    pub(super) fn redecided(
        &mut self,
        now: Now,
        name: &LeaseName,
        nth: u32,
        lease: Lease,
        fx: &mut Effects,
    ) {
        self.decided(now, name, nth, Decision { lease, outcome: Outcome::Done }, fx);
    }

    /// Writes down why a term ended, for those who will ask.
    pub(super) fn note_end(
        &mut self,
        now: Now,
        name: &LeaseName,
        term: Term,
        by: EndedBy,
        fx: &mut Effects,
    ) {
        let change = Change::TermEnded { name: name.clone(), term, at: now.wall, by };
        self.emit(now, change, fx);
    }

    /// Gives what is free of a lease to the successor that its holder named if that one waits, else
    /// to the one an operator named, else to the first in line that is still here: a grant to
    /// somebody who has gone would be a term without a leader (E7).
    pub(super) fn grant_next(
        &mut self,
        now: Now,
        name: &LeaseName,
        mut successor: Option<MemberId>,
        fx: &mut Effects,
    ) {
        let Some(index) = self.lease_names.get(name).copied() else { return };
        loop {
            let taken = self.ids_taken(now, name);
            let Some(entry) = self.leases.get(&index) else { return };
            // An id is one holder's: who waits under one that another slot is held under waits on.
            let can_have = |waiter: &Waiter| !taken.contains(&waiter.acquire.id);
            let mut line = entry.in_order().filter(|(_, waiter)| can_have(waiter));
            let wanted = successor.and_then(|id| self.member_ids.get(&id));
            let named = wanted
                .and_then(|slot| entry.in_order().find(|(_, w)| w.member == *slot && can_have(w)));
            let Some((ticket, waiter)) = named.or_else(|| line.next()) else { return };
            let waiter = waiter.clone();
            drop(line);
            let slots = self.recorded_slots(now, name).unwrap_or(waiter.acquire.slots);
            let free = self.free_slot(now, name, slots).filter(|_| !self.is_lease_paused(name));
            let Some(nth) = free else { return };
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
            let decided = self.same_slots(now, &waiter.acquire).and_then(|()| {
                self.slot_at(now, name, nth).acquire(&waiter.acquire, waiter.member)
            });
            match decided {
                Ok(decision) => {
                    successor = None;
                    let result = Ok(self.granted(now, name, nth, decision, fx));
                    fx.answers.push(Answer { ticket, result, barrier: Barrier::Durable });
                    self.confirm_repeats(now, name, nth, &waiter, fx);
                }
                Err(refusal) => refuse(ticket, refusal.into(), fx),
            }
        }
    }

    /// A member that asked again under the same id, not knowing that its first ask stands in line,
    /// hears of the grant in both places. Left in line, the other ask would be granted a term when
    /// nobody expects one any more.
    fn confirm_repeats(
        &mut self,
        now: Now,
        name: &LeaseName,
        nth: u32,
        first: &Waiter,
        fx: &mut Effects,
    ) {
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
        let line = entry.into_iter().flat_map(|entry| &entry.line);
        let repeats: Vec<(Ticket, Acquire)> = line
            .filter(|(_, waiter)| waiter.member == first.member)
            .filter(|(_, waiter)| waiter.acquire.id == first.acquire.id)
            .filter(|(_, waiter)| waiter.acquire.slots == first.acquire.slots)
            .map(|((_, ticket), waiter)| (*ticket, waiter.acquire.clone()))
            .collect();
        for (ticket, acquire) in repeats {
            if let Ok(decision) = self.slot_at(now, name, nth).acquire(&acquire, first.member) {
                self.withdraw(ticket);
                let result = Ok(self.granted(now, name, nth, decision, fx));
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
        check_slots(acquire.kind, acquire.slots)?;
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
        let slots = self.leases[&index].slots.keys().copied();
        let over: Vec<u32> = slots.filter(|nth| self.is_overdue(now, name, *nth)).collect();
        for nth in over {
            self.lease_fired(now, now.boot, (index, nth), fx);
        }
        let decided = self.slot_for(now, acquire).and_then(|nth| {
            Ok((nth, self.slot_at(now, name, nth).acquire(acquire, request.member)?))
        });
        let refusal = match decided {
            Ok((nth, decision)) => return Ok(Some(self.granted(now, name, nth, decision, fx))),
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
        if entry.slots.is_empty() && nobody {
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
        let nth = self.slot_of(now, name, id);
        let decision = self.slot_at(now, name, nth).renew(id)?;
        Ok(self.decided(now, name, nth, decision, fx))
    }

    pub(super) fn change_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        to: LeaseId,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let nth = self.slot_to_change(now, name, id, to)?;
        let at = self.slot_at(now, name, nth);
        let before = at.lease.map(|lease| lease.term);
        let decision = at.change(id, to)?;
        let ended = before.filter(|term| *term != decision.lease.term);
        if let Some(term) = ended {
            self.note_end(now, name, term, EndedBy::ChangedId, fx);
            self.forget_ended(now, name, nth, &decision.lease, fx);
        }
        let outcome = self.decided(now, name, nth, decision, fx);
        if ended.is_some() && nth != 0 {
            self.end_wish(now, name, fx);
        }
        Ok(outcome)
    }

    /// After a restart everybody who held a lease has it for a full duration from `now`. A break
    /// goes on: what remained of it when it was written down is counted from `now` too, which is
    /// `later` than its record was read.
    pub(super) fn restart_lease(&mut self, now: Now, later_ms: u64, index: u32) {
        let entry = self.leases.get_mut(&index).into_iter();
        for slot in entry.flat_map(|entry| entry.slots.values_mut()) {
            match &mut slot.lease.hold {
                Hold::Free => {}
                Hold::Held { renewed_at, .. } => *renewed_at = now.boot,
                Hold::Broken { until, .. } => *until = until.plus_ms(later_ms),
            }
        }
    }

    /// Leases by index and slot, for snapshots.
    pub(super) fn lease_from(
        &self,
        (index, first): (u32, u32),
    ) -> impl Iterator<Item = ((u32, u32), &LeaseName, &Lease)> {
        self.leases.range(index..).flat_map(move |(at, entry)| {
            let records = entry.records().filter(move |(nth, _)| *at != index || *nth >= first);
            records.map(|(nth, lease)| ((*at, nth), &entry.name, lease))
        })
    }
}
