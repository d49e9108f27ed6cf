//! What the ledger answers.

use crate::backup::BackupStep;
use crate::command::{LeaseKind, ReleaseReason};
use crate::content::{ContentId, Place};
use crate::error::Refusal;
use crate::job::{ItemInfo, JobInfo};
use crate::message::{MessageView, Reason};
use crate::name::{
    LeaseId, LeaseName, MemberId, MemberSlot, Part, QueueName, SequenceNumber, SessionId,
    SessionToken, Term, Ticket,
};
use crate::schedule::ScheduleInfo;
use crate::settings::QueueSettings;
use crate::time::WallTime;

/// One answer, to the request with that ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose.
    pub ticket: Ticket,
    /// What.
    pub result: Result<Outcome, Refusal>,
    /// What must have happened before it may leave.
    pub barrier: Barrier,
}

/// What must have happened to everything appended so far before an answer may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Handed to the kernel: deliveries and renewals, which a power cut may undo.
    Appended,
    /// Flushed: everything else.
    Durable,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// The queue is there.
    QueueCreated {
        /// It was there before.
        existed: bool,
    },
    /// The queue.
    Queue(Box<QueueInfo>),
    /// The queues.
    Queues(Vec<QueueInfo>),
    /// The messages are accepted.
    Sent(Sequences),
    /// So many messages were purged, redriven or cancelled.
    Count(u64),
    /// Messages handed out; empty if the wait ended.
    Received(Vec<MessageView>),
    /// Messages shown.
    Peeked(Vec<MessageView>),
    /// Settled, but for those refused, by index.
    Settled {
        /// Which were refused, and why.
        refused: Vec<(u32, Refusal)>,
    },
    /// Locks renewed, but for those refused, by index.
    Renewed {
        /// How long they hold from now.
        lock_ms: u32,
        /// Which were refused, and why.
        refused: Vec<(u32, Refusal)>,
    },
    /// A session is held; `None` if the wait ended.
    Session(Option<SessionHold>),
    /// The session's state; zero is none. The bytes travel beside the outcome.
    SessionState(ContentId, Place),
    /// The sessions' names.
    Sessions(Vec<SessionId>),
    /// The session; `None` if there is none of that name. Its state travels beside the outcome.
    SessionInfo(Option<Box<SessionInfo>>),
    /// Why a message is not being delivered.
    Explained(Explanation),
    /// The member is known under this slot.
    Joined(MemberSlot),
    /// The heartbeat counted.
    Beat(Beat),
    /// The members.
    Members(Vec<MemberInfo>),
    /// The lease is granted, renewed or changed.
    Granted {
        /// Under this term.
        term: Term,
        /// For so long, counted from when it was asked for.
        ttl_ms: u64,
    },
    /// The lease is being broken, or is, after so long.
    Breaking {
        /// Until nobody holds it.
        remaining_ms: u64,
    },
    /// The lease; `None` if nobody ever asked for it.
    Lease(Option<Box<LeaseInfo>>),
    /// The leases.
    Leases(Vec<LeaseInfo>),
    /// Terms of a lease, the newest first.
    Terms(Vec<TermInfo>),
    /// Members, with what shows how they are.
    MemberHealth(Vec<MemberHealth>),
    /// Whether the asking member is the next in line; it is not if the wait ended.
    Turn {
        /// It is.
        next: bool,
    },
    /// The job is there.
    JobCreated {
        /// It was there before.
        existed: bool,
    },
    /// So many items were sent; the others were known already.
    Dispatched {
        /// How many.
        sent: u32,
    },
    /// The job.
    Job(Box<JobInfo>),
    /// The jobs.
    Jobs(Vec<JobInfo>),
    /// Items; the results of those that have one travel beside the outcome, in their order.
    Items(Vec<ItemInfo>),
    /// The schedule is there.
    ScheduleCreated {
        /// It was there before.
        existed: bool,
    },
    /// The schedules.
    Schedules(Vec<ScheduleInfo>),
    /// A step of a backup; its bytes travel beside the outcome.
    Backup(BackupStep),
}

/// Numbers given to the messages of one send, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequences {
    /// Growing by one.
    Run {
        /// The first.
        first: SequenceNumber,
        /// How many.
        count: u32,
    },
    /// Each by itself; zero for a duplicate that was dropped.
    List(Vec<SequenceNumber>),
}

impl Sequences {
    /// The numbers, one a message.
    pub fn iter(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        let (run, list) = match self {
            Self::Run { first, count } => (first.0..first.0 + u64::from(*count), [].as_slice()),
            Self::List(list) => (0..0, list.as_slice()),
        };
        run.map(SequenceNumber).chain(list.iter().copied())
    }
}

/// A held session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHold {
    /// The proof.
    pub token: SessionToken,
    /// How long it holds.
    pub lock_ms: u32,
}

/// One session, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// Its messages in the queue and its dead letters, in whatever state.
    pub messages: u64,
    /// Who holds it, if somebody does.
    pub hold: Option<Holder>,
    /// Its first message that waits for a retry and holds back what stands behind it.
    pub waits_for: Option<SequenceNumber>,
    /// Its state; zero is none.
    pub state: ContentId,
    /// Where the state lies.
    pub place: Place,
}

/// Who holds a message or a session, and for how long from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The member; `None` if it has left and is forgotten.
    pub member: Option<MemberId>,
    /// How long the hold lasts without a renewal.
    pub remaining_ms: u64,
}

/// Why a message is not being delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In which half of the queue it is.
    pub part: Part,
    /// Everything that keeps it, the nearest first. Empty: it is the next to be handed out.
    pub causes: Vec<Cause>,
}

/// One thing that keeps a message from being delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is a dead letter: only whoever receives dead letters gets it.
    DeadLetter {
        /// Why it became one.
        reason: Reason,
    },
    /// It expired, and is about to be dropped or to become a dead letter.
    Expired {
        /// When.
        at: WallTime,
    },
    /// It was sent to be delivered later.
    Scheduled {
        /// When it becomes ready.
        due: WallTime,
    },
    /// A receiver gave it back to be delivered later.
    Delayed {
        /// When it becomes ready again.
        due: WallTime,
    },
    /// A receiver has it.
    Locked(Holder),
    /// A receiver set it aside: it is only received by its number.
    Deferred,
    /// The queue is paused: its status forbids receiving.
    Paused,
    /// A receiver holds its session, and only that one receives from it.
    SessionHeld(Holder),
    /// An earlier message of its session waits for a retry.
    SessionWaits {
        /// Which.
        sequence: SequenceNumber,
    },
    /// Ready messages are before it.
    Behind {
        /// How many, of the first [`crate::limits::EXPLAIN_MESSAGES_MAX`] in the queue.
        messages: u64,
    },
}

/// What a heartbeat brought to light.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The set is not the one agreed on: nothing was renewed, send the list.
    pub resync: bool,
    /// Believed held but not, with the term believed.
    pub lost: Vec<(LeaseName, Term)>,
    /// Somebody asks the holder to step down.
    pub step_down: Vec<(LeaseName, Term)>,
}

/// One queue, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// Its name.
    pub name: QueueName,
    /// How it behaves.
    pub settings: QueueSettings,
    /// When it was created.
    pub created_at: WallTime,
    /// What is in it.
    pub counts: Counts,
    /// What has passed through it.
    pub totals: Totals,
}

/// What is in a queue now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready.
    pub ready: u64,
    /// Locked.
    pub locked: u64,
    /// Scheduled or delayed.
    pub scheduled: u64,
    /// Set aside by number.
    pub deferred: u64,
    /// Dead letters, in whatever state.
    pub dead_letters: u64,
    /// Bytes of all of these.
    pub size_bytes: u64,
}

/// What has passed through a queue since it was created. What came in is what is still there and
/// what left: `sent == live + completed + expired + purged + cancelled + forwarded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Came in: sent, or forwarded or redriven from another queue.
    pub sent: u64,
    /// Duplicates dropped at the door; not in `sent`.
    pub duplicates: u64,
    /// Completed, or received and deleted.
    pub completed: u64,
    /// Dropped because their time ran out.
    pub expired: u64,
    /// Removed by an operator.
    pub purged: u64,
    /// Taken back before they were due.
    pub cancelled: u64,
    /// Moved to another queue.
    pub forwarded: u64,
    /// Moved to the dead letters; they are still live.
    pub dead_lettered: u64,
}

/// One member, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Who.
    pub id: MemberId,
    /// Its number here.
    pub slot: MemberSlot,
    /// What it says of itself.
    pub metadata: String,
    /// When it joined.
    pub joined_at: WallTime,
    /// What it holds.
    pub leases: Vec<(LeaseName, Term)>,
}

/// How a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberHealth {
    /// Who, since when, and what it holds.
    pub info: MemberInfo,
    /// How long it may be silent.
    pub ttl_ms: u64,
    /// How long ago it was last heard of.
    pub silent_ms: u64,
    /// The leases it stands in line for.
    pub waits_for: Vec<LeaseName>,
}

/// One lease, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Its name.
    pub name: LeaseName,
    /// Kept by a member's heartbeat or by itself, as it was last granted.
    pub kind: LeaseKind,
    /// In which of the five states it is.
    pub state: LeaseState,
    /// The newest term; of several that hold it the oldest, which is the one shown here.
    pub term: Term,
    /// The id it is held under, if it is.
    pub id: Option<LeaseId>,
    /// The member that holds it, if one does.
    pub holder: Option<MemberId>,
    /// What the holder says of itself.
    pub metadata: String,
    /// Its duration.
    pub ttl_ms: u64,
    /// How long it still holds.
    pub remaining_ms: u64,
    /// When the newest term began.
    pub granted_at: WallTime,
    /// Grows with every visible change, for [`crate::command::Command::WatchLease`].
    pub version: u64,
    /// Somebody asked the holder to step down.
    pub step_down_asked: bool,
    /// Nobody is granted it until it is resumed.
    pub paused: bool,
    /// Who shall have it next, by an operator's wish.
    pub successor: Option<MemberId>,
    /// Who waits, next first: the successor that was named, then by priority, then by age.
    pub waiting: Vec<MemberId>,
    /// How many may hold it at once, as it was last granted.
    pub slots: u32,
    /// Who holds it besides the one shown above, the oldest term first.
    pub others: Vec<HolderInfo>,
}

impl LeaseInfo {
    /// Everybody who holds it, the oldest term first.
    pub fn holders(&self) -> impl Iterator<Item = HolderInfo> {
        let is_held = matches!(self.state, LeaseState::Leased | LeaseState::Breaking);
        let first = is_held.then(|| HolderInfo {
            term: self.term,
            state: self.state,
            id: self.id,
            holder: self.holder,
            metadata: self.metadata.clone(),
            remaining_ms: self.remaining_ms,
            granted_at: self.granted_at,
            step_down_asked: self.step_down_asked,
        });
        first.into_iter().chain(self.others.iter().cloned())
    }
}

/// One of those who hold a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderInfo {
    /// Its term.
    pub term: Term,
    /// Whether it is being broken.
    pub state: LeaseState,
    /// The id it holds the lease under.
    pub id: Option<LeaseId>,
    /// The member, if one is known.
    pub holder: Option<MemberId>,
    /// What it says of itself.
    pub metadata: String,
    /// How long it still holds it.
    pub remaining_ms: u64,
    /// When its term began.
    pub granted_at: WallTime,
    /// Somebody asked it to step down.
    pub step_down_asked: bool,
}

/// The five states a lease can be in, as Azure names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody holds it.
    Available,
    /// Somebody does.
    Leased,
    /// The time ran out; nobody has taken it since.
    Expired,
    /// It ends soon and cannot be renewed.
    Breaking,
    /// It was broken; nobody has taken it since.
    Broken,
}

/// One term of a lease, as it was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermInfo {
    /// Which.
    pub term: Term,
    /// Kept by the member's heartbeat, or by itself.
    pub kind: LeaseKind,
    /// When it began.
    pub granted_at: WallTime,
    /// The member it was granted to, if it is known.
    pub holder: Option<MemberId>,
    /// What the holder said of itself.
    pub metadata: String,
    /// What became of it.
    pub left_as: LeftAs,
}

/// What became of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAs {
    /// It stands; or it ended and nobody wrote down how, as earlier versions did not.
    Held,
    /// Its holder gave it back or said goodbye; nobody wrote down when.
    Released,
    /// It is being taken away; or it was, and nobody wrote down when.
    Broken,
    /// It is over.
    Ended {
        /// Since when.
        at: WallTime,
        /// Why.
        by: EndedBy,
    },
}

/// What ended a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Its holder gave it back.
    Released {
        /// Why, if it said so.
        reason: Option<ReleaseReason>,
    },
    /// Its holder said goodbye with all that it held.
    Goodbye,
    /// Its holder's process has ended: proved, not guessed from silence.
    Died,
    /// It was not renewed in time: its holder crashed, froze, or could not be reached.
    RanOut,
    /// It was broken: taken away without the holder.
    Broken,
    /// Its holder gave it another id, and so another term.
    ChangedId,
    /// Its holder's last connection was closed, and it was a lease that ends with that.
    Disconnected,
}
