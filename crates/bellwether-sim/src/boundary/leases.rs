//! What the ledger really does with the leases. A grant is decided before it is said, and one whose
//! answer is lost with the process is never said: whoever only listened would take it for an older
//! one.

use bellwether_core::command::{Command, HeldSet, Request};
use bellwether_core::lease::Hold;
use bellwether_core::ledger::Ledger;
use bellwether_core::name::{LeaseId, LeaseName};
use bellwether_core::outcome::LeaseState;
use bellwether_core::time::Now;

use super::Boundary;
use super::words::{key, lease_name};
use crate::bus::Bus;
use crate::history::What;

impl Boundary {
    /// Looks at all leases and tells which are otherwise than before; all, after a start.
    pub(crate) fn look_at_leases(
        &mut self,
        bus: &mut Bus,
        now: Now,
        ledger: &Ledger,
        opened: bool,
    ) {
        for election in 0..bus.plan.elections.len() as u8 {
            let name = lease_name(election);
            let lease = ledger.lease_at(now, &name).lease;
            let is = lease.map_or((0, None), |lease| (lease.term.0, id(lease.hold)));
            let was = self.leases.insert(election, is).unwrap_or_default();
            if opened || was != is {
                let ttl_ms = lease.map_or(0, |lease| lease.ttl_ms);
                let (term, id) = is;
                bus.record(What::LeaseIs { election, term, id: id.map(|id| id.0), ttl_ms, opened });
            }
        }
    }

    /// A request is about to be applied: which of the leases it shows stand as it shows them.
    pub(crate) fn stood(&mut self, now: Now, ledger: &Ledger, request: &Request) -> Vec<bool> {
        let at = |lease: &LeaseName| {
            let at = ledger.lease_at(now, lease);
            (at.lease.cloned(), at.state())
        };
        match &request.command {
            Command::ReleaseLease { lease, id: shown, .. } => {
                let stood = at(lease).0.is_some_and(|lease| id(lease.hold) == Some(*shown));
                if stood && request.number.0 != 0 {
                    self.stood.insert(key(request));
                }
                vec![stood]
            }
            Command::RenewLease { lease, id: shown } => {
                let (lease, state) = at(lease);
                let is_its = lease.is_some_and(|lease| id(lease.hold) == Some(*shown));
                vec![is_its && state == LeaseState::Leased]
            }
            Command::Heartbeat { held: HeldSet::List(list) } => list
                .iter()
                .map(|(lease, term)| {
                    let (lease, state) = at(lease);
                    let is_its = |lease: bellwether_core::lease::Lease| {
                        lease.term == *term && lease.member == request.member
                    };
                    lease.is_some_and(is_its) && state == LeaseState::Leased
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

fn id(hold: Hold) -> Option<LeaseId> {
    match hold {
        Hold::Free => None,
        Hold::Held { id, .. } | Hold::Broken { id, .. } => Some(id),
    }
}
