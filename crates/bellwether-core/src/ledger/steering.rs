//! What an operator does to an election: asks its leader to step down, says who shall follow, stops it
//! and lets it go on.

use crate::error::{LeaseRefusal, Refusal};
use crate::name::{LeaseName, MemberId, MemberSlot};
use crate::outcome::Outcome;
use crate::time::Now;

use super::{Effects, Ledger};

impl Ledger {
    pub(super) fn ask_step_down(
        &mut self,
        now: Now,
        name: &LeaseName,
        successor: Option<MemberId>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let held = self.held_numbers(now, name);
        if held.is_empty() {
            return Err(LeaseRefusal::NotPresent(name.clone()).into());
        }
        let Some(member) = successor else {
            for nth in held {
                let decision = self.slot_at(now, name, nth).ask_step_down(None)?;
                self.decided(now, name, nth, decision, fx);
            }
            return Ok(Outcome::Done);
        };
        if self.is_lease_paused(name) {
            return Err(LeaseRefusal::Paused(name.clone()).into());
        }
        // One follows one: of several it is the one that has led longest.
        let nth = self.shown_slot(now, name);
        let mut slot = Some(self.slot_in_line(name, member)?);
        if nth != 0 {
            let wish = slot.take().and_then(|slot| self.slot_at(now, name, 0).name_successor(slot));
            if let Some(lease) = wish {
                self.redecided(now, name, 0, lease, fx);
            }
        }
        let decision = self.slot_at(now, name, nth).ask_step_down(slot)?;
        Ok(self.decided(now, name, nth, decision, fx))
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
        let decision = self.slot_at(now, name, 0).pause(keep_leader);
        let outcome = self.decided(now, name, 0, decision, fx);
        let mut others = self.held_numbers(now, name);
        others.retain(|nth| *nth != 0 && !keep_leader);
        for nth in others {
            let decision = self.slot_at(now, name, nth).ask_step_down(None)?;
            self.decided(now, name, nth, decision, fx);
        }
        Ok(outcome)
    }

    pub(super) fn resume_lease(&mut self, now: Now, name: &LeaseName, fx: &mut Effects) -> Outcome {
        if let Some(lease) = self.slot_at(now, name, 0).resume() {
            self.redecided(now, name, 0, lease, fx);
            self.grant_next(now, name, None, fx);
        }
        Outcome::Done
    }
}
