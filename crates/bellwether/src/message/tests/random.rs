//! Random messages, the same ones for the same seed.

use std::collections::BTreeMap;

use bellwether_core::chance::Chance;

use crate::message::{BodyKind, Message, Overlay, Value};

fn text(chance: &mut Chance) -> String {
    (0..chance.below(12)).filter_map(|_| char::from_u32(chance.below(0x3000) as u32)).collect()
}

fn maybe<T>(chance: &mut Chance, value: impl FnOnce(&mut Chance) -> T) -> Option<T> {
    (chance.below(2) == 0).then(|| value(chance))
}

/// A number of any size, not mostly huge.
fn number(chance: &mut Chance) -> u64 {
    let shift = chance.below(64);
    chance.bits() >> shift
}

pub(super) fn bytes(chance: &mut Chance) -> Vec<u8> {
    (0..chance.below(40)).map(|_| chance.bits() as u8).collect()
}

fn value(chance: &mut Chance) -> Value {
    let n = number(chance);
    match chance.below(18) {
        0 => Value::Null,
        1 => (n & 1 == 0).into(),
        2 => (n as u8).into(),
        3 => (n as u8).cast_signed().into(),
        4 => (n as u16).into(),
        5 => (n as u16).cast_signed().into(),
        6 => (n as u32).into(),
        7 => (n as u32).cast_signed().into(),
        8 => n.into(),
        9 => (!n).cast_signed().into(),
        10 => f32::from_bits(n as u32).into(),
        11 => f64::from_bits(n).into(),
        12 => char::from_u32(n as u32).unwrap_or(char::MAX).into(),
        13 => Value::Timestamp((!n).cast_signed()),
        14 => Value::Uuid((u128::from(n) * u128::from(u64::MAX)).to_be_bytes()),
        15 => bytes(chance).into(),
        16 => text(chance).into(),
        _ => Value::Symbol(text(chance)),
    }
}

/// A message with random parts, of those that are kept in its content.
pub(super) fn message(chance: &mut Chance) -> Message {
    let properties =
        (0..chance.below(6)).map(|_| (text(chance), value(chance))).collect::<BTreeMap<_, _>>();
    Message {
        id: maybe(chance, text),
        session: None,
        priority: None,
        key: None,
        subject: maybe(chance, text),
        correlation_id: maybe(chance, text),
        to: maybe(chance, text),
        reply_to: maybe(chance, text),
        reply_to_session: maybe(chance, text),
        content_type: maybe(chance, text),
        properties,
        ttl: None,
        scheduled_at: None,
        body_kind: [BodyKind::Data, BodyKind::Value, BodyKind::Sequence][chance.below(3) as usize],
        body: bytes(chance).into(),
    }
}

pub(super) fn overlay(chance: &mut Chance) -> Overlay {
    Overlay {
        properties: (0..chance.below(6)).map(|_| (text(chance), maybe(chance, value))).collect(),
        reason: maybe(chance, text),
        description: maybe(chance, text),
    }
}
