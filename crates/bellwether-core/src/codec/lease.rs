//! Leases.

use super::wire::Wire;
use super::{BadBytes, Reader};
use crate::lease::{Hold, Lease};
use crate::name::LeaseId;
use crate::time::BootTime;

pub(super) fn put_lease(lease: &Lease, now: BootTime, out: &mut Vec<u8>) {
    let Lease { term, hold, kind, ttl_ms, member, metadata, granted_at, version, step_down_asked } =
        lease;
    term.put(out);
    put_hold(*hold, now, out);
    kind.put(out);
    ttl_ms.put(out);
    member.put(out);
    metadata.put(out);
    granted_at.put(out);
    version.put(out);
    step_down_asked.put(out);
}

pub(super) fn get_lease(r: &mut Reader<'_>) -> Result<Lease, BadBytes> {
    Ok(Lease {
        term: Wire::get(r)?,
        hold: get_hold(r)?,
        kind: Wire::get(r)?,
        ttl_ms: Wire::get(r)?,
        member: Wire::get(r)?,
        metadata: Wire::get(r)?,
        granted_at: Wire::get(r)?,
        version: Wire::get(r)?,
        step_down_asked: Wire::get(r)?,
    })
}

fn put_hold(hold: Hold, now: BootTime, out: &mut Vec<u8>) {
    match hold {
        Hold::Free => out.push(1),
        Hold::Held { id, renewed_at: _ } => {
            out.push(2);
            id.put(out);
        }
        Hold::Broken { id, until } => {
            out.push(3);
            id.put(out);
            // What never ends must not end a little earlier with every restart.
            let remaining_ms =
                if until == BootTime::NEVER { u64::MAX } else { now.ms_until(until) };
            remaining_ms.put(out);
        }
    }
}

fn get_hold(r: &mut Reader<'_>) -> Result<Hold, BadBytes> {
    const EXPECTED: &str = "how a lease was left";
    let offset = r.position();
    match r.byte(EXPECTED)? {
        1 => Ok(Hold::Free),
        2 => Ok(Hold::Held { id: LeaseId::get(r)?, renewed_at: r.now() }),
        3 => {
            let id = LeaseId::get(r)?;
            let remaining_ms = u64::get(r)?;
            Ok(Hold::Broken { id, until: r.now().plus_ms(remaining_ms) })
        }
        _ => Err(BadBytes { expected: EXPECTED, offset }),
    }
}
