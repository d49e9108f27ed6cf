//! Messages.
//!
//! Most messages are as they were sent: no expiry, never moved, never received. A shape byte says
//! what of the rest is there, and the common ones take half the bytes:
//!
//! ```text
//! sequence · content · enqueued_at · [expires_at] · [origin] · [source] · state · [counters]
//!   · [session]
//! ```

use super::wire::{Wire, wire_enum};
use super::{BadBytes, Reader};
use crate::content::Place;
use crate::message::{Lock, Message, MessageView, NewMessage, Reason, Standing, State};
use crate::name::{Incarnation, MemberSlot, QueueId, SequenceNumber, SessionId};
use crate::time::WallTime;

const EXPIRES: u8 = 1 << 0;
const MOVED: u8 = 1 << 1;
const WAS_DEAD: u8 = 1 << 2;
const TOUCHED: u8 = 1 << 3;
const IN_SESSION: u8 = 1 << 4;
const COMMON_SHAPE: u8 = EXPIRES | MOVED | WAS_DEAD | TOUCHED | IN_SESSION;

/// In a change: it is in the dead letters.
pub(super) const DEAD: u8 = 1 << 5;
/// In a change: it is counted as sent.
pub(super) const ARRIVED: u8 = 1 << 6;
const CHANGE_SHAPE: u8 = COMMON_SHAPE | DEAD | ARRIVED;

/// In a view: the place of its content is known.
const PLACED: u8 = 1 << 5;
/// In a view: the place of its overlay is known.
const OVERLAY_PLACED: u8 = 1 << 6;
const VIEW_SHAPE: u8 = COMMON_SHAPE | PLACED | OVERLAY_PLACED;

#[inline]
fn bit(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

#[inline]
pub(super) fn shape_of(
    sequence: SequenceNumber,
    message: &Message,
    session: Option<&SessionId>,
) -> u8 {
    bit(message.expires_at != WallTime::NEVER, EXPIRES)
        | bit(message.origin != sequence, MOVED)
        | bit(message.source.0 != 0, WAS_DEAD)
        | bit(message.standing != Standing::new(message.standing.state), TOUCHED)
        | bit(session.is_some(), IN_SESSION)
}

/// The shape of a message in a change, with what only changes say.
#[inline]
pub(super) fn get_change_shape(r: &mut Reader<'_>) -> Result<u8, BadBytes> {
    get_shape(r, CHANGE_SHAPE)
}

#[inline]
fn get_shape(r: &mut Reader<'_>, known: u8) -> Result<u8, BadBytes> {
    const EXPECTED: &str = "a message's shape";
    let offset = r.position();
    let shape = r.byte(EXPECTED)?;
    if shape & !known == 0 { Ok(shape) } else { Err(BadBytes { expected: EXPECTED, offset }) }
}

#[inline]
pub(super) fn put_message(
    shape: u8,
    sequence: SequenceNumber,
    message: &Message,
    session: Option<&SessionId>,
    out: &mut Vec<u8>,
) {
    sequence.put(out);
    message.content.put(out);
    message.enqueued_at.put(out);
    if shape & EXPIRES != 0 {
        message.expires_at.put(out);
    }
    if shape & MOVED != 0 {
        message.origin.put(out);
    }
    if shape & WAS_DEAD != 0 {
        message.source.put(out);
    }
    message.standing.state.put(out);
    if shape & TOUCHED != 0 {
        put_counters(&message.standing, out);
    }
    if let Some(session) = session {
        session.put(out);
    }
}

#[inline]
pub(super) fn get_message(
    shape: u8,
    r: &mut Reader<'_>,
) -> Result<(SequenceNumber, Message, Option<SessionId>), BadBytes> {
    let sequence = SequenceNumber::get(r)?;
    let content = Wire::get(r)?;
    let enqueued_at = Wire::get(r)?;
    let expires_at = if shape & EXPIRES == 0 { WallTime::NEVER } else { Wire::get(r)? };
    let origin = if shape & MOVED == 0 { sequence } else { Wire::get(r)? };
    let source = if shape & WAS_DEAD == 0 { QueueId(0) } else { Wire::get(r)? };
    let state = State::get(r)?;
    let standing =
        if shape & TOUCHED == 0 { Standing::new(state) } else { get_counters(state, r)? };
    let session = if shape & IN_SESSION == 0 { None } else { Some(Wire::get(r)?) };
    let message =
        Message { content, enqueued_at, expires_at, origin, session: 0, source, standing };
    Ok((sequence, message, session))
}

impl Wire for MessageView {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { sequence, message, session, places: [content, overlay] } = self;
        let shape = shape_of(*sequence, message, session.as_ref())
            | bit(*content != Place::default(), PLACED)
            | bit(*overlay != Place::default(), OVERLAY_PLACED);
        out.push(shape);
        put_message(shape, *sequence, message, session.as_ref(), out);
        if shape & PLACED != 0 {
            content.put(out);
        }
        if shape & OVERLAY_PLACED != 0 {
            overlay.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let shape = get_shape(r, VIEW_SHAPE)?;
        let (sequence, message, session) = get_message(shape, r)?;
        let content = if shape & PLACED == 0 { Place::default() } else { Wire::get(r)? };
        let overlay = if shape & OVERLAY_PLACED == 0 { Place::default() } else { Wire::get(r)? };
        Ok(Self { sequence, message, session, places: [content, overlay] })
    }
}

impl Wire for Standing {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.state.put(out);
        put_counters(self, out);
    }

    #[inline]
    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let state = State::get(r)?;
        get_counters(state, r)
    }
}

#[inline]
fn put_counters(standing: &Standing, out: &mut Vec<u8>) {
    let Standing {
        state: _,
        number,
        deliveries,
        failures,
        crashes,
        releases,
        reason,
        hops,
        overlay,
    } = standing;
    number.put(out);
    deliveries.put(out);
    failures.put(out);
    crashes.put(out);
    releases.put(out);
    reason.put(out);
    out.push(*hops);
    overlay.put(out);
}

#[inline]
fn get_counters(state: State, r: &mut Reader<'_>) -> Result<Standing, BadBytes> {
    Ok(Standing {
        state,
        number: Wire::get(r)?,
        deliveries: Wire::get(r)?,
        failures: Wire::get(r)?,
        crashes: Wire::get(r)?,
        releases: Wire::get(r)?,
        reason: Wire::get(r)?,
        hops: r.byte("a number of hops")?,
        overlay: Wire::get(r)?,
    })
}

wire_enum!(State, "a message's state", {
    1 => Ready,
    2 => Scheduled { due },
    3 => Delayed { due },
    4 => Locked(lock),
    5 => Deferred,
});

impl Wire for Lock {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let Self { until: _, lock_ms, member, incarnation, deferred } = self;
        lock_ms.put(out);
        member.put(out);
        incarnation.put(out);
        deferred.put(out);
    }

    #[inline]
    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let lock_ms = u32::get(r)?;
        let member = MemberSlot::get(r)?;
        let incarnation = Incarnation::get(r)?;
        let deferred = bool::get(r)?;
        let until = r.now().plus_ms(lock_ms.into());
        Ok(Self { until, lock_ms, member, incarnation, deferred })
    }
}

wire_enum!(Reason, "a reason", {
    1 => None,
    2 => Application,
    3 => MaxDeliveryCountExceeded,
    4 => TtlExpired,
    5 => MaxTransferHopCountExceeded,
    6 => ForwardTargetUnavailable,
    7 => SessionIdIsNull,
    80 => ConsumerCrashed,
});

const HAS_ID: u8 = 1 << 0;
const HAS_SESSION: u8 = 1 << 1;
const HAS_TTL: u8 = 1 << 2;
const HAS_DUE: u8 = 1 << 3;

impl Wire for NewMessage {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { content_bytes, id_hash, session, ttl_ms, due } = self;
        out.push(
            bit(*id_hash != 0, HAS_ID)
                | bit(session.is_some(), HAS_SESSION)
                | bit(ttl_ms.is_some(), HAS_TTL)
                | bit(due.is_some(), HAS_DUE),
        );
        content_bytes.put(out);
        if *id_hash != 0 {
            id_hash.put(out);
        }
        if let Some(session) = session {
            session.put(out);
        }
        if let Some(ttl_ms) = ttl_ms {
            ttl_ms.put(out);
        }
        if let Some(due) = due {
            due.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let shape = get_shape(r, HAS_ID | HAS_SESSION | HAS_TTL | HAS_DUE)?;
        Ok(Self {
            content_bytes: Wire::get(r)?,
            id_hash: if shape & HAS_ID == 0 { 0 } else { Wire::get(r)? },
            session: if shape & HAS_SESSION == 0 { None } else { Some(Wire::get(r)?) },
            ttl_ms: if shape & HAS_TTL == 0 { None } else { Some(Wire::get(r)?) },
            due: if shape & HAS_DUE == 0 { None } else { Some(Wire::get(r)?) },
        })
    }
}
