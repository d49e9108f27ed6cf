//! Leases: as the journal keeps them, and as they are shown.

use super::wire::{Wire, wire_struct};
use super::{BadBytes, Reader};
use crate::lease::{Hold, Lease};
use crate::name::{LeaseId, MemberSlot};
use crate::outcome::{HolderInfo, LeaseInfo};
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
        slots,
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
    let (step_down_asked, paused, slots) = (*step_down_asked, *paused, *slots);
    Steering { step_down_asked, paused, successor, slots }.put(out);
}

/// Which slot of a lease, but for the first.
pub(super) fn get_slot(r: &mut Reader<'_>) -> Result<u32, BadBytes> {
    let offset = r.position();
    let slot = u32::get(r)?;
    if slot == 0 { Err(BadBytes { expected: "a slot of a lease", offset }) } else { Ok(slot) }
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
        slots: 1,
    };
    let steering: Steering<MemberSlot> = Steering::get(r)?;
    lease.slots = steering.slots;
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
            slots,
            others,
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
        Steering { step_down_asked, paused, successor, slots: *slots }.put(out);
        waiting.put(out);
        // One slot has one holder.
        if *slots != 1 {
            others.put(out);
        }
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
            slots: 1,
            others: Vec::new(),
        };
        let steering = Steering::get(r)?;
        (info.step_down_asked, info.paused) = (steering.step_down_asked, steering.paused);
        info.successor = steering.successor;
        info.slots = steering.slots;
        info.waiting = Wire::get(r)?;
        if info.slots != 1 {
            info.others = Wire::get(r)?;
        }
        Ok(info)
    }
}

wire_struct!(HolderInfo {
    term,
    state,
    id,
    holder,
    metadata,
    remaining_ms,
    granted_at,
    step_down_asked,
});

/// What operators asked of a lease, in one byte of flags where once a plain yes or no stood: whether
/// somebody asked the holder to step down. So what nobody steers is written as ever, and so is what
/// has one slot.
struct Steering<T> {
    step_down_asked: bool,
    paused: bool,
    successor: Option<T>,
    slots: u32,
}

const ASKED: u8 = 1;
const PAUSED: u8 = 2;
const SUCCESSOR: u8 = 4;
const SLOTS: u8 = 8;

impl<T: Wire> Wire for Steering<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.step_down_asked, ASKED)
                | flag(self.paused, PAUSED)
                | flag(self.successor.is_some(), SUCCESSOR)
                | flag(self.slots != 1, SLOTS),
        );
        if let Some(successor) = &self.successor {
            successor.put(out);
        }
        if self.slots != 1 {
            self.slots.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "what was asked of a lease";
        let offset = r.position();
        let flags = r.byte(EXPECTED)?;
        if flags > ASKED | PAUSED | SUCCESSOR | SLOTS {
            return Err(BadBytes { expected: EXPECTED, offset });
        }
        let successor = (flags & SUCCESSOR != 0).then(|| T::get(r)).transpose()?;
        let slots = if flags & SLOTS == 0 { 1 } else { get_slots(r)? };
        let (step_down_asked, paused) = (flags & ASKED != 0, flags & PAUSED != 0);
        Ok(Self { step_down_asked, paused, successor, slots })
    }
}

/// How many slots, where they are not one: that is not written.
pub(super) fn get_slots(r: &mut Reader<'_>) -> Result<u32, BadBytes> {
    let offset = r.position();
    let slots = u32::get(r)?;
    if slots == 1 { Err(BadBytes { expected: "a number of slots", offset }) } else { Ok(slots) }
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
