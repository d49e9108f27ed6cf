//! Jobs and their items.

use bellwether::job::{Ending, Failure, Item, ItemState, JobInfo, OnFailure};
use serde_json::{Value, json};

use super::{Object, base64, put, time};

/// A job: how it behaves, how far it is, how it ended.
pub(crate) fn to_json(info: &JobInfo) -> Value {
    let settings = &info.settings;
    json!({
        "name": info.name.as_str(),
        "queue": settings.queue.as_str(),
        "gather_to": settings.gather_to.as_ref().map(|queue| queue.as_str().to_owned()),
        "on_failure": on_failure_name(settings.on_failure),
        "deadline_ms": settings.deadline_ms,
        "retention_ms": settings.retention_ms,
        "created_at": time(info.created_at),
        "items": info.items,
        "dispatched": info.dispatched,
        "next": info.next,
        "done": info.done,
        "failed": info.failed,
        "stuck": info.is_stuck(),
        "ended": info.ended.map(|ended| ending_name(ended.how)),
        "ended_at": info.ended.map(|ended| time(ended.at)),
        "gathered": info.gathered,
    })
}

pub(crate) fn on_failure_name(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Wait => "wait",
        OnFailure::Fail => "fail",
        OnFailure::Gaps => "gaps",
    }
}

pub(crate) fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Gaps => "gaps",
        Ending::Failed => "failed",
        Ending::Cancelled => "cancelled",
        Ending::Overdue => "overdue",
    }
}

/// How a job is, in a word.
pub(crate) fn state_name(info: &JobInfo) -> &'static str {
    match info.ended {
        Some(ended) => ending_name(ended.how),
        None if info.is_stuck() => "stuck",
        None => "open",
    }
}

pub(crate) fn failure_name(why: Failure) -> &'static str {
    match why {
        Failure::DeadLettered { .. } => "dead_lettered",
        Failure::Expired => "expired",
        Failure::Removed => "removed",
        Failure::QueueGone => "queue_gone",
    }
}

/// How an item stands, in a word.
pub(crate) fn item_state(item: &Item) -> &'static str {
    match item.info.state {
        ItemState::Pending { .. } => "pending",
        ItemState::Done { .. } => "done",
        ItemState::Failed { .. } => "failed",
    }
}

/// An item: its state, its result as text or base64, where its message is.
pub(crate) fn item(item: &Item) -> Value {
    let mut object = Object::new();
    put(&mut object, "index", Some(item.info.index));
    put(&mut object, "state", Some(item_state(item)));
    if let ItemState::Failed { why, .. } = item.info.state {
        put(&mut object, "failure", Some(failure_name(why)));
    }
    match item.result.as_deref().map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        Some((Ok(text), _)) => put(&mut object, "text", Some(text)),
        Some((Err(_), bytes)) => put(&mut object, "base64", Some(base64(bytes))),
        None => {}
    }
    if let Some(message) = &item.info.message {
        let place = json!({
            "queue": message.queue.as_str(),
            "dead_letter": message.part == bellwether::core::name::Part::Dead,
            "sequence": message.sequence.0,
            "locked": message.is_locked,
            "deliveries": message.deliveries,
        });
        object.insert("message".into(), place);
    }
    Value::Object(object)
}
