//! What the journal keeps: changes *set* state, they never add to it.
//!
//! So a change may be replayed any number of times, and a snapshot may be taken while the ledger
//! moves on: it is itself a list of changes, and the log from its start is replayed over it.
//! What does add up ([`Totals`]) is guarded by the number of the frame it was counted up to.

use crate::content::{ContentId, Place};
use crate::job::{ItemState, JobRecord};
use crate::lease::Lease;
use crate::message::{Message, Standing};
use crate::name::{
    At, DeliveryNumber, Incarnation, JobId, LeaseName, MemberId, MemberSlot, QueueId, QueueName,
    RequestNumber, ScheduleName, SequenceNumber, SessionId, Term,
};
use crate::outcome::{EndedBy, Outcome, Totals};
use crate::schedule::ScheduleRecord;
use crate::settings::QueueSettings;
use crate::time::WallTime;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The shard was opened, or a queue has gone: tokens handed out from here on are others.
    Opened {
        /// In which life it is.
        incarnation: Incarnation,
    },
    /// A queue is there, with these settings.
    Queue {
        /// Its number.
        id: QueueId,
        /// Its name.
        name: QueueName,
        /// How it behaves.
        settings: Box<QueueSettings>,
        /// When it was created.
        created_at: WallTime,
    },
    /// A queue is gone with all that was in it.
    QueueGone {
        /// Its number.
        id: QueueId,
    },
    /// What had passed through a queue (snapshots only).
    QueueTotals {
        /// Its number.
        id: QueueId,
        /// Counted up to this frame.
        as_of: u64,
        /// The next message's number is at least this.
        next: SequenceNumber,
        /// The counters.
        totals: Totals,
    },
    /// A content; its bytes follow in the journal, and that is its place. Said again when it is
    /// carried forward.
    Content {
        /// Its number.
        id: ContentId,
        /// Which of the request's contents it is; not kept.
        index: u32,
        /// How many bytes.
        len: u32,
    },
    /// A content lies there (snapshots only).
    ContentAt {
        /// Its number.
        id: ContentId,
        /// Where.
        place: Place,
    },
    /// A message is there, and stands so.
    Message {
        /// Where.
        at: At,
        /// The record; its `session` index is not kept.
        message: Message,
        /// Its session.
        session: Option<SessionId>,
        /// Whether it came from outside the queue, and so is counted as sent.
        arrived: bool,
    },
    /// A message that is there stands so.
    Standing {
        /// Where.
        at: At,
        /// How.
        standing: Standing,
    },
    /// A message is gone.
    Gone {
        /// Where it was.
        at: At,
        /// Why.
        why: Departure,
    },
    /// A duplicate was dropped.
    Duplicate {
        /// Where.
        queue: QueueId,
    },
    /// A message id was seen.
    Seen {
        /// Where.
        queue: QueueId,
        /// Its hash.
        id_hash: u128,
        /// When.
        at: WallTime,
    },
    /// A session stands so. Without hold, state and messages it is forgotten.
    Session {
        /// In which queue.
        queue: QueueId,
        /// Which.
        session: SessionId,
        /// Number of its newest hold.
        number: DeliveryNumber,
        /// The hold that stands.
        hold: Option<Hold>,
        /// Its state; zero is none.
        state: ContentId,
    },
    /// A member takes part.
    Member {
        /// Its number.
        slot: MemberSlot,
        /// Who.
        id: MemberId,
        /// What it says of itself.
        metadata: String,
        /// How long it may be silent.
        ttl_ms: u64,
        /// Since when.
        joined_at: WallTime,
    },
    /// A member's presence ended.
    MemberGone {
        /// Its number.
        slot: MemberSlot,
        /// Nothing of it is remembered any more.
        forgotten: bool,
    },
    /// A request's outcome, for when it is asked again.
    Kept {
        /// Whose request.
        member: MemberSlot,
        /// Which.
        number: RequestNumber,
        /// Those below are forgotten.
        answered_below: RequestNumber,
        /// What was answered.
        outcome: KeptOutcome,
    },
    /// A lease stands so, or one slot of it.
    Lease {
        /// Its name.
        name: LeaseName,
        /// Which slot, from zero.
        slot: u32,
        /// How.
        lease: Box<Lease>,
    },
    /// A term of a lease ended. Nothing stands otherwise for it: it is for those who will ask why
    /// leadership changed, and goes as the journal goes.
    TermEnded {
        /// Of which lease.
        name: LeaseName,
        /// Which term.
        term: Term,
        /// When.
        at: WallTime,
        /// Why.
        by: EndedBy,
    },
    /// A job is there, and stands so, but for its items.
    Job {
        /// Its number.
        id: JobId,
        /// How.
        record: Box<JobRecord>,
    },
    /// A job is forgotten, with its items.
    JobGone {
        /// Its number.
        id: JobId,
    },
    /// A run of items of a job stands so.
    Items {
        /// Of which job.
        job: JobId,
        /// The index of the first.
        first: u32,
        /// How many.
        count: u32,
        /// How the first stands; the contents of the others follow its own.
        state: ItemState,
    },
    /// A schedule is there, and stands so.
    Schedule {
        /// How.
        record: Box<ScheduleRecord>,
    },
    /// A schedule is gone.
    ScheduleGone {
        /// Which.
        name: ScheduleName,
    },
    /// The store was restored from a backup: no term granted from here on is below this one.
    TermsFrom {
        /// The lowest there may be.
        term: Term,
    },
}

/// A receiver's hold on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who.
    pub member: MemberSlot,
    /// For how long; after a restart a full one again.
    pub lock_ms: u32,
    /// In which life of the shard it was accepted.
    pub incarnation: Incarnation,
}

/// Why a message left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its work is done, or it was received and deleted.
    Completed,
    /// Its time ran out.
    Expired,
    /// An operator removed it.
    Purged,
    /// It was taken back before it was due.
    Cancelled,
    /// It moved to another queue.
    Forwarded,
    /// It moved to the dead letters of its queue.
    DeadLettered,
    /// It moved within its queue: activated, or redriven.
    Moved,
}

/// An outcome as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptOutcome {
    /// As it was answered.
    Plain(Outcome),
    /// Deliveries: those that still stand are handed out again.
    Deliveries {
        /// From where.
        queue: QueueId,
        /// From which half.
        part: crate::name::Part,
        /// Which, with the number they were handed out under.
        tokens: Vec<crate::name::LockToken>,
    },
}
