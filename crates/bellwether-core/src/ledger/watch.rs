//! Looking at leases, and waiting for them to change.

use crate::command::Request;
use crate::error::Refusal;
use crate::lease::LeaseAt;
use crate::limits;
use crate::name::{LeaseName, MemberSlot, Ticket};
use crate::outcome::{Answer, Barrier, HolderInfo, LeaseInfo, LeaseState, Outcome};
use crate::time::Now;

use super::{Effects, Ledger, Waits};

impl Ledger {
    /// Whoever watches hears of a change, and so does whoever waits under a term that it ended.
    pub(super) fn tell_watchers(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) {
        self.end_fenced_waits(now, name, fx);
        let Some(entry) = self.lease_names.get(name).and_then(|i| self.leases.get(i)) else {
            return;
        };
        let watchers: Vec<Ticket> = entry.watchers.keys().copied().collect();
        for ticket in watchers {
            self.withdraw(ticket);
            let outcome = self.describe_lease(now, name);
            let barrier = Barrier::Durable;
            fx.answers.push(Answer { ticket, result: Ok(outcome), barrier });
        }
    }

    fn lease_info(&self, now: Now, name: &LeaseName) -> Option<LeaseInfo> {
        let at = self.lease_at(now, name);
        let lease = at.lease?;
        let held = self.held_slots(now, name);
        let first = self.slot_at(now, name, 0).lease;
        let entry = self.leases.get(self.lease_names.get(name)?)?;
        let member_id = |slot: MemberSlot| self.members.get(&slot).map(|member| member.id);
        let holder = at.holder();
        Some(LeaseInfo {
            name: name.clone(),
            kind: lease.kind,
            state: at.state(),
            term: lease.term,
            id: holder.map(|(id, _)| id),
            holder: holder.and_then(|(_, slot)| member_id(slot)),
            metadata: if holder.is_some() { lease.metadata.clone() } else { String::new() },
            ttl_ms: lease.ttl_ms,
            remaining_ms: at.remaining_ms(),
            granted_at: lease.granted_at,
            version: self.version(now, name),
            step_down_asked: holder.is_some() && lease.step_down_asked,
            paused: first.is_some_and(|first| first.paused),
            successor: holder.and(first).and_then(|first| member_id(first.successor)),
            waiting: entry.in_order().filter_map(|(_, waiter)| member_id(waiter.member)).collect(),
            slots: lease.slots,
            others: held.iter().skip(1).filter_map(|at| self.holder_info(at)).collect(),
        })
    }

    fn holder_info(&self, at: &LeaseAt<'_>) -> Option<HolderInfo> {
        let (lease, (id, slot)) = (at.lease?, at.holder()?);
        Some(HolderInfo {
            term: lease.term,
            state: at.state(),
            id: Some(id),
            holder: self.members.get(&slot).map(|member| member.id),
            metadata: lease.metadata.clone(),
            remaining_ms: at.remaining_ms(),
            granted_at: lease.granted_at,
            step_down_asked: lease.step_down_asked,
        })
    }

    /// Grows with every visible change. That the time of a slot ran out is one, and nothing is written
    /// down for it: so every version of its record counts twice, before its end and after.
    fn version(&self, now: Now, name: &LeaseName) -> u64 {
        let versions = self.slots_at(now, name).map(|(_, at)| {
            let is_over = matches!(at.state(), LeaseState::Expired | LeaseState::Broken);
            at.lease.map_or(0, |lease| 2 * lease.version + u64::from(is_over))
        });
        versions.sum()
    }

    pub(super) fn describe_lease(&self, now: Now, name: &LeaseName) -> Outcome {
        Outcome::Lease(self.lease_info(now, name).map(Box::new))
    }

    pub(super) fn watch_lease(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        name: &LeaseName,
        seen: u64,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        if self.version(now, name) != seen || wait_ms == 0 {
            return Ok(Some(self.describe_lease(now, name)));
        }
        self.check_lease_room(name)?;
        let index = self.lease_index(name);
        let until = now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX));
        if let Some(entry) = self.leases.get_mut(&index) {
            entry.watchers.insert(ticket, (request.member, request.number, until));
        }
        self.wait(ticket, request, until, Waits::Watch(index));
        Ok(None)
    }

    /// Answers when the asking member is the next in line.
    pub(super) fn await_turn(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        name: &LeaseName,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
        let next = entry.and_then(|entry| entry.in_order().next());
        let is_next = next.is_some_and(|(_, waiter)| waiter.member == request.member);
        if is_next || wait_ms == 0 {
            return Ok(Some(Outcome::Turn { next: is_next }));
        }
        self.check_lease_room(name)?;
        let index = self.lease_index(name);
        let until = now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX));
        if let Some(entry) = self.leases.get_mut(&index) {
            entry.turns.insert(ticket, (request.member, request.number, until));
        }
        self.wait(ticket, request, until, Waits::Turn(index));
        Ok(None)
    }

    /// The head of a line may be another one: it will be looked at.
    pub(super) fn stir_line(&mut self, name: &LeaseName) {
        if let Some(index) = self.lease_names.get(name) {
            self.stirred_lines.insert(*index);
        }
    }

    /// Whoever is the next in line and waits to hear of it does.
    pub(super) fn tell_next(&mut self, index: u32, fx: &mut Effects) {
        let Some(entry) = self.leases.get(&index) else { return };
        let Some(next) = entry.in_order().next().map(|(_, waiter)| waiter.member) else { return };
        let told = entry.turns.iter().filter(|(_, (member, ..))| *member == next);
        let told: Vec<Ticket> = told.map(|(ticket, _)| *ticket).collect();
        for ticket in told {
            self.withdraw(ticket);
            let (result, barrier) = (Ok(Outcome::Turn { next: true }), Barrier::Durable);
            fx.answers.push(Answer { ticket, result, barrier });
        }
    }

    pub(super) fn list_leases(&self, now: Now, after: Option<&LeaseName>, max: u32) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        Outcome::Leases(
            self.lease_names
                .range::<LeaseName, _>((from, Unbounded))
                .filter_map(|(name, _)| self.lease_info(now, name))
                .take(max as usize)
                .collect(),
        )
    }
}
