//! When leases end.
//!
//! ```text
//!   renewed by heartbeats ──► one timer for all of a member ── a heartbeat came since ──► set again
//!                                       └── none came ──► each gets its own ──► over, or set again
//!   any other ──────────────► a timer of its own
//! ```
//!
//! So a heartbeat costs the same for one lease and for a thousand, and so does the time between two.
//! A lease that can end has a timer of its own, or its member has one that fires no later.

use crate::name::{LeaseName, MemberSlot, Term};
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Timer};

impl Ledger {
    /// Sets the timer to when a slot's term would end as things stand; it looks again when it fires.
    /// What ended before `from` has no end to come, and whoever ended it has told so. One that
    /// heartbeats renew is looked after by its member's timer.
    fn arm_lease_from(&mut self, now: Now, from: BootTime, name: &LeaseName, nth: u32) {
        let ends_at = self.slot_at(now, name, nth).ends_at();
        let renewed_by = self.renewed_by(name, nth);
        let is_to_come = ends_at != BootTime::NEVER && ends_at > from;
        let alone = (is_to_come && renewed_by.is_none()).then_some(ends_at);
        self.set_lease_timer(name, nth, alone);
        match renewed_by {
            Some((slot, _)) if is_to_come => self.arm_beat(slot),
            Some((slot, term)) => self.stop_renewing(slot, name, term),
            None => {}
        }
    }

    pub(super) fn arm_lease(&mut self, now: Now, name: &LeaseName, nth: u32) {
        self.arm_lease_from(now, now.boot, name, nth);
    }

    /// A term gets a timer of its own, for its end as things stand, also if that has passed.
    pub(super) fn arm_alone(&mut self, now: Now, name: &LeaseName, term: Term) {
        let Some(nth) = self.entry(name).and_then(|entry| entry.slot_under(term)) else { return };
        let ends_at = self.slot_at(now, name, nth).ends_at();
        self.set_lease_timer(name, nth, (ends_at != BootTime::NEVER).then_some(ends_at));
    }

    fn set_lease_timer(&mut self, name: &LeaseName, nth: u32, wanted: Option<BootTime>) {
        let Some(index) = self.lease_names.get(name).copied() else { return };
        let entry = self.leases.get_mut(&index);
        let Some(slot) = entry.and_then(|entry| entry.slots.get_mut(&nth)) else { return };
        if slot.armed == wanted {
            return;
        }
        if let Some(old) = std::mem::replace(&mut slot.armed, wanted) {
            self.timers.boot.remove(&(old, Timer::Lease(index, nth)));
        }
        if let Some(at) = wanted {
            self.timers.boot.insert((at, Timer::Lease(index, nth)));
        }
    }

    /// Whose heartbeats renew the term of a slot, if anybody's do.
    fn renewed_by(&self, name: &LeaseName, nth: u32) -> Option<(MemberSlot, Term)> {
        let lease = self.entry(name)?.record(nth).filter(|lease| lease.kind.is_bound())?;
        let member = self.members.get(&lease.member)?;
        member.renewing.contains(name, lease.term).then_some((lease.member, lease.term))
    }

    /// Whether a slot's term has ended and nobody has told so yet: its timer has not fired.
    pub(super) fn is_overdue(&self, now: Now, name: &LeaseName, nth: u32) -> bool {
        let slot = self.entry(name).and_then(|entry| entry.slots.get(&nth));
        slot.and_then(|slot| slot.armed).is_some_and(|at| at <= now.boot)
            || (self.renewed_by(name, nth).is_some()
                && self.slot_at(now, name, nth).ends_at() <= now.boot)
    }

    /// A slot's term may have ended: whoever waits gets it, whoever watches hears of it.
    pub(super) fn lease_fired(
        &mut self,
        now: Now,
        due: BootTime,
        (index, nth): (u32, u32),
        fx: &mut Effects,
    ) {
        let Some(entry) = self.leases.get_mut(&index) else { return };
        let Some(slot) = entry.slots.get_mut(&nth) else { return };
        slot.armed = None;
        let name = entry.name.clone();
        let at = self.slot_at(now, &name, nth);
        if at.ends_at() > due {
            self.arm_lease_from(now, due, &name, nth);
            return;
        }
        if let Some((holder, term)) = at.lease.map(|lease| (lease.member, lease.term)) {
            self.stop_renewing(holder, &name, term);
        }
        self.note_over(now, &name, nth, fx);
        self.tell_watchers(now, &name, fx);
        self.grant_next(now, &name, None, fx);
    }

    /// Sets the member's timer to the first moment at which a lease that it renews may end.
    pub(super) fn arm_beat(&mut self, slot: MemberSlot) {
        let Some(member) = self.members.get_mut(&slot) else { return };
        let Some(at) = member.renewing.first_end() else { return };
        if member.beat_armed.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(old) = member.beat_armed.replace(at) {
            self.timers.boot.remove(&(old, Timer::Beat(slot)));
        }
        self.timers.boot.insert((at, Timer::Beat(slot)));
    }

    /// Either a heartbeat has come since, or each lease ends when its own time is over.
    pub(super) fn beat_fired(&mut self, now: Now, due: BootTime, slot: MemberSlot) {
        let Some(member) = self.members.get_mut(&slot) else { return };
        member.beat_armed = None;
        if member.renewing.first_end().is_some_and(|at| at > due) {
            self.arm_beat(slot);
            return;
        }
        let renewing = member.renewing.iter();
        let late: Vec<_> = renewing.map(|(name, term)| (name.clone(), term)).collect();
        for (name, term) in late {
            self.arm_alone(now, &name, term);
        }
    }
}
