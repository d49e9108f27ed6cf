//! Settings of queues, and changes to them.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::settings::{
    Backoff, Durability, Failures, FailuresPatch, OutagePolicy, QueueSettings, SettingsPatch,
    Status,
};

/// Set in the byte of the durability, the last one, where what a queue does about failures follows
/// behind it. So settings that leave it as it is by default are written as ever.
const FAILURES: u8 = 32;

impl Wire for QueueSettings {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            lock_ms,
            deliveries_max,
            failures,
            ttl_ms,
            dead_letter_expired,
            duplicate_window_ms,
            sessions,
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
        sessions.put(out);
        forward_to.put(out);
        forward_dead_letters_to.put(out);
        delete_idle_ms.put(out);
        status.put(out);
        size_bytes_max.put(out);
        message_bytes_max.put(out);
        let at = out.len();
        durability.put(out);
        put_unusual(failures, at, FAILURES, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "a durability";
        let mut settings = Self {
            lock_ms: Wire::get(r)?,
            deliveries_max: Wire::get(r)?,
            failures: Failures::default(),
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
            durability: Durability::Flushed,
        };
        let offset = r.position();
        let byte = r.byte(EXPECTED)?;
        settings.durability = match byte & !FAILURES {
            1 => Durability::Flushed,
            2 => Durability::Relaxed,
            _ => return Err(BadBytes { expected: EXPECTED, offset }),
        };
        settings.failures = get_unusual(byte, FAILURES, r)?;
        Ok(settings)
    }
}

impl Wire for SettingsPatch {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            lock_ms,
            deliveries_max,
            failures,
            ttl_ms,
            dead_letter_expired,
            duplicate_window_ms,
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
        put_unusual(failures, at, FAILURES, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        const EXPECTED: &str = "yes or no";
        let mut patch = Self {
            lock_ms: Wire::get(r)?,
            deliveries_max: Wire::get(r)?,
            failures: FailuresPatch::default(),
            ttl_ms: Wire::get(r)?,
            dead_letter_expired: Wire::get(r)?,
            duplicate_window_ms: Wire::get(r)?,
            forward_to: Wire::get(r)?,
            forward_dead_letters_to: Wire::get(r)?,
            delete_idle_ms: Wire::get(r)?,
            status: Wire::get(r)?,
            size_bytes_max: Wire::get(r)?,
            message_bytes_max: Wire::get(r)?,
            durability: None,
        };
        let offset = r.position();
        let byte = r.byte(EXPECTED)?;
        patch.durability = match byte & !FAILURES {
            0 => None,
            1 => Some(Wire::get(r)?),
            _ => return Err(BadBytes { expected: EXPECTED, offset }),
        };
        patch.failures = get_unusual(byte, FAILURES, r)?;
        Ok(patch)
    }
}

/// Appends what is not as it usually is, and says so in the byte at `at`.
fn put_unusual<T: Wire + Default + PartialEq>(value: &T, at: usize, bit: u8, out: &mut Vec<u8>) {
    if *value != T::default() {
        out[at] |= bit;
        value.put(out);
    }
}

/// Reads it back, if the byte says that it is there. What is as usual is not written.
fn get_unusual<T: Wire + Default + PartialEq>(
    byte: u8,
    bit: u8,
    r: &mut Reader<'_>,
) -> Result<T, BadBytes> {
    if byte & bit == 0 {
        return Ok(T::default());
    }
    let offset = r.position();
    let value = T::get(r)?;
    if value == T::default() {
        return Err(BadBytes { expected: "settings that are not as usual", offset });
    }
    Ok(value)
}

wire_struct!(Failures { retry, crashes_max, outage });
wire_struct!(Backoff { first_ms, max_ms, jitter_percent });
wire_struct!(OutagePolicy { failures, pause_ms_min, pause_ms_max });
wire_struct!(FailuresPatch { retry, crashes_max, outage });

wire_enum!(Status, "a status", {
    1 => Active,
    2 => SendDisabled,
    3 => ReceiveDisabled,
    4 => Disabled,
});

wire_enum!(Durability, "a durability", { 1 => Flushed, 2 => Relaxed });
