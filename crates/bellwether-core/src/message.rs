//! One message: what was sent, and how it stands.
//!
//! ```text
//!             send, due later                    send
//!                   │                              │
//!                   ▼          due                 ▼        receive
//!               Scheduled ─── (new number) ──►   Ready ─────────────────► Locked
//!                                                  ▲  ▲                    │ │ │ │
//!               Delayed ─────── due ───────────────┘  └── abandon, lock ───┘ │ │ │
//!                  ▲                                       ran out, release  │ │ │
//!                  └────────────── abandon with a delay ─────────────────────┘ │ │
//!               Deferred ◄──────── defer ──────────────────────────────────────┘ │
//!                  └── receive by number ──► Locked                              │
//!               gone, or dead letter ◄──── complete, dead-letter ────────────────┘
//! ```
//!
//! A record has a fixed half (what was sent) and a [`Standing`] (what became of it since). It
//! holds numbers only; texts and bodies are contents.

use crate::content::{ContentId, Place};
use crate::name::{
    DeliveryNumber, Incarnation, LockToken, MemberSlot, QueueId, SequenceNumber, SessionId,
};
use crate::time::{BootTime, WallTime};

/// One message as the ledger keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Id text, properties and body, as they were sent.
    pub content: ContentId,
    /// When it entered this queue.
    pub enqueued_at: WallTime,
    /// When it expires; [`WallTime::NEVER`] if it does not.
    pub expires_at: WallTime,
    /// The number it had in the queue it was first sent to.
    pub origin: SequenceNumber,
    /// Its session in this queue, as an index that only lives in memory; zero is none.
    pub session: u32,
    /// The queue whose dead letter it is or was; zero if it never was one.
    pub source: QueueId,
    /// What became of it.
    pub standing: Standing,
}

/// What became of a message since it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where it is in its life.
    pub state: State,
    /// Number of its newest hand-out; the fence.
    pub number: DeliveryNumber,
    /// Deliveries that ended and count; limits look at this. A receiver sees one more.
    pub deliveries: u32,
    /// Of these, given back by a handler.
    pub failures: u16,
    /// Of these, lost because the lock ran out.
    pub crashes: u16,
    /// Hand-outs that were given back unused and are not counted.
    pub releases: u16,
    /// Why it is a dead letter.
    pub reason: Reason,
    /// How often it was forwarded.
    pub hops: u8,
    /// Changed properties, reason and description; zero if there are none.
    pub overlay: ContentId,
}

impl Standing {
    /// How a message stands that nobody has received yet.
    pub const fn new(state: State) -> Self {
        Self {
            state,
            number: DeliveryNumber(0),
            deliveries: 0,
            failures: 0,
            crashes: 0,
            releases: 0,
            reason: Reason::None,
            hops: 0,
            overlay: ContentId(0),
        }
    }
}

/// Where a message is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for a receiver.
    Ready,
    /// Not before `due`; then it gets a new number.
    Scheduled {
        /// When it becomes ready.
        due: WallTime,
    },
    /// Given back; not before `due`; keeps its number and place.
    Delayed {
        /// When it becomes ready again.
        due: WallTime,
    },
    /// Held by one receiver.
    Locked(Lock),
    /// Set aside; only given out by number.
    Deferred,
}

/// A delivery's exclusive hold on its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// When it runs out. Never written down: after a restart it is a full `lock_ms` again.
    pub until: BootTime,
    /// How long a hold lasts; a renewal starts it anew.
    pub lock_ms: u32,
    /// Who holds it.
    pub member: MemberSlot,
    /// In which life of the shard it was handed out.
    pub incarnation: Incarnation,
    /// It was set aside before it was locked, and is again when the lock ends.
    pub deferred: bool,
}

impl Message {
    /// Whether `token` is the proof of the hold that stands now.
    pub fn is_locked_by(&self, token: LockToken) -> bool {
        matches!(self.standing.state, State::Locked(lock)
            if lock.incarnation == token.incarnation && self.standing.number == token.number)
    }
}

/// Why a message is a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// It is none.
    #[default]
    None,
    /// Its receiver said so; the words are in the overlay.
    Application,
    /// Delivered too often.
    MaxDeliveryCountExceeded,
    /// Its receivers crashed while they had nothing else.
    ConsumerCrashed,
    /// Its time-to-live ran out.
    TtlExpired,
    /// Forwarded too often.
    MaxTransferHopCountExceeded,
    /// The queue it should have been forwarded to does not take it.
    ForwardTargetUnavailable,
    /// It should have been forwarded to a session queue and names no session.
    SessionIdIsNull,
}

impl Reason {
    /// Every reason there is to be a dead letter.
    pub const ALL: [Self; 7] = [
        Self::Application,
        Self::MaxDeliveryCountExceeded,
        Self::ConsumerCrashed,
        Self::TtlExpired,
        Self::MaxTransferHopCountExceeded,
        Self::ForwardTargetUnavailable,
        Self::SessionIdIsNull,
    ];

    /// The word receivers see, Azure's where Azure has one.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Application => None,
            Self::MaxDeliveryCountExceeded => Some("MaxDeliveryCountExceeded"),
            Self::ConsumerCrashed => Some("ConsumerCrashed"),
            Self::TtlExpired => Some("TTLExpiredException"),
            Self::MaxTransferHopCountExceeded => Some("MaxTransferHopCountExceeded"),
            Self::ForwardTargetUnavailable => Some("ForwardTargetUnavailable"),
            Self::SessionIdIsNull => Some("Session ID is null"),
        }
    }
}

/// A message on its way in: what the rules need to know of it. Its content travels beside the
/// command, at the same index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// Length of its content.
    pub content_bytes: u32,
    /// Hash of its message id, for duplicate detection; zero if it has no id.
    pub id_hash: u128,
    /// Its session.
    pub session: Option<SessionId>,
    /// Its own time-to-live, at least 1; cut to the queue's.
    pub ttl_ms: Option<u64>,
    /// Not before.
    pub due: Option<WallTime>,
}

/// A message on its way out. Its contents travel beside the outcome, in the order of
/// [`MessageView::contents`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageView {
    /// Its number.
    pub sequence: SequenceNumber,
    /// The record.
    pub message: Message,
    /// Its session.
    pub session: Option<SessionId>,
    /// Where its content and its overlay lie.
    pub places: [Place; 2],
}

impl MessageView {
    /// The proof of the delivery this view was handed out with, if it is locked.
    pub fn token(&self) -> Option<LockToken> {
        match self.message.standing.state {
            State::Locked(lock) => Some(LockToken {
                sequence: self.sequence,
                number: self.message.standing.number,
                incarnation: lock.incarnation,
            }),
            _ => None,
        }
    }

    /// The contents that belong to it: what was sent, then what was changed.
    pub fn contents(&self) -> impl Iterator<Item = (ContentId, Place)> {
        [self.message.content, self.message.standing.overlay]
            .into_iter()
            .zip(self.places)
            .filter(|(id, _)| id.0 != 0)
    }
}
