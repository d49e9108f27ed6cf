//! Queues and their settings.

use bellwether::core::name::QueueName;
use bellwether::core::outcome::QueueInfo;
use bellwether::{Durability, QueueSettings, Status};
use serde_json::{Value, json};

use super::{Fields, failures, time};

/// A queue: settings, what is in it, what has passed through it.
pub(crate) fn to_json(info: &QueueInfo) -> Value {
    let (counts, totals) = (&info.counts, &info.totals);
    json!({
        "name": info.name.as_str(),
        "created_at": time(info.created_at),
        "settings": settings(&info.settings),
        "counts": {
            "ready": counts.ready,
            "locked": counts.locked,
            "scheduled": counts.scheduled,
            "deferred": counts.deferred,
            "dead_letters": counts.dead_letters,
            "size_bytes": counts.size_bytes,
        },
        "totals": {
            "sent": totals.sent,
            "duplicates": totals.duplicates,
            "completed": totals.completed,
            "expired": totals.expired,
            "purged": totals.purged,
            "cancelled": totals.cancelled,
            "forwarded": totals.forwarded,
            "dead_lettered": totals.dead_lettered,
        },
    })
}

pub(crate) fn settings(settings: &QueueSettings) -> Value {
    let name = |queue: &Option<QueueName>| queue.as_ref().map(|name| name.as_str().to_owned());
    json!({
        "lock_ms": settings.lock_ms,
        "deliveries_max": settings.deliveries_max,
        "failures": failures::to_json(&settings.failures),
        "ttl_ms": settings.ttl_ms,
        "dead_letter_expired": settings.dead_letter_expired,
        "duplicate_window_ms": settings.duplicate_window_ms,
        "sessions": settings.sessions,
        "forward_to": name(&settings.forward_to),
        "forward_dead_letters_to": name(&settings.forward_dead_letters_to),
        "delete_idle_ms": settings.delete_idle_ms,
        "status": status_name(settings.status),
        "size_bytes_max": settings.size_bytes_max,
        "message_bytes_max": settings.message_bytes_max,
        "durability": durability_name(settings.durability),
    })
}

/// Settings back from their JSON; what is left out is as it is by default.
pub(crate) fn read_settings(json: &Value) -> Result<QueueSettings, String> {
    let fields = Fields::of(json, "settings")?;
    let usual = QueueSettings::default();
    let name = |field| fields.maybe(field, |value| QueueName::new(value.as_str()?).ok());
    let is = |field| fields.maybe(field, Value::as_bool);
    Ok(QueueSettings {
        lock_ms: fields.number("lock_ms")?.unwrap_or(usual.lock_ms),
        deliveries_max: fields.number("deliveries_max")?.unwrap_or(usual.deliveries_max),
        failures: json.get("failures").map(failures::read).transpose()?.unwrap_or(usual.failures),
        ttl_ms: fields.number("ttl_ms")?,
        dead_letter_expired: is("dead_letter_expired")?.unwrap_or(usual.dead_letter_expired),
        duplicate_window_ms: fields.number("duplicate_window_ms")?,
        sessions: is("sessions")?.unwrap_or(usual.sessions),
        forward_to: name("forward_to")?,
        forward_dead_letters_to: name("forward_dead_letters_to")?,
        delete_idle_ms: fields.number("delete_idle_ms")?,
        status: fields
            .maybe("status", |value| read_status(value.as_str()?))?
            .unwrap_or(usual.status),
        size_bytes_max: fields.number("size_bytes_max")?.unwrap_or(usual.size_bytes_max),
        message_bytes_max: fields.number("message_bytes_max")?.unwrap_or(usual.message_bytes_max),
        durability: fields
            .maybe("durability", |value| read_durability(value.as_str()?))?
            .unwrap_or(usual.durability),
    })
}

pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Active => "active",
        Status::SendDisabled => "send-disabled",
        Status::ReceiveDisabled => "receive-disabled",
        Status::Disabled => "disabled",
    }
}

fn read_status(name: &str) -> Option<Status> {
    [Status::Active, Status::SendDisabled, Status::ReceiveDisabled, Status::Disabled]
        .into_iter()
        .find(|status| status_name(*status) == name)
}

pub(crate) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Flushed => "flushed",
        Durability::Relaxed => "relaxed",
    }
}

fn read_durability(name: &str) -> Option<Durability> {
    [Durability::Flushed, Durability::Relaxed].into_iter().find(|d| durability_name(*d) == name)
}
