//! Jobs and their items, as they are written.

use super::{NINE, TEN, queue_name};
use bellwether_core::change::Change;
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::Refusal;
use bellwether_core::job::{
    Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo, JobRecord, JobSettings,
    OnFailure,
};
use bellwether_core::message::Reason;
use bellwether_core::name::{JobId, JobName, Part, QueueName, SequenceNumber};
use bellwether_core::outcome::Outcome;

fn name() -> JobName {
    JobName::new("resize").unwrap()
}

fn plain() -> JobSettings {
    JobSettings::new(queue_name())
}

fn rich() -> JobSettings {
    JobSettings {
        gather_to: Some(QueueName::new("done").unwrap()),
        on_failure: OnFailure::Fail,
        deadline_ms: Some(3_600_000),
        retention_ms: 300,
        ..plain()
    }
}

fn job(record: JobRecord) -> Change {
    Change::Job { id: JobId(3), record: Box::new(record) }
}

fn items(state: ItemState) -> Change {
    Change::Items { job: JobId(3), first: 300, count: 2, state }
}

fn failed(why: Failure) -> Change {
    items(ItemState::Failed { content: ContentId(1000), why })
}

pub(super) fn changes() -> Vec<(Change, &'static str)> {
    let record = JobRecord {
        name: name(),
        settings: plain(),
        gather: ContentId(0),
        created_at: NINE,
        items: None,
        ended: None,
        gathered: false,
    };
    let ended = |how| JobRecord {
        settings: rich(),
        gather: ContentId(1000),
        items: Some(300),
        ended: Some(Ended { how, at: TEN }),
        gathered: true,
        ..record.clone()
    };
    let gaps = JobSettings { on_failure: OnFailure::Gaps, ..plain() };
    vec![
        (job(record.clone()), "280306726573697a65064f726465727300010080b89929008095a4c6b733000000"),
        (
            job(JobRecord { settings: gaps, ..record.clone() }),
            "280306726573697a65064f726465727300030080b89929008095a4c6b733000000",
        ),
        (
            job(ended(Ending::Completed)),
            "280306726573697a65064f72646572730104646f6e65020180dddb01ac02e8078095a4c6b73301ac02010180f2ffc7b73301",
        ),
        (
            job(ended(Ending::Gaps)),
            "280306726573697a65064f72646572730104646f6e65020180dddb01ac02e8078095a4c6b73301ac02010280f2ffc7b73301",
        ),
        (
            job(ended(Ending::Failed)),
            "280306726573697a65064f72646572730104646f6e65020180dddb01ac02e8078095a4c6b73301ac02010380f2ffc7b73301",
        ),
        (
            job(ended(Ending::Cancelled)),
            "280306726573697a65064f72646572730104646f6e65020180dddb01ac02e8078095a4c6b73301ac02010480f2ffc7b73301",
        ),
        (
            job(ended(Ending::Overdue)),
            "280306726573697a65064f72646572730104646f6e65020180dddb01ac02e8078095a4c6b73301ac02010580f2ffc7b73301",
        ),
        (Change::JobGone { id: JobId(300) }, "29ac02"),
        (items(ItemState::Pending { content: ContentId(1000) }), "2a03ac020201e807"),
        (items(ItemState::Done { result: ContentId(1000) }), "2a03ac020202e807"),
        (failed(Failure::DeadLettered { reason: Reason::TtlExpired }), "2a03ac020203e8070104"),
        (failed(Failure::Expired), "2a03ac020203e80702"),
        (failed(Failure::Removed), "2a03ac020203e80703"),
        (failed(Failure::QueueGone), "2a03ac020203e80704"),
    ]
}

pub(super) fn outcomes() -> Vec<(Outcome, &'static str)> {
    let info = JobInfo {
        name: name(),
        settings: rich(),
        created_at: NINE,
        items: Some(300),
        dispatched: 200,
        next: 150,
        done: 100,
        failed: 2,
        ended: Some(Ended { how: Ending::Gaps, at: TEN }),
        gathered: true,
    };
    let done = ItemInfo {
        index: 1,
        state: ItemState::Done { result: ContentId(1000) },
        place: Place { unit: 2, offset: 4096, len: 1500 },
        message: None,
    };
    let message = ItemMessage {
        queue: queue_name(),
        part: Part::Dead,
        sequence: SequenceNumber(300),
        is_locked: true,
        deliveries: 4,
    };
    let why = Failure::DeadLettered { reason: Reason::Application };
    let failed = ItemInfo {
        index: 300,
        state: ItemState::Failed { content: ContentId(1000), why },
        place: Place::default(),
        message: Some(message),
    };
    vec![
        (Outcome::JobCreated { existed: true }, "013c01"),
        (Outcome::Dispatched { sent: 300 }, "013dac02"),
        (
            Outcome::Job(Box::new(info.clone())),
            "013e06726573697a65064f72646572730104646f6e65020180dddb01ac028095a4c6b73301ac02c80196016402010280f2ffc7b73301",
        ),
        (
            Outcome::Jobs(vec![info]),
            "013f0106726573697a65064f72646572730104646f6e65020180dddb01ac028095a4c6b73301ac02c80196016402010280f2ffc7b73301",
        ),
        (
            Outcome::Items(vec![done, failed]),
            "0140020102e807028020dc0b00ac0203e807010200000001064f726465727302ac020104",
        ),
    ]
}

pub(super) fn refusals() -> Vec<(Refusal, &'static str)> {
    vec![
        (Refusal::JobNotFound(name()), "023c06726573697a65"),
        (Refusal::JobEnded(name()), "023d06726573697a65"),
        (Refusal::JobOpen(name()), "023e06726573697a65"),
    ]
}
