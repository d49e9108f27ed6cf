//! A message with its past, as a line of an export.

use bellwether::Exported;
use bellwether::core::command::Resting;
use bellwether::core::message::Reason;
use serde_json::{Value, json};

use super::message::{put_message, read_message};
use super::{Fields, Object, put, read_time, time};

/// What goes into a line of an export: everything that an import needs.
pub(crate) fn to_json(queue: &str, dead_letter: bool, number: u64, exported: &Exported) -> Value {
    let mut object = Object::new();
    put(&mut object, "queue", Some(queue));
    put(&mut object, "sequence", Some(number));
    put(&mut object, "enqueued_at", Some(time(exported.enqueued_at)));
    put(&mut object, "expires_at", exported.expires_at.map(time));
    let (state, due) = match exported.state {
        Resting::Ready => ("ready", None),
        Resting::Scheduled { due } => ("scheduled", Some(due)),
        Resting::Delayed { due } => ("delayed", Some(due)),
        Resting::Deferred => ("deferred", None),
    };
    put(&mut object, "state", Some(state));
    put(&mut object, "due", due.map(time));
    put(&mut object, "deliveries", Some(exported.deliveries));
    put(&mut object, "failures", Some(exported.failures));
    put(&mut object, "crashes", Some(exported.crashes));
    put(&mut object, "releases", Some(exported.releases));
    if dead_letter {
        put(&mut object, "dead_letter", Some(true));
    }
    if exported.reason != Reason::None {
        let (word, sentence) = &exported.said;
        let cause = reason_name(exported.reason);
        object.insert(
            "reason".into(),
            json!({ "cause": cause, "reason": word, "description": sentence }),
        );
    }
    put_message(&mut object, &exported.message);
    json!({ "message": object })
}

/// A line of an export, read: the queue, whether it is a dead letter, and the message.
pub(crate) fn read(fields: &Fields<'_>) -> Result<(String, bool, Exported), String> {
    let queue = fields.must("queue", |value| value.as_str().map(str::to_owned))?;
    let due = || fields.must("due", read_time);
    let state = match fields.must("state", Value::as_str)? {
        "ready" => Resting::Ready,
        "scheduled" => Resting::Scheduled { due: due()? },
        "delayed" => Resting::Delayed { due: due()? },
        "deferred" => Resting::Deferred,
        other => return Err(format!("the state {other:?} is not known")),
    };
    let (reason, said) = match fields.get("reason") {
        None => (Reason::None, (None, None)),
        Some(told) => {
            let told = Fields::of(told, "the reason")?;
            let reason = told.must("cause", |cause| read_reason(cause.as_str()?))?;
            (reason, (told.text("reason")?, told.text("description")?))
        }
    };
    let exported = Exported {
        message: read_message(fields)?,
        enqueued_at: fields.must("enqueued_at", read_time)?,
        expires_at: fields.maybe("expires_at", read_time)?,
        state,
        deliveries: fields.number("deliveries")?.unwrap_or(0),
        failures: fields.number("failures")?.unwrap_or(0),
        crashes: fields.number("crashes")?.unwrap_or(0),
        releases: fields.number("releases")?.unwrap_or(0),
        reason,
        said,
    };
    let dead_letter = fields.maybe("dead_letter", Value::as_bool)?.unwrap_or(false);
    Ok((queue, dead_letter, exported))
}

const REASONS: [(Reason, &str); 7] = [
    (Reason::Application, "receiver"),
    (Reason::MaxDeliveryCountExceeded, "deliveries"),
    (Reason::ConsumerCrashed, "crashes"),
    (Reason::TtlExpired, "expired"),
    (Reason::MaxTransferHopCountExceeded, "hops"),
    (Reason::ForwardTargetUnavailable, "target"),
    (Reason::SessionIdIsNull, "no-session"),
];

fn reason_name(reason: Reason) -> Option<&'static str> {
    REASONS.iter().find(|(known, _)| *known == reason).map(|(_, name)| *name)
}

fn read_reason(name: &str) -> Option<Reason> {
    REASONS.iter().find(|(_, known)| *known == name).map(|(reason, _)| *reason)
}
