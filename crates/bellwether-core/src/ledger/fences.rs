//! Fences: what is asked under a term is refused unless that term is held ([`crate::fence`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Refusal;
use crate::fence::Fence;
use crate::name::{LeaseName, Ticket};
use crate::time::Now;

use super::{Effects, Ledger, refuse};

/// Who waits under which fence.
#[derive(Debug, Default)]
pub(super) struct Fences {
    of: BTreeMap<Ticket, Fence>,
    under: BTreeSet<(LeaseName, Ticket)>,
}

impl Fences {
    pub(super) fn insert(&mut self, ticket: Ticket, fence: &Fence) {
        self.under.insert((fence.election.clone(), ticket));
        self.of.insert(ticket, fence.clone());
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Some(fence) = self.of.remove(&ticket) {
            self.under.remove(&(fence.election, ticket));
        }
    }

    fn under(&self, election: &LeaseName) -> impl Iterator<Item = Ticket> {
        let range = (election.clone(), Ticket(0))..=(election.clone(), Ticket(u64::MAX));
        self.under.range(range).map(|(_, ticket)| *ticket)
    }
}

impl Ledger {
    /// Refuses what is asked under a term that is not held at this moment.
    pub fn check_fence(&self, now: Now, fence: Option<&Fence>) -> Result<(), Refusal> {
        let Some(fence) = fence else { return Ok(()) };
        let slots = self.slots_at(now, &fence.election);
        let slots = slots.map(|(_, at)| (at.term(), at.holder().is_some()));
        fence.check(slots)
    }

    /// The same for one who waited and is about to be served.
    pub(super) fn check_waiting(&self, now: Now, ticket: Ticket) -> Result<(), Refusal> {
        self.check_fence(now, self.fences.of.get(&ticket))
    }

    /// The lease has changed, or has ended: who waits under a term that is over waits no more.
    pub(super) fn end_fenced_waits(&mut self, now: Now, election: &LeaseName, fx: &mut Effects) {
        if self.fences.of.is_empty() {
            return;
        }
        let waiting: Vec<Ticket> = self.fences.under(election).collect();
        for ticket in waiting {
            if let Err(refusal) = self.check_waiting(now, ticket) {
                self.withdraw(ticket);
                refuse(ticket, refusal, fx);
            }
        }
    }
}
