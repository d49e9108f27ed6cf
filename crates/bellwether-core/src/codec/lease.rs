//! Leases: as the journal keeps them, and as they are shown.

use super::wire::Wire;
use super::{BadBytes, Reader};
use crate::lease::{Hold, Lease};
use crate::name::{LeaseId, MemberSlot};
use crate::outcome::LeaseInfo;
use crate::time::BootTime;

pub(super) fn put_lease(lease: &Lease, now: BootTime, out: &mut Vec<u8>) {
    let Lease {
        term,
        hold,
        kind,
        ttl_ms,
        member,
        metadata,
        granted_at,
        version,
        step_down_asked,
        successor,
        paused,
    } = lease;
    term.put(out);
    put_hold(*hold, now, out);
    kind.put(out);
    ttl_ms.put(out);
    member.put(out);
    metadata.put(out);
    granted_at.put(out);
    version.put(out);
    let successor = Some(*successor).filter(|slot| slot.0 != 0);
    Steering { step_down_asked: *step_down_asked, paused: *paused, successor }.put(out);
}

pub(super) fn get_lease(r: &mut Reader<'_>) -> Result<Lease, BadBytes> {
    let mut lease = Lease {
        term: Wire::get(r)?,
        hold: get_hold(r)?,
        kind: Wire::get(r)?,
        ttl_ms: Wire::get(r)?,
        member: Wire::get(r)?,
        metadata: Wire::get(r)?,
        granted_at: Wire::get(r)?,
        version: Wire::get(r)?,
        step_down_asked: false,
        successor: MemberSlot(0),
        paused: false,
    };
    let steering: Steering<MemberSlot> = Steering::get(r)?;
    (lease.step_down_asked, lease.paused) = (steering.step_down_asked, steering.paused);
    lease.successor = steering.successor.unwrap_or(MemberSlot(0));
    Ok(lease)
}

impl Wire for LeaseInfo {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            name,
            kind,
            state,
            term,
            id,
            holder,
            metadata,
            ttl_ms,
            remaining_ms,
            granted_at,
            version,
            step_down_asked,
            paused,
            successor,
            waiting,
        } = self;
        name.put(out);
        kind.put(out);
        state.put(out);
        term.put(out);
        id.put(out);
        holder.put(out);
        metadata.put(out);
        ttl_ms.put(out);
        remaining_ms.put(out);
        granted_at.put(out);
        version.put(out);
        let (step_down_asked, paused, successor) = (*step_down_asked, *paused, *successor);
        Steering { step_down_asked, paused, successor }.put(out);
        waiting.put(out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let mut info = Self {
            name: Wire::get(r)?,
            kind: Wire::get(r)?,
            state: Wire::get(r)?,
            term: Wire::get(r)?,
            id: Wire::get(r)?,
            holder: Wire::get(r)?,
            metadata: Wire::get(r)?,
            ttl_ms: Wire::get(r)?,
            remaining_ms: Wire::get(r)?,
            granted_at: Wire::get(r)?,
            version: Wire::get(r)?,
            step_down_asked: false,
            paused: false,
            successor: None,
            waiting: Vec::new(),
        };
        let steering = Steering::get(r)?;
        (info.step_down_asked, info.paused) = (steering.step_down_asked, steering.paused);
        info.successor = steering.successor;
        info.waiting = Wire::get(r)?;
        Ok(info)
    }
}

/// What operators asked of a lease, in one byte of flags where once a plain yes or no stood: whether
/// somebody asked the holder to step down. So what nobody steers is written as ever.
struct Steering<T> {
    step_down_asked: bool,
    paused: bool,
    successor: Option<T>,
}

const ASKED: u8 = 1;
const PAUSED: u8 = 2;
const SUCCESSOR: u8 = 4;

impl<T: Wire> Wire for Steering<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.step_down_asked, ASKED)
                | flag(self.paused, PAUSED)
                | flag(self.successor.is_some(), SUCCESSOR),
        );
        if let Some(successor) = &self.successor {
            successor.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "what was asked of a lease";
        let offset = r.position();
        let flags = r.byte(EXPECTED)?;
        if flags > ASKED | PAUSED | SUCCESSOR {
            return Err(BadBytes { expected: EXPECTED, offset });
        }
        let successor = (flags & SUCCESSOR != 0).then(|| T::get(r)).transpose()?;
        Ok(Self { step_down_asked: flags & ASKED != 0, paused: flags & PAUSED != 0, successor })
    }
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
