//! What the ledger really does with the leases. A grant is decided before it is said, and one whose
//! answer is lost with the process is never said: whoever only listened would take it for an older
//! one.

use bellwether::engine::Reply;
use bellwether_core::command::{Command, HeldSet, LeaseKind, Request};
use bellwether_core::lease::{Hold, Lease};
use bellwether_core::ledger::Ledger;
use bellwether_core::limits::{LEASE_GRACE_PERCENT, LEASE_MS_INFINITE};
use bellwether_core::name::{LeaseId, LeaseName};
use bellwether_core::outcome::{LeaseState, Outcome};
use bellwether_core::time::Now;

use super::words::{index, key, lease_name};
use super::{Asked, Boundary};
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

    /// An answer about a lease leaves the server; the request was decided at `applied_ms`.
    pub(super) fn lease_said(
        &self,
        bus: &mut Bus,
        request: &Request,
        (applied_ms, asked): (u64, &Asked),
        reply: &Reply,
    ) {
        match (&request.command, &reply.outcome) {
            (Command::Acquire(acquire), Outcome::Granted { term, .. }) => {
                bus.stats.grants += 1;
                bus.record(What::Granted {
                    election: index(acquire.lease.as_str()),
                    term: term.0,
                    id: acquire.id.0,
                    slot: request.member.0,
                    renews: true,
                    applied_ms,
                });
            }
            (Command::ChangeLease { lease, to, .. }, Outcome::Granted { term, .. }) => {
                bus.record(What::Granted {
                    election: index(lease.as_str()),
                    term: term.0,
                    id: to.0,
                    slot: request.member.0,
                    renews: false,
                    applied_ms: asked.applied_ms,
                });
            }
            (Command::RenewLease { lease, id }, Outcome::Granted { term, .. }) => {
                let (election, id, term) = (index(lease.as_str()), id.0, term.0);
                let stood = asked.stood == [true];
                bus.record(What::RenewedById { election, id, term, stood, applied_ms });
            }
            (Command::ReleaseLease { lease, id, .. }, Outcome::Done) => {
                let (election, id) = (index(lease.as_str()), id.0);
                // Which copy was decided is not known: one of them must have had a right to it.
                let stood = asked.stood == [true] || self.stood.contains(&key(request));
                bus.record(What::Released { election, id, ok: true, stood, applied_ms });
            }
            (Command::Heartbeat { held: HeldSet::List(list) }, Outcome::Beat(beat)) => {
                for ((lease, term), stood) in list.iter().zip(&asked.stood) {
                    let ok = !beat.resync && !beat.lost.contains(&(lease.clone(), *term));
                    bus.record(What::Kept {
                        election: index(lease.as_str()),
                        term: term.0,
                        slot: request.member.0,
                        ok,
                        stood: *stood,
                        applied_ms,
                    });
                }
            }
            _ => {}
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
        LeaseKind::Bound | LeaseKind::Connected => lease.ttl_ms * LEASE_GRACE_PERCENT / 100,
        LeaseKind::Standing => lease.ttl_ms,
    }
}
