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

use crate::name::{LeaseName, MemberSlot};
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Timer};

impl Ledger {
    /// Sets the timer to when the lease would end as things stand; it looks again when it fires.
    /// What ended before `from` has no end to come, and whoever ended it has told so. One that
    /// heartbeats renew is looked after by its member's timer.
    fn arm_lease_from(&mut self, now: Now, from: BootTime, name: &LeaseName) {
        let ends_at = self.lease_at(now, name).ends_at();
        let renewed_by = self.renewed_by(name);
        let is_to_come = ends_at != BootTime::NEVER && ends_at > from;
        let alone = (is_to_come && renewed_by.is_none()).then_some(ends_at);
        self.set_lease_timer(name, alone);
        match renewed_by {
            Some(slot) if is_to_come => self.arm_beat(slot),
            Some(slot) => self.stop_renewing(slot, name),
            None => {}
        }
    }

    pub(super) fn arm_lease(&mut self, now: Now, name: &LeaseName) {
        self.arm_lease_from(now, now.boot, name);
    }

    /// The lease gets a timer of its own, for its end as things stand, also if that has passed.
    pub(super) fn arm_alone(&mut self, now: Now, name: &LeaseName) {
        let ends_at = self.lease_at(now, name).ends_at();
        self.set_lease_timer(name, (ends_at != BootTime::NEVER).then_some(ends_at));
    }

    fn set_lease_timer(&mut self, name: &LeaseName, wanted: Option<BootTime>) {
        let Some(index) = self.lease_names.get(name).copied() else { return };
        let Some(entry) = self.leases.get_mut(&index) else { return };
        if entry.armed == wanted {
            return;
        }
        if let Some(old) = std::mem::replace(&mut entry.armed, wanted) {
            self.timers.boot.remove(&(old, Timer::Lease(index)));
        }
        if let Some(at) = wanted {
            self.timers.boot.insert((at, Timer::Lease(index)));
        }
    }

    /// Whose heartbeats renew a bound lease, if anybody's do.
    fn renewed_by(&self, name: &LeaseName) -> Option<MemberSlot> {
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index))?;
        let lease = entry.lease.as_ref().filter(|lease| lease.kind.is_bound())?;
        let member = self.members.get(&lease.member)?;
        (member.renewing.get(name) == Some(lease.term)).then_some(lease.member)
    }

    /// Whether a lease has ended and nobody has told so yet: its timer has not fired.
    pub(super) fn is_overdue(&self, now: Now, name: &LeaseName) -> bool {
        let entry = self.lease_names.get(name).and_then(|index| self.leases.get(index));
        entry.and_then(|entry| entry.armed).is_some_and(|at| at <= now.boot)
            || (self.renewed_by(name).is_some() && self.lease_at(now, name).ends_at() <= now.boot)
    }

    /// A lease may have ended: whoever waits gets it, whoever watches hears of it.
    pub(super) fn lease_fired(&mut self, now: Now, due: BootTime, index: u32, fx: &mut Effects) {
        let Some(entry) = self.leases.get_mut(&index) else { return };
        entry.armed = None;
        let name = entry.name.clone();
        let at = self.lease_at(now, &name);
        if at.ends_at() > due {
            self.arm_lease_from(now, due, &name);
            return;
        }
        if let Some(holder) = at.lease.map(|lease| lease.member) {
            self.stop_renewing(holder, &name);
        }
        self.note_over(now, &name, fx);
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
        let late: Vec<LeaseName> = member.renewing.iter().map(|(name, _)| name.clone()).collect();
        for name in late {
            self.arm_alone(now, &name);
        }
    }
}
