//! One job: work fanned out as messages and gathered again.
//!
//! ```text
//!   create ─► open ── dispatch items ──► each item: pending ── complete ──► done (and its result)
//!              │                                      │ ▲
//!              │                       dead-lettered, │ │ redriven
//!              │                   expired or removed ▼ │
//!              │                                     failed
//!              └── all items done, or failed as the job allows ──► ended ──► one gather message
//! ```
//!
//! 1. An item is a message in the job's queue. Its name is the job and its index, so to dispatch it
//!    again is harmless: what is known already is not sent a second time.
//! 2. An item changes in the step that changes its message: what a receiver was told is done is done
//!    for the job as well.
//! 3. A job ends once, and the gather message is sent in the step that ends it.
//! 4. Nobody needs to be there for any of this: the job is kept where its messages are.

mod items;

use std::collections::BTreeMap;

use crate::content::{ContentId, Place};
use crate::error::Refusal;
use crate::limits;
use crate::message::Reason;
use crate::name::{
    JobId, JobName, MemberSlot, Part, QueueName, RequestNumber, SequenceNumber, Ticket,
};
use crate::time::{BootTime, WallTime};

pub(crate) use items::{Items, runs};

/// How a job behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSettings {
    /// Where its items are sent.
    pub queue: QueueName,
    /// Where one message is sent when it has ended, in the session named as the job.
    pub gather_to: Option<QueueName>,
    /// What a failed item means for it.
    pub on_failure: OnFailure,
    /// It ends so long after its creation, whatever is missing.
    pub deadline_ms: Option<u64>,
    /// It is forgotten so long after its end.
    pub retention_ms: u64,
}

impl JobSettings {
    /// A job over this queue, with nothing said.
    pub fn new(queue: QueueName) -> Self {
        Self {
            queue,
            gather_to: None,
            on_failure: OnFailure::Wait,
            deadline_ms: None,
            retention_ms: limits::JOB_RETENTION_MS_DEFAULT,
        }
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.deadline_ms == Some(0) {
            let why = "0 ends the job before anything is done; the least is 1, or leave it out";
            return Err(Refusal::InvalidValue { what: "deadline_ms", why: why.into() });
        }
        if self.retention_ms > limits::JOB_RETENTION_MS_MAX {
            let why = format!("a job is kept for at most {} ms", limits::JOB_RETENTION_MS_MAX);
            return Err(Refusal::InvalidValue { what: "retention_ms", why });
        }
        Ok(())
    }
}

/// What a failed item means for its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The job waits until somebody sends the item again, accepts the gap, or cancels the job.
    Wait,
    /// The job has failed, at once.
    Fail,
    /// The job goes on and ends with gaps.
    Gaps,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every item is done.
    Completed,
    /// Every item is done or has failed.
    Gaps,
    /// An item failed, and the job with it.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its deadline passed.
    Overdue,
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub how: Ending,
    /// When.
    pub at: WallTime,
}

/// What is asked about a job's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndJob {
    /// It ends now; items nobody has locked are taken out of their queue.
    Cancel,
    /// From now on failed items are gaps.
    AcceptGaps,
    /// It is forgotten, with its results, as if its retention were over. Only of one that has ended.
    Forget,
}

/// How a job stands, but for its items: what the journal keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Its name.
    pub name: JobName,
    /// How it behaves.
    pub settings: JobSettings,
    /// The gather message, as it will be sent; zero is none.
    pub gather: ContentId,
    /// Since when it is there.
    pub created_at: WallTime,
    /// How many items it has; `None` while more may come.
    pub items: Option<u32>,
    /// Its end.
    pub ended: Option<Ended>,
    /// The gather message was sent.
    pub gathered: bool,
}

/// How an item stands. A run of items has contents that grow by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemState {
    /// Its message was sent, and has this content.
    Pending {
        /// By it the message is known wherever it moves.
        content: ContentId,
    },
    /// Its work is done.
    Done {
        /// What came of it; zero if nothing was said.
        result: ContentId,
    },
    /// It will not be done unless somebody sends it again.
    Failed {
        /// The content of its dead letter; zero if there is none.
        content: ContentId,
        /// What became of its message.
        why: Failure,
    },
}

impl ItemState {
    /// The state of the item `nth` after the first of a run.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        let later =
            |id: ContentId| ContentId(if id.0 == 0 { 0 } else { id.0.wrapping_add(nth.into()) });
        match self {
            Self::Pending { content } => Self::Pending { content: later(content) },
            Self::Done { result } => Self::Done { result: later(result) },
            Self::Failed { content, why } => Self::Failed { content: later(content), why },
        }
    }
}

/// What became of a failed item's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is a dead letter, or was.
    DeadLettered {
        /// Why.
        reason: Reason,
    },
    /// It expired.
    Expired,
    /// Somebody removed it.
    Removed,
    /// Its queue was deleted.
    QueueGone,
}

/// One job, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its name.
    pub name: JobName,
    /// How it behaves.
    pub settings: JobSettings,
    /// Since when it is there.
    pub created_at: WallTime,
    /// How many items it has; `None` while more may come.
    pub items: Option<u32>,
    /// Items that were sent, whatever became of them.
    pub dispatched: u32,
    /// The first index that was never sent: where a dispatch goes on.
    pub next: u32,
    /// Items that are done.
    pub done: u32,
    /// Items that have failed.
    pub failed: u32,
    /// Its end.
    pub ended: Option<Ended>,
    /// The gather message was sent.
    pub gathered: bool,
}

impl JobInfo {
    /// Whether it waits for somebody to decide about its failed items.
    pub fn is_stuck(&self) -> bool {
        self.ended.is_none() && self.failed > 0 && self.items == Some(self.done + self.failed)
    }
}

/// One item, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemInfo {
    /// Its index.
    pub index: u32,
    /// How it stands; the content of a result travels beside the outcome.
    pub state: ItemState,
    /// Where its result lies.
    pub place: Place,
    /// Its message or dead letter, while there is one.
    pub message: Option<ItemMessage>,
}

/// Where an item's message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemMessage {
    /// In which queue.
    pub queue: QueueName,
    /// In which half of it.
    pub part: Part,
    /// Under which number.
    pub sequence: SequenceNumber,
    /// Somebody works on it.
    pub is_locked: bool,
    /// Deliveries that ended and count.
    pub deliveries: u32,
}

/// Which items are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that were sent.
    All,
    /// Those whose message waits or is worked on.
    Pending,
    /// Those that are done.
    Done,
    /// Those that have failed.
    Failed,
}

/// One job as the ledger keeps it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) record: JobRecord,
    pub(crate) items: Items,
    /// Who waits for its end. Never journaled.
    pub(crate) waits: BTreeMap<Ticket, (MemberSlot, RequestNumber, BootTime)>,
}

impl Job {
    pub(crate) fn new(id: JobId, record: JobRecord) -> Self {
        Self { id, record, items: Items::default(), waits: BTreeMap::new() }
    }

    /// How it ends as it stands now; `None` if it goes on.
    pub(crate) fn verdict(&self) -> Option<Ending> {
        if self.record.ended.is_some() {
            return None;
        }
        let (done, failed) = (self.items.done(), self.items.failed());
        let is_settled = self.record.items == Some(done + failed);
        match self.record.settings.on_failure {
            OnFailure::Fail if failed > 0 => Some(Ending::Failed),
            _ if is_settled && failed == 0 => Some(Ending::Completed),
            OnFailure::Gaps if is_settled => Some(Ending::Gaps),
            _ => None,
        }
    }

    /// When time does something to it next.
    pub(crate) fn due(&self) -> Option<WallTime> {
        let settings = &self.record.settings;
        match self.record.ended {
            Some(ended) => Some(ended.at.plus_ms(settings.retention_ms)),
            None => settings.deadline_ms.map(|ms| self.record.created_at.plus_ms(ms)),
        }
    }

    pub(crate) fn info(&self) -> JobInfo {
        let record = &self.record;
        JobInfo {
            name: record.name.clone(),
            settings: record.settings.clone(),
            created_at: record.created_at,
            items: record.items,
            dispatched: self.items.known(),
            next: self.items.next(),
            done: self.items.done(),
            failed: self.items.failed(),
            ended: record.ended,
            gathered: record.gathered,
        }
    }
}
