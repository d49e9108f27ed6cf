//! Who stands in line for a lease, and who has left it.

use std::cmp::Reverse;
use std::rc::Rc;

use bellwether_core::command::{Acquire, Command, Request};
use bellwether_core::ledger::Ledger;
use bellwether_core::name::{LeaseId, LeaseName, MemberId};
use bellwether_core::time::Now;

use super::Boundary;
use super::words::{index, key};
use crate::bus::{Bus, Packet};
use crate::history::{Waiter, What};

/// A release by whoever holds the lease, before it is applied.
#[derive(Debug)]
pub(crate) struct Release {
    lease: LeaseName,
    id: LeaseId,
    successor: Option<MemberId>,
    /// Who waits, first first: their slots and members.
    line: Vec<(u32, usize)>,
}

fn acquire(packet: &Packet) -> Option<&Acquire> {
    if let Command::Acquire(acquire) = &packet.call.request.command { Some(acquire) } else { None }
}

impl Release {
    /// What `request` releases, if it may; `waiting` are all who wait, in the order they came.
    pub(crate) fn of<'a>(
        request: &Request,
        stood: &[bool],
        waiting: impl Iterator<Item = &'a Packet>,
    ) -> Option<Self> {
        let Command::ReleaseLease { lease, id, successor } = &request.command else { return None };
        if stood != [true] {
            return None;
        }
        let asks = waiting.filter_map(|packet| Some((acquire(packet)?, packet)));
        let mut line: Vec<_> = asks.filter(|(acquire, _)| acquire.lease == *lease).collect();
        line.sort_by_key(|(acquire, _)| Reverse(acquire.priority));
        let place = |packet: &Packet| (packet.call.request.member.0, packet.member);
        let line = line.into_iter().map(|(_, packet)| place(packet)).collect();
        Some(Self { lease: lease.clone(), id: *id, successor: *successor, line })
    }
}

impl Boundary {
    /// A release was applied: who has the lease now.
    pub(crate) fn released(&self, bus: &mut Bus, now: Now, ledger: &Ledger, release: &Release) {
        let at = ledger.lease_at(now, &release.lease);
        // Refused, because its member is not known any more, or because it is a late copy.
        if at.holder().is_some_and(|(id, _)| id == release.id) {
            return;
        }
        let to = at.holder().and(at.lease).map(|lease| lease.member.0);
        // A member's id begins with the number of its process.
        let process = release.successor.map(|id| (id.0 >> 64) as u32);
        let successor = process.and_then(|process| self.slots.get(&process)).copied();
        bus.stats.handed_over += u64::from(to.is_some() && to == successor);
        let ttl_ms = |member: usize| bus.plan.members[member].ttl_ms;
        let line = release.line.iter();
        let line = line.map(|(slot, member)| Waiter { slot: *slot, ttl_ms: ttl_ms(*member) });
        let line = line.collect();
        let election = index(release.lease.as_str());
        bus.record(What::Passed { election, successor, line, to });
    }

    /// A request that waited was withdrawn; `open` are those that were not.
    pub(crate) fn withdrawn<'a>(
        bus: &mut Bus,
        request: &Request,
        open: impl Iterator<Item = &'a Rc<Packet>>,
    ) {
        let lease = match &request.command {
            // Who asked twice under one id may still wait under the other number.
            Command::Acquire(Acquire { lease, id, .. })
                if open.filter_map(|packet| acquire(packet)).all(|other| other.id != *id) =>
            {
                Some((index(lease.as_str()), id.0))
            }
            _ => None,
        };
        bus.record(What::Withdrawn { key: key(request), lease });
    }
}
