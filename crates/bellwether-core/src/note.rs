//! Notes: what is kept of a piece of work beside its message, under a key, for a while.
//!
//! ```text
//!   result   Request ─► pending ─► running 40 % ─► succeeded | failed ─► forgotten after its ttl
//!                          └── its message leaves without one ─► gone
//!   claim    Claim ─► held by one ─► done, with what came of it ─► forgotten after its ttl
//!                        └── its holder's lock ran out ─► the next who claims takes it over
//! ```
//!
//! 1. A result is kept for whoever asked for it: its state and its content change in one change, so
//!    nobody reads half of one. The first that is final stays.
//! 2. A claim is one atomic insert: of all who claim a key at once, one is granted it. Whoever lost
//!    it finishes nothing.
//! 3. Both are forgotten when their ttl has passed since they were last written.

use crate::content::{ContentId, Place};
use crate::name::{DeliveryNumber, Incarnation, MemberId, MemberSlot, NoteKey, QueueName};
use crate::time::{BootTime, WallTime};

/// What a note is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteName {
    /// Which kind it is.
    pub kind: NoteKind,
    /// The queue of a result, the scope of a claim.
    pub of: QueueName,
    /// Which there: the id of a result's message, whatever a claim is for.
    pub key: NoteKey,
}

/// The kinds of note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// What became of a message's work.
    Result,
    /// Who does a piece of work that must be done once, and what came of it.
    Claim,
}

/// A note, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How it stands.
    pub state: NoteState,
    /// The content; zero is none.
    pub content: ContentId,
    /// Of a result: the content of its message, by which it is known. Zero if it has none.
    pub message: ContentId,
    /// Of a claim: the hash of what is to be done; zero if nobody said.
    pub hash: u128,
    /// When it was begun.
    pub created_at: WallTime,
    /// When it was last written.
    pub updated_at: WallTime,
    /// It is forgotten so long after that.
    pub ttl_ms: u64,
}

impl Note {
    /// When it is forgotten.
    pub fn expires_at(&self) -> WallTime {
        self.updated_at.plus_ms(self.ttl_ms)
    }
}

/// How a note stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteState {
    /// A result: nobody has begun.
    Pending,
    /// A result: somebody is at it.
    Running {
        /// How far, if it was said.
        percent: Option<u32>,
    },
    /// A result: it is done, and the content is what came of it.
    Succeeded,
    /// A result: it failed, and the content says why.
    Failed,
    /// A result: its message left without one. It may still come, if the message is sent again.
    Gone,
    /// A claim: somebody is at it, or died.
    Held(ClaimHold),
    /// A claim: it is done, and the content is what came of it.
    Done,
}

impl NoteState {
    /// Whether nothing more is to be waited for.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running { .. } | Self::Held(_))
    }

    /// Whether it stays so.
    pub fn is_final(self) -> bool {
        self.is_over() && self != Self::Gone
    }
}

/// Who has a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimHold {
    /// Under which token.
    pub token: ClaimToken,
    /// Who.
    pub member: MemberSlot,
    /// For how long; after a restart a full one again.
    pub lock_ms: u32,
    /// From then on it can be taken over. Not written down.
    pub until: BootTime,
}

/// The proof of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimToken {
    /// Which claim of this life.
    pub number: DeliveryNumber,
    /// In which life of the shard.
    pub incarnation: Incarnation,
}

/// What is said of work under way or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Somebody is at it.
    Running {
        /// How far, if it is said.
        percent: Option<u32>,
    },
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
}

/// A result, as seen from outside. The content travels beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultInfo {
    /// How it stands; never [`NoteState::Held`] or [`NoteState::Done`].
    pub state: NoteState,
    /// When it was asked for.
    pub created_at: WallTime,
    /// When it was last written.
    pub updated_at: WallTime,
    /// When it is forgotten.
    pub expires_at: WallTime,
    /// The content; zero is none.
    pub content: ContentId,
    /// Where it lies.
    pub place: Place,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is the caller's.
    Granted {
        /// The proof.
        token: ClaimToken,
        /// Somebody had it before, and may have done half of it.
        taken_over: bool,
    },
    /// Somebody else is at it.
    InProgress {
        /// Who; `None` if it has left and is forgotten.
        by: Option<MemberId>,
        /// For how long nobody else can have it.
        remaining_ms: u64,
    },
    /// It was done; the content, which travels beside, is what came of it.
    Done {
        /// When.
        at: WallTime,
        /// The content; zero is none.
        content: ContentId,
        /// Where it lies.
        place: Place,
    },
    /// The key is taken for something else.
    Conflict,
}
