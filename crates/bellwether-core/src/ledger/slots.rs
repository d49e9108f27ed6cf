//! The slots of a lease: so many may hold it at once.
//!
//! ```text
//!   acquire ──► its id holds one? that one, again
//!               one of the first N is free? the lowest, under the next term of them all
//!               else: in line
//! ```
//!
//! 1. Every slot is a record of its own, under the rules of one lease (`lease.rs`). With one slot
//!    there is nothing else.
//! 2. Terms are unique and only grow over all slots of a name: the next one is above the newest of
//!    every slot, also of one that is not in use any more.
//! 3. How many there are is said by who asks, and stands for as long as anybody holds one.
//! 4. Of an id, and of more holders than there are slots, nothing is remembered beside a new grant.
//! 5. What is said to all, a pause and who shall follow, stands in the first slot's record.

use crate::command::Acquire;
use crate::error::LeaseRefusal;
use crate::lease::{Lease, LeaseAt};
use crate::name::{LeaseId, LeaseName, MemberSlot, Term};
use crate::outcome::{EndedBy, LeaseState};
use crate::time::{BootTime, Now};

use super::leases::Entry;
use super::{Effects, Ledger};

/// One slot of a lease.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// How it stands.
    pub(super) lease: Lease,
    /// When its timer fires; one that its member's heartbeats renew may have none.
    pub(super) armed: Option<BootTime>,
}

impl Ledger {
    pub(super) fn entry(&self, name: &LeaseName) -> Option<&Entry> {
        self.lease_names.get(name).and_then(|index| self.leases.get(index))
    }

    /// One slot of a lease, looked at in one moment.
    pub(super) fn slot_at<'a>(&'a self, now: Now, name: &'a LeaseName, nth: u32) -> LeaseAt<'a> {
        let entry = self.entry(name);
        let lease = entry.and_then(|entry| entry.record(nth));
        let beaten_at = lease
            .and_then(|lease| self.members.get(&lease.member).map(|member| (lease, member)))
            .filter(|(lease, member)| member.renewing.contains(name, lease.term))
            .map(|(_, member)| member.beaten_at);
        let others = entry.into_iter().flat_map(Entry::records);
        let newest = others.filter(|(other, _)| *other != nth).map(|(_, other)| other.term).max();
        let above = newest.map_or(Term(0), |term| Term(term.0 + 1));
        LeaseAt { name, lease, now, beaten_at, terms_from: self.terms_from.max(above) }
    }

    /// Every slot that was ever granted, in one moment.
    pub(super) fn slots_at<'a>(
        &'a self,
        now: Now,
        name: &'a LeaseName,
    ) -> impl Iterator<Item = (u32, LeaseAt<'a>)> {
        let records = self.entry(name).into_iter().flat_map(Entry::records);
        records.map(move |(nth, _)| (nth, self.slot_at(now, name, nth)))
    }

    /// Those that are held, with their holders' ids; the oldest term first.
    pub fn held_slots<'a>(&'a self, now: Now, name: &'a LeaseName) -> Vec<LeaseAt<'a>> {
        let mut held: Vec<LeaseAt<'a>> =
            self.slots_at(now, name).map(|(_, at)| at).filter(|at| at.holder().is_some()).collect();
        held.sort_by_key(LeaseAt::term);
        held
    }

    /// The slot that stands for the lease where one must: of those that are held that with the oldest
    /// term, else the newest of all. So the term that is shown only grows.
    pub(super) fn shown_slot(&self, now: Now, name: &LeaseName) -> u32 {
        let held = self.slots_at(now, name).filter(|(_, at)| at.holder().is_some());
        let oldest = held.min_by_key(|(_, at)| at.term());
        let shown = oldest.or_else(|| self.slots_at(now, name).max_by_key(|(_, at)| at.term()));
        shown.map_or(0, |(nth, _)| nth)
    }

    /// One lease, looked at in one moment; of several slots the one that stands for it.
    pub fn lease_at<'a>(&'a self, now: Now, name: &'a LeaseName) -> LeaseAt<'a> {
        self.slot_at(now, name, self.shown_slot(now, name))
    }

    fn held_under(&self, now: Now, name: &LeaseName, id: LeaseId) -> Option<u32> {
        let mut held = self.slots_at(now, name).filter(|(_, at)| at.holder().is_some());
        held.find(|(_, at)| at.id() == Some(id)).map(|(nth, _)| nth)
    }

    /// The slot that an action under `id` is about: the one held under it, else one that remembers
    /// it, else the one whose rules shall refuse it.
    pub(super) fn slot_of(&self, now: Now, name: &LeaseName, id: LeaseId) -> u32 {
        let remembered =
            || self.slots_at(now, name).find(|(_, at)| at.id() == Some(id)).map(|(nth, _)| nth);
        self.held_under(now, name, id)
            .or_else(remembered)
            .unwrap_or_else(|| self.shown_slot(now, name))
    }

    /// The slot that a change of id is about. A new id that holds another slot already cannot be
    /// given: an id is one holder's.
    pub(super) fn slot_to_change(
        &self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        to: LeaseId,
    ) -> Result<u32, LeaseRefusal> {
        match (self.held_under(now, name, id), self.held_under(now, name, to)) {
            (Some(from), Some(other)) if from != other => {
                Err(LeaseRefusal::IdMismatch(name.clone()))
            }
            (Some(nth), _) | (None, Some(nth)) => Ok(nth),
            (None, None) => Ok(self.slot_of(now, name, id)),
        }
    }

    /// The slot that an acquire is decided on: the one its id holds, else the lowest free one.
    pub(super) fn slot_for(&self, now: Now, ask: &Acquire) -> Result<u32, LeaseRefusal> {
        self.same_slots(now, ask)?;
        let name = &ask.lease;
        if let Some(nth) = self.held_under(now, name, ask.id) {
            return Ok(nth);
        }
        match self.free_slot(now, name, ask.slots) {
            Some(_) if self.is_lease_paused(name) => Err(LeaseRefusal::Paused(name.clone())),
            Some(nth) => Ok(nth),
            None => {
                let term = self.held_slots(now, name).last().map_or(Term(0), LeaseAt::term);
                Err(LeaseRefusal::Held { lease: name.clone(), term })
            }
        }
    }

    /// The lowest of so many slots that nobody holds. One whose time is over and whose timer has not
    /// fired yet is held until it does.
    pub(super) fn free_slot(&self, now: Now, name: &LeaseName, slots: u32) -> Option<u32> {
        #[cfg(not(planted_bug = "one_slot_too_many"))]
        let mut all = 0..slots;
        #[cfg(planted_bug = "one_slot_too_many")]
        let mut all = 0..slots + u32::from(slots > 1);
        all.find(|nth| !self.is_taken(&self.slot_at(now, name, *nth), *nth))
    }

    /// Whether it is held, or was and its timer has not fired yet.
    fn is_taken(&self, at: &LeaseAt<'_>, nth: u32) -> bool {
        at.holder().is_some() || self.is_overdue(at.now, at.name, nth)
    }

    /// The ids that those have.
    pub(super) fn ids_taken(&self, now: Now, name: &LeaseName) -> Vec<LeaseId> {
        let taken = self.slots_at(now, name).filter(|(nth, at)| self.is_taken(at, *nth));
        taken.filter_map(|(_, at)| at.id()).collect()
    }

    /// Whether everybody who holds it asked for the same number.
    pub(super) fn same_slots(&self, now: Now, ask: &Acquire) -> Result<(), LeaseRefusal> {
        match self.recorded_slots(now, &ask.lease) {
            Some(slots) if slots != ask.slots => {
                let (lease, asked) = (ask.lease.clone(), ask.slots);
                Err(LeaseRefusal::OtherSlots { lease, slots, asked })
            }
            _ => Ok(()),
        }
    }

    /// How many slots it has as it is held; `None` if nobody holds it.
    pub(super) fn recorded_slots(&self, now: Now, name: &LeaseName) -> Option<u32> {
        let mut held = self.slots_at(now, name).filter(|(_, at)| at.holder().is_some());
        held.find_map(|(_, at)| Some(at.lease?.slots))
    }

    pub(super) fn is_lease_paused(&self, name: &LeaseName) -> bool {
        self.entry(name).and_then(|entry| entry.record(0)).is_some_and(|lease| lease.paused)
    }

    /// The slots a decision about all who hold it is made on.
    pub(super) fn held_numbers(&self, now: Now, name: &LeaseName) -> Vec<u32> {
        let held = self.slots_at(now, name).filter(|(_, at)| at.holder().is_some());
        held.map(|(nth, _)| nth).collect()
    }

    /// Whether a member holds a lease under a term at this moment.
    pub(super) fn is_held(&self, now: Now, name: &LeaseName, term: Term, slot: MemberSlot) -> bool {
        let records = self.entry(name).into_iter().flat_map(Entry::records);
        let mut named = records.filter(|(_, lease)| lease.term == term && lease.member == slot);
        named.any(|(nth, _)| self.slot_at(now, name, nth).state() == LeaseState::Leased)
    }

    /// The bound leases a member holds, with their ids: also those it has stopped to name.
    pub(super) fn held_by(&self, now: Now, slot: MemberSlot) -> Vec<(LeaseName, u32, LeaseId)> {
        let Some(member) = self.members.get(&slot) else { return Vec::new() };
        let held = member.holds.iter().filter_map(|(name, nth)| {
            let at = self.slot_at(now, name, *nth);
            let (id, _) = at.holder()?;
            (at.lease?.kind.is_bound()).then(|| (name.clone(), *nth, id))
        });
        held.collect()
    }

    /// All leases a member holds, with their terms.
    pub(super) fn leases_of(&self, now: Now, slot: MemberSlot) -> Vec<(LeaseName, Term)> {
        let Some(member) = self.members.get(&slot) else { return Vec::new() };
        let held = member.holds.iter().filter_map(|(name, nth)| {
            let at = self.slot_at(now, name, *nth);
            at.holder().map(|_| (name.clone(), at.term()))
        });
        let mut held: Vec<_> = held.collect();
        held.sort();
        held
    }

    /// A slot but the first was granted: the wish who shall be next, which stands in the first, is
    /// fulfilled.
    pub(super) fn end_wish(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) {
        if let Some(lease) = self.slot_at(now, name, 0).name_successor(MemberSlot(0)) {
            self.redecided(now, name, 0, lease, fx);
        }
    }

    /// A slot is about to be granted, or its id changed: what other slots remember of holders that
    /// lost them is forgotten where it would be in the way. After a restart they are honoured once
    /// more, and then there must neither be more of them than may hold it, nor two under one id.
    pub(super) fn forget_ended(
        &mut self,
        now: Now,
        name: &LeaseName,
        nth: u32,
        granted: &Lease,
        fx: &mut Effects,
    ) {
        let ended = self.slots_at(now, name).filter(|(other, _)| *other != nth);
        let in_the_way = ended.filter(|(_, at)| {
            let is_other = at.lease.is_some_and(|lease| lease.slots != granted.slots);
            is_other || at.id() == granted.hold.id()
        });
        let forgotten: Vec<(u32, Lease)> =
            in_the_way.filter_map(|(other, at)| Some((other, at.touch()?))).collect();
        for (other, lease) in forgotten {
            self.note_overdue(now, name, other, fx);
            self.redecided(now, name, other, lease, fx);
        }
    }

    /// Writes down why a slot's term ended if it has ended and its timer has not fired yet, before
    /// somebody acts on it: what the timer would have written down.
    pub(super) fn note_overdue(&mut self, now: Now, name: &LeaseName, nth: u32, fx: &mut Effects) {
        if self.is_overdue(now, name, nth) {
            self.note_over(now, name, nth, fx);
        }
    }

    /// Writes down that a slot's newest term is over because its time is.
    pub(super) fn note_over(&mut self, now: Now, name: &LeaseName, nth: u32, fx: &mut Effects) {
        let at = self.slot_at(now, name, nth);
        let by = match at.state() {
            LeaseState::Expired => EndedBy::RanOut,
            LeaseState::Broken => EndedBy::Broken,
            LeaseState::Available | LeaseState::Leased | LeaseState::Breaking => return,
        };
        if let Some(term) = at.lease.map(|lease| lease.term) {
            self.note_end(now, name, term, by, fx);
        }
    }
}
