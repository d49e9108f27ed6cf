//! What can be asked of the ledger: the whole vocabulary on one page.
//!
//! Bytes travel beside the command, as a list of contents; the command only knows their lengths.

use crate::fence::Fence;
use crate::few::Few;
use crate::job::{EndJob, JobSettings, Which};
use crate::message::{NewMessage, Reason};
use crate::name::{
    JobName, LeaseId, LeaseName, LockToken, MemberId, MemberSlot, QueueName, QueuePath,
    RequestNumber, ScheduleName, SequenceNumber, SessionId, SessionToken, Term,
};
use crate::schedule::{ScheduleSettings, SteerSchedule};
use crate::settings::{QueueSettings, SettingsPatch};
use crate::time::WallTime;

/// One request of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks. Nobody (zero) may only join.
    pub member: MemberSlot,
    /// The same number again is the same request again, and gets the first outcome.
    pub number: RequestNumber,
    /// The member has heard the answers of all requests below this one; they are forgotten.
    pub answered_below: RequestNumber,
    /// What is asked.
    pub command: Command,
    /// It is refused unless this term is held when it is decided.
    pub fence: Option<Fence>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates a queue; if it exists its settings are left alone.
    CreateQueue {
        /// Its name.
        queue: QueueName,
        /// How it behaves.
        settings: Box<QueueSettings>,
    },
    /// Changes a queue's settings.
    UpdateQueue {
        /// Which.
        queue: QueueName,
        /// What changes.
        patch: Box<SettingsPatch>,
    },
    /// Deletes a queue with all its messages and dead letters.
    DeleteQueue {
        /// Which.
        queue: QueueName,
    },
    /// Removes messages nobody has locked, oldest first.
    Purge {
        /// Where.
        from: QueuePath,
        /// Only those enqueued before.
        before: Option<WallTime>,
        /// At most so many.
        max: u32,
    },
    /// Removes messages by number, but for those that somebody has locked or that are gone.
    Remove {
        /// Where.
        from: QueuePath,
        /// Which.
        sequences: Vec<SequenceNumber>,
    },
    /// Settings and counters of one queue.
    DescribeQueue {
        /// Which.
        queue: QueueName,
    },
    /// Settings and counters of many, by name.
    ListQueues {
        /// Names after this one.
        after: Option<QueueName>,
        /// At most so many.
        max: u32,
    },

    /// Sends messages, all or none.
    Send {
        /// Where to.
        queue: QueueName,
        /// What; the content of message i is content i.
        messages: Few<NewMessage>,
    },
    /// Takes back scheduled messages, all or none.
    Cancel {
        /// Where.
        queue: QueueName,
        /// Which.
        sequences: Vec<SequenceNumber>,
    },
    /// Hands out messages.
    Receive(Receive),
    /// Hands out set-aside messages by number, all or none.
    ReceiveDeferred {
        /// Where.
        from: QueuePath,
        /// The session, in a session queue.
        session: Option<SessionToken>,
        /// Which.
        sequences: Vec<SequenceNumber>,
        /// Locked or gone.
        mode: ReceiveMode,
    },
    /// Looks at messages without touching them.
    Peek {
        /// Where.
        from: QueuePath,
        /// The first number of interest.
        sequence: SequenceNumber,
        /// At most so many.
        max: u32,
        /// Only this session's.
        session: Option<SessionId>,
    },
    /// Ends deliveries; each by itself.
    Settle {
        /// Where.
        from: QueuePath,
        /// Which, and how.
        settlements: Few<Settlement>,
    },
    /// Starts locks anew.
    RenewLocks {
        /// Where.
        from: QueuePath,
        /// Which.
        tokens: Vec<LockToken>,
        /// For how long from now; the lock's own duration if `None`.
        lock_ms: Option<u32>,
    },
    /// Sends dead letters again: new numbers, counts from zero.
    Redrive {
        /// Whose dead letters.
        queue: QueueName,
        /// Where to; back to their queue if `None`.
        to: Option<QueueName>,
        /// Which; the oldest if empty.
        sequences: Vec<SequenceNumber>,
        /// At most so many.
        max: u32,
    },

    /// Takes hold of a session.
    AcceptSession {
        /// In which queue.
        queue: QueueName,
        /// Which; the next free one with messages if `None`.
        session: Option<SessionId>,
        /// How long to wait for one.
        wait_ms: u64,
    },
    /// Starts the hold anew.
    RenewSession {
        /// In which queue.
        queue: QueueName,
        /// Which hold.
        token: SessionToken,
    },
    /// Lets go; what was handed out goes back uncounted.
    CloseSession {
        /// In which queue.
        queue: QueueName,
        /// Which hold.
        token: SessionToken,
    },
    /// Keeps or clears the session's state.
    SetSessionState {
        /// In which queue.
        queue: QueueName,
        /// Which hold.
        token: SessionToken,
        /// The content; `None` clears.
        state: Option<NewContent>,
    },
    /// Reads the session's state.
    GetSessionState {
        /// In which queue.
        queue: QueueName,
        /// Which hold.
        token: SessionToken,
    },
    /// Names sessions that have messages or state.
    ListSessions {
        /// In which queue.
        queue: QueueName,
        /// Names after this one.
        after: Option<SessionId>,
        /// At most so many.
        max: u32,
    },
    /// Who holds a session, what is in it, and its state.
    DescribeSession {
        /// In which queue.
        queue: QueueName,
        /// Which.
        session: SessionId,
    },
    /// Says why a message is not being delivered.
    Explain {
        /// In which queue, its dead letters included.
        queue: QueueName,
        /// Which message.
        sequence: SequenceNumber,
    },
    /// Puts messages in as an export found them, with their times, counts and states; all or none.
    Import {
        /// Where to.
        to: QueuePath,
        /// What.
        messages: Vec<Imported>,
    },

    /// Creates a job; if it exists it is left alone.
    CreateJob {
        /// Its name.
        job: JobName,
        /// How it behaves.
        settings: Box<JobSettings>,
        /// How many items it has; `None` while more may come.
        items: Option<u32>,
        /// The gather message: id text, properties and body.
        gather: Option<NewContent>,
    },
    /// Sends items of a job, all or none; those that are known already are left alone.
    Dispatch {
        /// Of which job.
        job: JobName,
        /// The index of the first; the others follow.
        first: u32,
        /// Their messages; the content of message i is content i.
        messages: Few<NewMessage>,
        /// There are so many items and no more will come.
        items: Option<u32>,
    },
    /// Ends a delivery of an item: its work is done, and this came of it.
    CompleteItem {
        /// Where its message is.
        from: QueuePath,
        /// Which delivery.
        token: LockToken,
        /// What came of it.
        result: Option<NewContent>,
    },
    /// Decides about a job's end.
    EndJob {
        /// Which.
        job: JobName,
        /// What.
        how: EndJob,
    },
    /// A job, at once or when it has ended.
    AwaitJob {
        /// Which.
        job: JobName,
        /// How long to wait for its end.
        wait_ms: u64,
    },
    /// Many jobs, by name.
    ListJobs {
        /// Names after this one.
        after: Option<JobName>,
        /// At most so many.
        max: u32,
    },
    /// Items of a job by index, with their results.
    ListItems {
        /// Of which job.
        job: JobName,
        /// From this index on.
        from: u32,
        /// At most so many.
        max: u32,
        /// Which of them.
        which: Which,
    },

    /// Creates a schedule; if it exists it is left alone.
    CreateSchedule {
        /// Its name.
        schedule: ScheduleName,
        /// How it behaves.
        settings: Box<ScheduleSettings>,
        /// Its message: id text, properties and body.
        content: NewContent,
    },
    /// Pauses, resumes, runs or deletes a schedule.
    SteerSchedule {
        /// Which.
        schedule: ScheduleName,
        /// What.
        how: SteerSchedule,
    },
    /// Many schedules, by name.
    ListSchedules {
        /// Names from this one on.
        from: Option<ScheduleName>,
        /// At most so many.
        max: u32,
    },

    /// A process takes part. Joining again under the same id is a heartbeat.
    Join {
        /// Who.
        id: MemberId,
        /// What it says of itself.
        metadata: String,
        /// How long it may be silent.
        ttl_ms: u64,
    },
    /// The member is here, and believes it holds these leases.
    Heartbeat {
        /// What it believes.
        held: HeldSet,
    },
    /// The member goes: its leases are released, its waits withdrawn.
    Leave,
    /// The member has gone without a goodbye. Said by the door that it came through, which saw that;
    /// no member says it, neither of itself nor of others.
    Lost {
        /// What was seen.
        how: Loss,
    },
    /// Who is here.
    ListMembers,
    /// Who is here, when each was last heard of, what it holds and what it waits for; by id.
    MemberHealth {
        /// Ids after this one.
        after: Option<MemberId>,
        /// At most so many.
        max: u32,
    },

    /// Asks for a lease.
    Acquire(Acquire),
    /// Keeps one lease by itself, outside the heartbeat.
    RenewLease {
        /// Which.
        lease: LeaseName,
        /// Under which id.
        id: LeaseId,
    },
    /// Gives the lease another id, and a new term.
    ChangeLease {
        /// Which.
        lease: LeaseName,
        /// Under which id it is held.
        id: LeaseId,
        /// Under which it will be.
        to: LeaseId,
    },
    /// Gives the lease back.
    ReleaseLease {
        /// Which.
        lease: LeaseName,
        /// Under which id.
        id: LeaseId,
        /// Who shall have it next, if that member waits for it.
        successor: Option<MemberId>,
    },
    /// Gives the lease back and says why, for those who will ask why leadership changed.
    StepDown {
        /// Which.
        lease: LeaseName,
        /// Under which id.
        id: LeaseId,
        /// Who shall have it next, if that member waits for it.
        successor: Option<MemberId>,
        /// Why.
        reason: ReleaseReason,
    },
    /// Takes the lease from its holder. Meant for Azure's clients; prefer asking.
    BreakLease {
        /// Which.
        lease: LeaseName,
        /// After how long at most.
        period_ms: Option<u64>,
    },
    /// The leased object was written: an ended lease is forgotten.
    TouchLease {
        /// Which.
        lease: LeaseName,
    },
    /// Asks the holder to step down; the holder decides.
    AskStepDown {
        /// Which.
        lease: LeaseName,
    },
    /// Asks the holder to step down in favour of a member that waits in line. Whenever the term
    /// ends, that member is granted the lease before the others, if it still waits then.
    HandOver {
        /// Which.
        lease: LeaseName,
        /// To whom.
        to: MemberId,
    },
    /// Nobody is granted the lease until it is resumed; who asks waits in line or is refused.
    PauseLease {
        /// Which; also one that nobody ever asked for.
        lease: LeaseName,
        /// Whoever holds it is not even asked to step down.
        keep_leader: bool,
    },
    /// The lease is granted again, at once if somebody waits. One that is not paused stays as it is.
    ResumeLease {
        /// Which.
        lease: LeaseName,
    },
    /// Waits until the asking member is the next in line for the lease: its last chance to become
    /// warm before it is granted. Only who is the next is told, so a long line costs nothing.
    AwaitTurn {
        /// Which.
        lease: LeaseName,
        /// How long to wait.
        wait_ms: u64,
    },
    /// Who holds it, since when, who waits.
    DescribeLease {
        /// Which.
        lease: LeaseName,
    },
    /// Waits until the lease is no longer as seen.
    WatchLease {
        /// Which.
        lease: LeaseName,
        /// The version last seen; zero for never.
        seen: u64,
        /// How long to wait.
        wait_ms: u64,
    },
    /// Many leases, by name.
    ListLeases {
        /// Names after this one.
        after: Option<LeaseName>,
        /// At most so many.
        max: u32,
    },

    /// The last terms of a lease, the newest first. Answered by what runs the ledger: what happened is
    /// no part of how things are.
    LeaseHistory {
        /// Which.
        lease: LeaseName,
        /// At most so many.
        max: u32,
    },
    /// The next step of a backup ([`crate::backup`]). Answered by what keeps the journal, not by the
    /// ledger; a store that keeps none refuses it.
    Backup {
        /// Which; drawn by whoever takes it.
        id: u64,
        /// From 0 on. The last one may be asked again.
        step: u32,
    },

    /// Time has passed: what is due becomes so.
    Tick,
}

impl Command {
    /// How long it waits for what it asks for.
    pub fn wait_ms(&self) -> u64 {
        match self {
            Self::Receive(receive) => receive.wait_ms,
            Self::Acquire(acquire) => acquire.wait_ms,
            Self::AcceptSession { wait_ms, .. }
            | Self::WatchLease { wait_ms, .. }
            | Self::AwaitTurn { wait_ms, .. }
            | Self::AwaitJob { wait_ms, .. } => *wait_ms,
            _ => 0,
        }
    }

    /// The same, to be changed, if it is of a kind that may wait.
    pub fn wait_ms_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Receive(receive) => Some(&mut receive.wait_ms),
            Self::Acquire(acquire) => Some(&mut acquire.wait_ms),
            Self::AcceptSession { wait_ms, .. }
            | Self::WatchLease { wait_ms, .. }
            | Self::AwaitTurn { wait_ms, .. }
            | Self::AwaitJob { wait_ms, .. } => Some(wait_ms),
            _ => None,
        }
    }
}

/// A wish for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Where from.
    pub from: QueuePath,
    /// From this held session only; wanted in a session queue.
    pub session: Option<SessionToken>,
    /// At most so many.
    pub max: u32,
    /// Locked or gone.
    pub mode: ReceiveMode,
    /// How long to wait for the first one.
    pub wait_ms: u64,
    /// A lock duration other than the queue's.
    pub lock_ms: Option<u32>,
}

/// What receiving does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// Locks it until it is settled.
    PeekLock,
    /// Removes it.
    ReceiveAndDelete,
}

/// The end of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which delivery.
    pub token: LockToken,
    /// How it ends.
    pub disposition: Disposition,
    /// Changed properties, reason and description.
    pub overlay: Option<NewContent>,
}

/// A content that travels beside the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewContent {
    /// Which of them.
    pub index: u32,
    /// How long it is.
    pub bytes: u32,
}

/// A message that lived in another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Id text, properties and body, as they were sent.
    pub content: NewContent,
    /// What was changed on it since.
    pub overlay: Option<NewContent>,
    /// Hash of its message id, so that the next send of that id is known as a duplicate; zero if
    /// it has none. An import itself never drops a duplicate.
    pub id_hash: u128,
    /// Its session.
    pub session: Option<SessionId>,
    /// When it entered its queue.
    pub enqueued_at: WallTime,
    /// When it expires; [`WallTime::NEVER`] if it does not.
    pub expires_at: WallTime,
    /// How it stood. A lock means nothing here: who exports a locked message exports it as ready.
    pub state: Resting,
    /// Deliveries that ended and count.
    pub deliveries: u32,
    /// Of these, given back by a handler.
    pub failures: u16,
    /// Of these, lost because the lock ran out.
    pub crashes: u16,
    /// Hand-outs that were given back unused and are not counted.
    pub releases: u16,
    /// Why it is a dead letter.
    pub reason: Reason,
}

/// How a message can stand that nobody has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resting {
    /// Waits for a receiver.
    Ready,
    /// Not before `due`; then it gets a new number.
    Scheduled {
        /// When it becomes ready.
        due: WallTime,
    },
    /// Given back; not before `due`.
    Delayed {
        /// When it becomes ready again.
        due: WallTime,
    },
    /// Set aside; only given out by number.
    Deferred,
}

/// How a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The work is done: the message goes.
    Complete,
    /// The handler failed: the message comes back, after `delay_ms` if given.
    Abandon {
        /// Not before so long from now.
        delay_ms: Option<u64>,
    },
    /// Given back unused: comes back and is not counted.
    Release,
    /// Set aside until somebody asks for it by number.
    Defer,
    /// It can never work: set aside with a reason.
    DeadLetter,
}

/// A wish for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Which.
    pub lease: LeaseName,
    /// The id proposed; the same one again is the same request again.
    pub id: LeaseId,
    /// Kept by the member's heartbeat, or by itself.
    pub kind: LeaseKind,
    /// For how long; [`crate::limits::LEASE_MS_INFINITE`] for ever.
    pub ttl_ms: u64,
    /// What the holder says of itself.
    pub metadata: String,
    /// How long to wait in line.
    pub wait_ms: u64,
    /// Higher is first in line.
    pub priority: i32,
    /// How many may hold it at once; all who do ask for the same number.
    pub slots: u32,
}

/// The kinds of lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Kept by its member's heartbeat; ended means a new term.
    Bound,
    /// Kept by its own renewals, as Azure's blobs are.
    Standing,
    /// Bound, and released as soon as its member's last connection is closed, although the member may
    /// go on: for work whose resources refuse an old term.
    Connected,
}

impl LeaseKind {
    /// Whether its member's heartbeat keeps it.
    pub fn is_bound(self) -> bool {
        match self {
            Self::Bound | Self::Connected => true,
            Self::Standing => false,
        }
    }
}

/// How it was seen that a member has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The kernel says that its process has ended: what it held is free, as after a goodbye.
    Died,
    /// Its last connection was closed, and it may come back: only leases that are
    /// [`LeaseKind::Connected`] are free.
    Disconnected,
}

/// Why a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// It was asked to step down.
    Asked,
    /// Its process shuts down.
    Shutdown,
    /// The work it led for is done.
    Finished,
    /// The work failed.
    Failed,
    /// The work made no progress for too long.
    Stalled,
    /// It hands over to a successor of its own choice.
    HandedOver,
}

/// The leases a member believes it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldSet {
    /// The set last agreed on, by count and digest ([`crate::member::digest`]).
    Same {
        /// How many.
        count: u32,
        /// What they are.
        digest: u64,
    },
    /// The set in full, to agree on.
    List(Vec<(LeaseName, Term)>),
}
