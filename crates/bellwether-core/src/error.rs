//! Refusals: the rules said no.
//!
//! A refusal changes nothing. Its text names the thing, the limit and the way out;
//! [`Refusal::retry`] says whether the same request may succeed later without anybody acting.

use std::fmt;

use crate::fence;
use crate::name::{
    JobName, LeaseName, MemberId, QueueName, ScheduleName, SequenceNumber, SessionId, Term,
};
use crate::right::Right;

/// Why the rules said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No queue of that name.
    QueueNotFound(QueueName),
    /// The queue's status forbids it.
    QueueDisabled {
        /// The queue.
        queue: QueueName,
        /// What was tried.
        operation: Operation,
    },
    /// The queue has reached its size.
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// Its size.
        size_bytes_max: u64,
    },
    /// The store has reached its memory budget, or all who ask theirs.
    Busy {
        /// When to try again.
        retry_after_ms: u64,
    },
    /// The disk is full, or nearly; receiving and settling go on.
    DiskFull,
    /// A name that cannot be one.
    InvalidName {
        /// What kind of name.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A value that cannot be set.
    InvalidValue {
        /// Which value.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// More bytes than allowed.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// More than allowed in one go, or altogether.
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// The queue wants a session and none was named.
    SessionRequired(QueueName),
    /// The queue has no sessions and one was named.
    SessionNotSupported(QueueName),
    /// Another receiver holds the session.
    SessionLocked(SessionId),
    /// The session is no longer held under this token.
    SessionLost(SessionId),
    /// The message is no longer locked under this token.
    LockLost(SequenceNumber),
    /// No such message where it was looked for.
    MessageNotFound(SequenceNumber),
    /// The member's presence has ended, or it never joined.
    MemberGone,
    /// The lease cannot do that now.
    Lease(LeaseRefusal),
    /// Whoever asks may not. Said whether there is such a thing or not.
    Forbidden {
        /// The right that is missing.
        right: Right,
        /// On what.
        on: String,
    },
    /// No job of that name.
    JobNotFound(JobName),
    /// The job has ended.
    JobEnded(JobName),
    /// The job has not ended.
    JobOpen(JobName),
    /// No schedule of that name.
    ScheduleNotFound(ScheduleName),
    /// It was asked under a term that is not held.
    Fenced {
        /// The election.
        election: LeaseName,
        /// The term that was shown.
        term: Term,
        /// The newest term that was granted: the same one if it is over; `None` if there never
        /// was any.
        newest: Option<Term>,
    },
}

/// What a queue's status can forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sending.
    Send,
    /// Receiving and settling.
    Receive,
}

/// Why a lease action was refused. The first six are Azure's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRefusal {
    /// Another id holds it (`LeaseAlreadyPresent`).
    Held {
        /// The lease.
        lease: LeaseName,
        /// The grant that stands.
        term: Term,
    },
    /// It is being broken (`LeaseIsBreakingAndCannotBeAcquired`).
    Breaking(LeaseName),
    /// It was broken (`LeaseIsBrokenAndCannotBeRenewed`).
    Broken(LeaseName),
    /// It is being broken (`LeaseIsBreakingAndCannotBeChanged`).
    BreakingCannotChange(LeaseName),
    /// The id shown is not the lease's (`LeaseIdMismatchWithLeaseOperation`).
    IdMismatch(LeaseName),
    /// There is no lease to act on (`LeaseNotPresentWithLeaseOperation`).
    NotPresent(LeaseName),
    /// The lease ended; a member-bound lease is not renewed late but acquired anew.
    TermOver {
        /// The lease.
        lease: LeaseName,
        /// The term that ended.
        term: Term,
    },
    /// Somebody else is first in line, or the wait ended without a grant.
    NotGranted(LeaseName),
    /// An operator paused it: nobody is granted it until it is resumed.
    Paused(LeaseName),
    /// The member that shall have it next does not wait for it.
    NotInLine {
        /// The lease.
        lease: LeaseName,
        /// Who was named.
        member: MemberId,
    },
    /// It is held by others under another number of slots.
    OtherSlots {
        /// The lease.
        lease: LeaseName,
        /// How many may hold it as it is held now.
        slots: u32,
        /// The number that was asked for.
        asked: u32,
    },
}

impl Refusal {
    /// Whether the same request may succeed later without anybody changing it.
    pub fn retry(&self) -> bool {
        matches!(
            self,
            Self::QueueFull { .. }
                | Self::Busy { .. }
                | Self::DiskFull
                | Self::SessionLocked(_)
                | Self::Lease(
                    LeaseRefusal::Held { .. }
                        | LeaseRefusal::Breaking(_)
                        | LeaseRefusal::NotGranted(_)
                        | LeaseRefusal::Paused(_)
                )
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueNotFound(queue) => {
                write!(f, "there is no queue {queue:?}; create it first")
            }
            Self::QueueDisabled { queue, operation } => {
                let what = match operation {
                    Operation::Send => "sending to",
                    Operation::Receive => "receiving from",
                };
                write!(f, "{what} queue {queue:?} is switched off by its status; set it to active")
            }
            Self::QueueFull { queue, size_bytes_max } => write!(
                f,
                "queue {queue:?} has reached its size of {size_bytes_max} bytes; receive from it, \
                 purge it or raise size_bytes_max, then send again"
            ),
            Self::Busy { retry_after_ms } => write!(
                f,
                "the store has reached a memory budget; receiving goes on; \
                 ask again in {retry_after_ms} ms"
            ),
            Self::DiskFull => f.write_str(
                "the disk is full, or nearly; receiving and settling go on; sending resumes by itself \
                 when there is space",
            ),
            Self::InvalidName { what, why } => write!(f, "this cannot be a {what}: {why}"),
            Self::InvalidValue { what, why } => write!(f, "{what}: {why}"),
            Self::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} has {bytes} bytes, the limit is {bytes_max}; make it smaller")
            }
            Self::TooMany { what, max } => {
                write!(f, "too many {what}, the limit is {max}; name fewer, or remove some first")
            }
            Self::SessionRequired(queue) => write!(
                f,
                "queue {queue:?} is a session queue; name a session when sending, accept one when \
                 receiving"
            ),
            Self::SessionNotSupported(queue) => write!(
                f,
                "queue {queue:?} was created without sessions; receive from it without one, or \
                 create a queue that has them"
            ),
            Self::SessionLocked(session) => write!(
                f,
                "session {session:?} is held by another receiver; wait for it, or accept the next \
                 free one"
            ),
            Self::SessionLost(session) => {
                write!(f, "session {session:?} is no longer held; accept it again")
            }
            Self::LockLost(sequence) => write!(
                f,
                "message {sequence} is no longer locked by this delivery; drop the result, the \
                 message is or will be delivered again unless it was settled"
            ),
            Self::MessageNotFound(sequence) => write!(
                f,
                "there is no message {sequence} in the wanted state; a peek shows what became of it"
            ),
            Self::MemberGone => {
                f.write_str("this member's presence has ended; join again under a new id")
            }
            Self::Lease(refusal) => fmt::Display::fmt(refusal, f),
            Self::Forbidden { right, on } => write!(
                f,
                "the credential gives no right to {right} on {on}; whoever keeps the server's keys \
                 can grant it"
            ),
            Self::JobNotFound(job) => write!(
                f,
                "there is no job {job:?}; it was never created, or it ended and its retention is over"
            ),
            Self::JobEnded(job) => write!(
                f,
                "job {job:?} has ended and takes no more items; create another one under another name"
            ),
            Self::JobOpen(job) => {
                write!(f, "job {job:?} has not ended; cancel it first, or wait for its end")
            }
            Self::ScheduleNotFound(schedule) => {
                write!(f, "there is no schedule {schedule:?}; create it first")
            }
            Self::Fenced { election, term, newest } => fence::explain(f, election, *term, *newest),
        }
    }
}

impl fmt::Display for LeaseRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { lease, term } => write!(
                f,
                "lease {lease:?} is held by another holder under term {term}; wait in line for it, \
                 or ask the holder to step down"
            ),
            Self::Breaking(lease) => write!(
                f,
                "lease {lease:?} is being broken and cannot be acquired yet; wait in line for it"
            ),
            Self::Broken(lease) => {
                write!(f, "lease {lease:?} was broken and cannot be renewed; acquire it again")
            }
            Self::BreakingCannotChange(lease) => write!(
                f,
                "lease {lease:?} is being broken and cannot be changed; stop the work and acquire \
                 it again"
            ),
            Self::IdMismatch(lease) => write!(
                f,
                "the id shown is not the one lease {lease:?} is held under; it was lost or never \
                 granted: stop the work and acquire it"
            ),
            Self::NotPresent(lease) => {
                write!(f, "lease {lease:?} is held by nobody; acquire it first")
            }
            Self::TermOver { lease, term } => write!(
                f,
                "term {term} of lease {lease:?} is over; stop the work and acquire the lease again"
            ),
            Self::NotGranted(lease) => {
                write!(f, "lease {lease:?} was not granted within the wait; ask again")
            }
            Self::Paused(lease) => write!(
                f,
                "lease {lease:?} is paused and granted to nobody; wait in line for it, or have it \
                 resumed"
            ),
            Self::NotInLine { lease, member } => write!(
                f,
                "member {member} does not wait for lease {lease:?} and cannot be handed it; name \
                 one of those in line"
            ),
            Self::OtherSlots { lease, slots, asked } => write!(
                f,
                "lease {lease:?} has {} as it is held now, and was asked for with {asked}; ask with \
                 the same number, or when nobody holds it any more",
                if *slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") }
            ),
        }
    }
}

impl std::error::Error for Refusal {}
impl From<LeaseRefusal> for Refusal {
    fn from(refusal: LeaseRefusal) -> Self {
        Self::Lease(refusal)
    }
}
