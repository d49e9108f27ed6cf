//! How a lease is let go before its time is over: by its holder, with its holder, by force.

use crate::error::Refusal;
use crate::lease::Lease;
use crate::name::{LeaseId, LeaseName, MemberId};
use crate::outcome::{EndedBy, Outcome};
use crate::time::Now;

use super::{Effects, Ledger};

impl Ledger {
    pub(super) fn release_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        successor: Option<MemberId>,
        by: EndedBy,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let outcome = self.free_lease(now, name, id, by, fx)?;
        self.grant_next(now, name, successor, fx);
        Ok(outcome)
    }

    /// Releases what is held under this id; who waits for it is not served yet.
    pub(super) fn free_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        id: LeaseId,
        by: EndedBy,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let nth = self.slot_of(now, name, id);
        let at = self.slot_at(now, name, nth);
        let decision = at.release(id)?;
        if at.holder().is_some() {
            self.note_end(now, name, decision.lease.term, by, fx);
        } else {
            self.note_overdue(now, name, nth, fx);
        }
        Ok(self.decided(now, name, nth, decision, fx))
    }

    /// Releases all of these, which a member held together.
    pub(super) fn release_all(
        &mut self,
        now: Now,
        held: &[(LeaseName, u32, LeaseId)],
        by: EndedBy,
        fx: &mut Effects,
    ) {
        for (lease, _, id) in held {
            // Held a moment ago, by this member: a refusal could only say that it is free already.
            let _ = self.free_lease(now, lease, *id, by, fx);
            if cfg!(planted_bug = "release_one_by_one") {
                self.grant_next(now, lease, None, fx);
            }
        }
        // They end together: nobody is granted one under a term that ends with it.
        for (lease, _, _) in held {
            self.grant_next(now, lease, None, fx);
        }
    }

    pub(super) fn break_lease(
        &mut self,
        now: Now,
        name: &LeaseName,
        period_ms: Option<u64>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let mut slots = self.held_numbers(now, name);
        if slots.is_empty() {
            slots.push(self.shown_slot(now, name));
        }
        let mut longest_ms = 0;
        for nth in slots {
            let at = self.slot_at(now, name, nth);
            let decision = at.break_hold(period_ms)?;
            let was_held = at.holder().is_some();
            self.note_overdue(now, name, nth, fx);
            if let Outcome::Breaking { remaining_ms } = self.decided(now, name, nth, decision, fx) {
                longest_ms = remaining_ms.max(longest_ms);
            }
            if was_held {
                self.note_over(now, name, nth, fx);
            }
        }
        self.grant_next(now, name, None, fx);
        Ok(Outcome::Breaking { remaining_ms: longest_ms })
    }

    pub(super) fn touch_lease(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) -> Outcome {
        let touched: Vec<(u32, Lease)> =
            self.slots_at(now, name).filter_map(|(nth, at)| Some((nth, at.touch()?))).collect();
        if touched.is_empty() {
            return Outcome::Done;
        }
        for (nth, lease) in touched {
            self.note_overdue(now, name, nth, fx);
            self.redecided(now, name, nth, lease, fx);
        }
        self.grant_next(now, name, None, fx);
        Outcome::Done
    }
}
