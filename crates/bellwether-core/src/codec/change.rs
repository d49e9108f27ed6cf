//! Changes: what the journal keeps.

use super::lease::{get_lease, get_slot, put_lease};
use super::message::{ARRIVED, DEAD, get_change_shape, get_message, put_message, shape_of};
use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::change::{Change, Departure, Hold, KeptOutcome};
use crate::name::{At, Part, QueueId};
use crate::time::BootTime;

/// One byte each; none is ever given a second meaning.
mod tag {
    pub(super) const OPENED: u8 = 1;
    pub(super) const QUEUE: u8 = 2;
    pub(super) const QUEUE_GONE: u8 = 3;
    pub(super) const QUEUE_TOTALS: u8 = 4;
    pub(super) const CONTENT: u8 = 5;
    pub(super) const CONTENT_AT: u8 = 6;
    pub(super) const MESSAGE: u8 = 7;
    pub(super) const STANDING: u8 = 8;
    pub(super) const GONE: u8 = 9;
    pub(super) const DUPLICATE: u8 = 10;
    pub(super) const SEEN: u8 = 11;
    pub(super) const SESSION: u8 = 12;
    pub(super) const MEMBER: u8 = 13;
    pub(super) const MEMBER_GONE: u8 = 14;
    pub(super) const KEPT: u8 = 15;
    pub(super) const LEASE: u8 = 16;
    pub(super) const TERMS_FROM: u8 = 17;
    pub(super) const TERM_ENDED: u8 = 20;
    /// A slot of a lease but its first, which is written as leases with one slot are.
    pub(super) const LEASE_SLOT: u8 = 30;
    pub(super) const JOB: u8 = 40;
    pub(super) const JOB_GONE: u8 = 41;
    pub(super) const ITEMS: u8 = 42;
    pub(super) const SCHEDULE: u8 = 43;
    pub(super) const SCHEDULE_GONE: u8 = 44;
}

macro_rules! put {
    ($out:ident, $tag:expr $(, $field:expr)+) => {{
        $out.push($tag);
        $($field.put($out);)+
    }};
}

/// Appends a change as it stands at `now`. After a [`Change::Content`] the caller appends the
/// content's checksum and bytes.
pub fn encode_change(change: &Change, now: BootTime, out: &mut Vec<u8>) {
    match change {
        Change::Opened { incarnation } => put!(out, tag::OPENED, incarnation),
        Change::Queue { id, name, settings, created_at } => {
            put!(out, tag::QUEUE, id, name, settings, created_at);
        }
        Change::QueueGone { id } => put!(out, tag::QUEUE_GONE, id),
        Change::QueueTotals { id, as_of, next, totals } => {
            put!(out, tag::QUEUE_TOTALS, id, as_of, next, totals);
        }
        Change::Content { id, index: _, len } => put!(out, tag::CONTENT, id, len),
        Change::ContentAt { id, place } => put!(out, tag::CONTENT_AT, id, place),
        Change::Message { at, message, session, arrived } => {
            let shape = shape_of(at.sequence, message, session.as_ref())
                | if at.part == Part::Dead { DEAD } else { 0 }
                | if *arrived { ARRIVED } else { 0 };
            out.extend_from_slice(&[tag::MESSAGE, shape]);
            at.queue.put(out);
            put_message(shape, at.sequence, message, session.as_ref(), out);
        }
        Change::Standing { at, standing } => put!(out, tag::STANDING, at, standing),
        Change::Gone { at, why } => put!(out, tag::GONE, at, why),
        Change::Duplicate { queue } => put!(out, tag::DUPLICATE, queue),
        Change::Seen { queue, id_hash, at } => put!(out, tag::SEEN, queue, id_hash, at),
        Change::Session { queue, session, number, hold, state } => {
            put!(out, tag::SESSION, queue, session, number, hold, state);
        }
        Change::Member { slot, id, metadata, ttl_ms, joined_at } => {
            put!(out, tag::MEMBER, slot, id, metadata, ttl_ms, joined_at);
        }
        Change::MemberGone { slot, forgotten } => put!(out, tag::MEMBER_GONE, slot, forgotten),
        Change::Kept { member, number, answered_below, outcome } => {
            put!(out, tag::KEPT, member, number, answered_below, outcome);
        }
        Change::Lease { name, slot: 0, lease } => {
            put!(out, tag::LEASE, name);
            put_lease(lease, now, out);
        }
        Change::Lease { name, slot, lease } => {
            put!(out, tag::LEASE_SLOT, name, slot);
            put_lease(lease, now, out);
        }
        Change::Job { id, record } => put!(out, tag::JOB, id, record),
        Change::JobGone { id } => put!(out, tag::JOB_GONE, id),
        Change::Items { job, first, count, state } => {
            put!(out, tag::ITEMS, job, first, count, state);
        }
        Change::Schedule { record } => put!(out, tag::SCHEDULE, record),
        Change::ScheduleGone { name } => put!(out, tag::SCHEDULE_GONE, name),
        Change::TermsFrom { term } => put!(out, tag::TERMS_FROM, term),
        Change::TermEnded { name, term, at, by } => {
            put!(out, tag::TERM_ENDED, name, term, at, by);
        }
    }
}

/// Reads a change. Locks and holds in it begin anew at `now`. After a [`Change::Content`] the
/// reader stands before the content's checksum and bytes.
pub fn decode_change(reader: &mut Reader<'_>, now: BootTime) -> Result<Change, BadBytes> {
    const EXPECTED: &str = "a change";
    reader.at_time(now);
    let offset = reader.position();
    let r = reader;
    Ok(match r.byte(EXPECTED)? {
        tag::OPENED => Change::Opened { incarnation: Wire::get(r)? },
        tag::QUEUE => Change::Queue {
            id: Wire::get(r)?,
            name: Wire::get(r)?,
            settings: Wire::get(r)?,
            created_at: Wire::get(r)?,
        },
        tag::QUEUE_GONE => Change::QueueGone { id: Wire::get(r)? },
        tag::QUEUE_TOTALS => Change::QueueTotals {
            id: Wire::get(r)?,
            as_of: Wire::get(r)?,
            next: Wire::get(r)?,
            totals: Wire::get(r)?,
        },
        tag::CONTENT => Change::Content { id: Wire::get(r)?, index: 0, len: Wire::get(r)? },
        tag::CONTENT_AT => Change::ContentAt { id: Wire::get(r)?, place: Wire::get(r)? },
        tag::MESSAGE => get_message_change(r)?,
        tag::STANDING => Change::Standing { at: Wire::get(r)?, standing: Wire::get(r)? },
        tag::GONE => Change::Gone { at: Wire::get(r)?, why: Wire::get(r)? },
        tag::DUPLICATE => Change::Duplicate { queue: Wire::get(r)? },
        tag::SEEN => {
            Change::Seen { queue: Wire::get(r)?, id_hash: Wire::get(r)?, at: Wire::get(r)? }
        }
        tag::SESSION => Change::Session {
            queue: Wire::get(r)?,
            session: Wire::get(r)?,
            number: Wire::get(r)?,
            hold: Wire::get(r)?,
            state: Wire::get(r)?,
        },
        tag::MEMBER => Change::Member {
            slot: Wire::get(r)?,
            id: Wire::get(r)?,
            metadata: Wire::get(r)?,
            ttl_ms: Wire::get(r)?,
            joined_at: Wire::get(r)?,
        },
        tag::MEMBER_GONE => Change::MemberGone { slot: Wire::get(r)?, forgotten: Wire::get(r)? },
        tag::KEPT => Change::Kept {
            member: Wire::get(r)?,
            number: Wire::get(r)?,
            answered_below: Wire::get(r)?,
            outcome: Wire::get(r)?,
        },
        tag::LEASE => {
            Change::Lease { name: Wire::get(r)?, slot: 0, lease: Box::new(get_lease(r)?) }
        }
        tag::LEASE_SLOT => Change::Lease {
            name: Wire::get(r)?,
            slot: get_slot(r)?,
            lease: Box::new(get_lease(r)?),
        },
        tag::JOB => Change::Job { id: Wire::get(r)?, record: Wire::get(r)? },
        tag::JOB_GONE => Change::JobGone { id: Wire::get(r)? },
        tag::ITEMS => Change::Items {
            job: Wire::get(r)?,
            first: Wire::get(r)?,
            count: Wire::get(r)?,
            state: Wire::get(r)?,
        },
        tag::SCHEDULE => Change::Schedule { record: Wire::get(r)? },
        tag::SCHEDULE_GONE => Change::ScheduleGone { name: Wire::get(r)? },
        tag::TERMS_FROM => Change::TermsFrom { term: Wire::get(r)? },
        tag::TERM_ENDED => Change::TermEnded {
            name: Wire::get(r)?,
            term: Wire::get(r)?,
            at: Wire::get(r)?,
            by: Wire::get(r)?,
        },
        _ => return Err(BadBytes { expected: EXPECTED, offset }),
    })
}

#[inline]
fn get_message_change(r: &mut Reader<'_>) -> Result<Change, BadBytes> {
    let shape = get_change_shape(r)?;
    let queue = QueueId::get(r)?;
    let part = if shape & DEAD == 0 { Part::Main } else { Part::Dead };
    let (sequence, message, session) = get_message(shape, r)?;
    let at = At { queue, part, sequence };
    Ok(Change::Message { at, message, session, arrived: shape & ARRIVED != 0 })
}

wire_struct!(Hold { member, lock_ms, incarnation });

wire_enum!(Departure, "a departure", {
    1 => Completed,
    2 => Expired,
    3 => Purged,
    4 => Cancelled,
    5 => Forwarded,
    6 => DeadLettered,
    7 => Moved,
});

wire_enum!(KeptOutcome, "a kept outcome", {
    1 => Plain(outcome),
    2 => Deliveries { queue, part, tokens },
});
