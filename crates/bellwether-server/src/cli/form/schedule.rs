//! Schedules.

use bellwether::schedule::{Missed, ScheduleInfo};
use serde_json::{Value, json};

use super::time;

/// A schedule: when it is due, and what became of its slots.
pub(crate) fn to_json(info: &ScheduleInfo) -> Value {
    let settings = &info.settings;
    json!({
        "name": info.name.as_str(),
        "rule": settings.rule,
        "zone": settings.zone,
        "queue": settings.queue.as_str(),
        "session": settings.session.as_ref().map(|session| session.as_str().to_owned()),
        "missed": missed_name(settings.missed),
        "paused": info.next.is_none(),
        "created_at": time(info.created_at),
        "next_at": info.next.map(time),
        "last_at": info.last.map(time),
        "sent": info.sent,
        "skipped": info.skipped,
    })
}

pub(crate) fn missed_name(missed: Missed) -> String {
    match missed {
        Missed::Latest => "latest".into(),
        Missed::All { max } => format!("all:{max}"),
        Missed::Skip => "skip".into(),
    }
}
