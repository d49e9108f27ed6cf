//! Settings of queues, and changes to them.
//!
//! What came later than the rest follows the durability, whose byte says what of it is there: the
//! settings of a queue that has none of it are written as ever.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::settings::{
    Durability, Order, OrderPatch, Overflow, QueueSettings, Rate, SettingsPatch, Status,
};

/// In the byte of the durability: an order other than the usual one follows.
const ORDER: u8 = 16;
/// In the byte of the durability, where a queue is described: more totals follow the others.
pub(super) const MORE_TOTALS: u8 = 64;

/// Appends settings; `more` is for whoever writes something behind them.
pub(super) fn put_settings(settings: &QueueSettings, more: u8, out: &mut Vec<u8>) {
    let QueueSettings {
        lock_ms,
        deliveries_max,
        ttl_ms,
        dead_letter_expired,
        duplicate_window_ms,
        sessions,
        order,
        forward_to,
        forward_dead_letters_to,
        delete_idle_ms,
        status,
        size_bytes_max,
        message_bytes_max,
        durability,
    } = settings;
    lock_ms.put(out);
    deliveries_max.put(out);
    ttl_ms.put(out);
    dead_letter_expired.put(out);
    duplicate_window_ms.put(out);
    sessions.put(out);
    forward_to.put(out);
    forward_dead_letters_to.put(out);
    delete_idle_ms.put(out);
    status.put(out);
    size_bytes_max.put(out);
    message_bytes_max.put(out);
    let at = out.len();
    durability.put(out);
    out[at] |= more;
    if *order != Order::default() {
        out[at] |= ORDER;
        order.put(out);
    }
}

/// Reads settings, and which of the bits in `more` were set.
pub(super) fn get_settings(r: &mut Reader<'_>, more: u8) -> Result<(QueueSettings, u8), BadBytes> {
    let mut settings = QueueSettings {
        lock_ms: Wire::get(r)?,
        deliveries_max: Wire::get(r)?,
        ttl_ms: Wire::get(r)?,
        dead_letter_expired: Wire::get(r)?,
        duplicate_window_ms: Wire::get(r)?,
        sessions: Wire::get(r)?,
        forward_to: Wire::get(r)?,
        forward_dead_letters_to: Wire::get(r)?,
        delete_idle_ms: Wire::get(r)?,
        status: Wire::get(r)?,
        size_bytes_max: Wire::get(r)?,
        message_bytes_max: Wire::get(r)?,
        ..QueueSettings::default()
    };
    let offset = r.position();
    let byte = r.byte(DURABILITY)?;
    settings.durability = durability(byte & !(ORDER | more), offset)?;
    if byte & ORDER != 0 {
        settings.order = get_other(r)?;
    }
    Ok((settings, byte & more))
}

/// What is only written if it is not the usual.
fn get_other<T: Wire + Default + PartialEq>(r: &mut Reader<'_>) -> Result<T, BadBytes> {
    let offset = r.position();
    let other = T::get(r)?;
    let expected = "settings that are not the usual";
    if other == T::default() { Err(BadBytes { expected, offset }) } else { Ok(other) }
}

impl Wire for QueueSettings {
    fn put(&self, out: &mut Vec<u8>) {
        put_settings(self, 0, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        get_settings(r, 0).map(|(settings, _)| settings)
    }
}

impl Wire for SettingsPatch {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            lock_ms,
            deliveries_max,
            ttl_ms,
            dead_letter_expired,
            duplicate_window_ms,
            order,
            forward_to,
            forward_dead_letters_to,
            delete_idle_ms,
            status,
            size_bytes_max,
            message_bytes_max,
            durability,
        } = self;
        lock_ms.put(out);
        deliveries_max.put(out);
        ttl_ms.put(out);
        dead_letter_expired.put(out);
        duplicate_window_ms.put(out);
        forward_to.put(out);
        forward_dead_letters_to.put(out);
        delete_idle_ms.put(out);
        status.put(out);
        size_bytes_max.put(out);
        message_bytes_max.put(out);
        let at = out.len();
        durability.put(out);
        if *order != OrderPatch::default() {
            out[at] |= ORDER;
            order.put(out);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let mut patch = Self {
            lock_ms: Wire::get(r)?,
            deliveries_max: Wire::get(r)?,
            ttl_ms: Wire::get(r)?,
            dead_letter_expired: Wire::get(r)?,
            duplicate_window_ms: Wire::get(r)?,
            forward_to: Wire::get(r)?,
            forward_dead_letters_to: Wire::get(r)?,
            delete_idle_ms: Wire::get(r)?,
            status: Wire::get(r)?,
            size_bytes_max: Wire::get(r)?,
            message_bytes_max: Wire::get(r)?,
            ..Self::default()
        };
        let offset = r.position();
        let byte = r.byte(DURABILITY)?;
        patch.durability = match byte & !ORDER {
            0 => None,
            1 => Some(Wire::get(r)?),
            _ => return Err(BadBytes { expected: DURABILITY, offset }),
        };
        if byte & ORDER != 0 {
            patch.order = get_other(r)?;
        }
        Ok(patch)
    }
}

wire_struct!(Order {
    ageing_ms,
    rate,
    key_rate,
    key_in_flight_max,
    key_weights,
    messages_max,
    overflow,
});
wire_struct!(OrderPatch {
    ageing_ms,
    rate,
    key_rate,
    key_in_flight_max,
    key_weights,
    messages_max,
    overflow,
});
wire_struct!(Rate { messages, per_ms });
wire_enum!(Overflow, "what becomes of a send", {
    1 => Refuse,
    2 => DropOldest,
    3 => SpillTo(queue),
});

wire_enum!(Status, "a status", {
    1 => Active,
    2 => SendDisabled,
    3 => ReceiveDisabled,
    4 => Disabled,
});

const DURABILITY: &str = "a durability";

impl Wire for Durability {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Flushed => 1,
            Self::Relaxed => 2,
        });
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let offset = r.position();
        durability(r.byte(DURABILITY)?, offset)
    }
}

fn durability(byte: u8, offset: usize) -> Result<Durability, BadBytes> {
    match byte {
        1 => Ok(Durability::Flushed),
        2 => Ok(Durability::Relaxed),
        _ => Err(BadBytes { expected: DURABILITY, offset }),
    }
}
