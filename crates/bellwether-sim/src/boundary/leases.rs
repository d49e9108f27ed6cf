//! What the ledger really does with the leases. A grant is decided before it is said, and one whose
//! answer is lost with the process is never said: whoever only listened would take it for an older
//! one.

use bellwether_core::command::{Command, HeldSet, LeaseKind, Request};
use bellwether_core::lease::{Hold, Lease};
use bellwether_core::ledger::Ledger;
use bellwether_core::limits::{LEASE_GRACE_PERCENT, LEASE_MS_INFINITE};
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
        for election in 0..bus.plan.elections.len() as u8 + bus.plan.standing {
            let name = lease_name(election);
            let lease = ledger.lease_at(now, &name).lease;
            let is = lease.map_or((0, None), |lease| (lease.term.0, holder(lease.hold)));
            let was = self.leases.insert(election, is).unwrap_or_default();
            if opened || was != is {
                let held_ms = lease.map_or(0, held_ms);
                let slot = lease.map_or(0, |lease| lease.member.0);
                let (term, id) = (is.0, is.1.map(|id| id.0));
                bus.record(What::LeaseIs { election, term, id, slot, held_ms, opened });
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
                let (Some(lease), state) = at(lease) else { return vec![false] };
                // A standing lease may be renewed late, as long as nobody has taken it since.
                let late = lease.kind == LeaseKind::Standing && state == LeaseState::Expired;
                vec![id(lease.hold) == Some(*shown) && (late || state == LeaseState::Leased)]
            }
            Command::Heartbeat { held: HeldSet::List(list) } => list
                .iter()
                .map(|(lease, term)| {
                    let (lease, state) = at(lease);
                    let is_its =
                        |lease: Lease| lease.term == *term && lease.member == request.member;
                    lease.is_some_and(is_its) && state == LeaseState::Leased
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Whose it is; what is being broken is nobody's any more.
fn holder(hold: Hold) -> Option<LeaseId> {
    id(hold).filter(|_| matches!(hold, Hold::Held { .. }))
}

/// Under which id it was last held.
fn id(hold: Hold) -> Option<LeaseId> {
    match hold {
        Hold::Free => None,
        Hold::Held { id, .. } | Hold::Broken { id, .. } => Some(id),
    }
}

/// How long nobody else gets a lease after it was last renewed.
fn held_ms(lease: &Lease) -> u64 {
    match lease.kind {
        _ if lease.ttl_ms == LEASE_MS_INFINITE => u64::MAX / 2,
        LeaseKind::Bound => lease.ttl_ms * LEASE_GRACE_PERCENT / 100,
        LeaseKind::Standing => lease.ttl_ms,
    }
}
