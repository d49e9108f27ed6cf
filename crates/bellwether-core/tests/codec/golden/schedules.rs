//! Schedules, as they are written.

use super::{NINE, TEN, queue_name};
use bellwether_core::change::Change;
use bellwether_core::content::ContentId;
use bellwether_core::error::Refusal;
use bellwether_core::name::{ScheduleName, SessionId};
use bellwether_core::outcome::Outcome;
use bellwether_core::schedule::{Missed, ScheduleInfo, ScheduleRecord, ScheduleSettings};
use bellwether_core::time::WallTime;

fn name() -> ScheduleName {
    ScheduleName::new("nightly").unwrap()
}

fn daily(missed: Missed) -> ScheduleSettings {
    let (rule, zone) = ("@daily".into(), "UTC".into());
    ScheduleSettings { rule, zone, queue: queue_name(), session: None, missed }
}

fn rich() -> ScheduleSettings {
    ScheduleSettings {
        rule: "0 8 * * MON".into(),
        zone: "Europe/Berlin".into(),
        session: Some(SessionId::new("customer-4").unwrap()),
        ..daily(Missed::All { max: 300 })
    }
}

fn schedule(settings: ScheduleSettings, next: Option<WallTime>, last: Option<WallTime>) -> Change {
    let record = ScheduleRecord {
        name: name(),
        settings,
        content: ContentId(1000),
        created_at: NINE,
        next,
        last,
        sent: 300,
        skipped: 2,
    };
    Change::Schedule { record: Box::new(record) }
}

pub(super) fn changes() -> Vec<(Change, &'static str)> {
    vec![
        (
            schedule(daily(Missed::Latest), Some(TEN), None),
            "2b076e696768746c7906406461696c7903555443064f72646572730001e8078095a4c6b7330180f2ffc7b73300ac0202",
        ),
        (
            schedule(rich(), Some(TEN), Some(NINE)),
            "2b076e696768746c790b302038202a202a204d4f4e0d4575726f70652f4265726c696e064f7264657273010a637573746f6d65722d3402ac02e8078095a4c6b7330180f2ffc7b733018095a4c6b733ac0202",
        ),
        (
            schedule(daily(Missed::Skip), None, Some(NINE)),
            "2b076e696768746c7906406461696c7903555443064f72646572730003e8078095a4c6b73300018095a4c6b733ac0202",
        ),
        (Change::ScheduleGone { name: name() }, "2c076e696768746c79"),
    ]
}

pub(super) fn outcomes() -> Vec<(Outcome, &'static str)> {
    let info = ScheduleInfo {
        name: name(),
        settings: rich(),
        created_at: NINE,
        next: Some(TEN),
        last: Some(NINE),
        sent: 300,
        skipped: 2,
    };
    vec![
        (Outcome::ScheduleCreated { existed: true }, "014101"),
        (
            Outcome::Schedules(vec![info]),
            "014201076e696768746c790b302038202a202a204d4f4e0d4575726f70652f4265726c696e064f7264657273010a637573746f6d65722d3402ac028095a4c6b7330180f2ffc7b733018095a4c6b733ac0202",
        ),
    ]
}

pub(super) fn refusals() -> Vec<(Refusal, &'static str)> {
    vec![(Refusal::ScheduleNotFound(name()), "023f076e696768746c79")]
}
