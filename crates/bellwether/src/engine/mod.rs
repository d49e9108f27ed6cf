//! Engines: what runs the ledger.
//!
//! ```text
//!   handle ── Call ──► inbox ──► writer: Shard::apply … Shard::seal ──► journal ──► flusher
//!      ▲                                      │ appended                              │ durable
//!      └────────────────── Reply ◄────────────┴──────────────────── Reply ◄───────────┘
//! ```
//!
//! [`shard`] is the order of effects without threads; the simulator drives it too. [`local`] puts
//! threads around it. [`remote`] reaches the engine of another process.

pub(crate) mod ask;
pub(crate) mod bodies;
pub mod content;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzz;
pub(crate) mod inbox;
pub mod local;
pub(crate) mod outbox;
pub(crate) mod pending;
pub mod remote;
pub mod shard;

use std::sync::Arc;

use bellwether_core::command::{Command, Request};
use bellwether_core::few::Few;
use bellwether_core::name::{MemberId, MemberSlot, RequestNumber};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use local::Local;
use pending::Pending;
use remote::Remote;

/// One request and the contents that travel beside it.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is asked.
    pub request: Request,
    /// The contents the command points to, by index.
    pub contents: Few<Bytes>,
}

/// One answer and the contents that travel beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What was done.
    pub outcome: Outcome,
    /// The contents of the outcome's messages, in the order of
    /// [`bellwether_core::message::MessageView::contents`]; a content that cannot be read is an
    /// error in its place.
    pub contents: Few<Result<Bytes, String>>,
}

/// A call without a request number, and without contents.
pub(crate) fn call(member: MemberSlot, command: Command) -> Call {
    let (number, answered_below) = (RequestNumber(0), RequestNumber(0));
    let request = Request { member, number, answered_below, command, fence: None };
    Call { request, contents: Few::default() }
}

/// An engine, with the member that this process is in it.
#[derive(Debug)]
pub(crate) enum Engine {
    Local { local: Arc<Local>, member: MemberSlot, id: MemberId },
    Remote(Remote),
}

impl Engine {
    #[inline]
    pub(crate) fn member(&self) -> MemberSlot {
        match self {
            Self::Local { member, .. } => *member,
            Self::Remote(remote) => remote.member(),
        }
    }

    pub(crate) fn member_id(&self) -> MemberId {
        match self {
            Self::Local { id, .. } => *id,
            Self::Remote(remote) => remote.member_id(),
        }
    }

    /// Hands in a call.
    #[inline]
    pub(crate) fn submit(&self, call: Call) -> Pending<'_> {
        match self {
            Self::Local { local, .. } => local.submit(call),
            Self::Remote(remote) => remote.submit(call),
        }
    }

    /// Hands in a call whose outcome stands even if nobody takes its answer.
    pub(crate) fn submit_for_good(&self, call: Call) -> Pending<'_> {
        match self {
            Self::Local { local, .. } => local.submit_for_good(call),
            Self::Remote(remote) => remote.submit_for_good(call),
        }
    }

    /// Hands in a call whose answer nobody waits for.
    pub(crate) fn tell(&self, call: Call) {
        match self {
            Self::Local { local, .. } => local.tell(call),
            Self::Remote(remote) => remote.tell(call),
        }
    }

    /// Finishes what is in flight, and lets go.
    pub(crate) async fn close(&self) {
        match self {
            Self::Local { local, .. } => local.close().await,
            Self::Remote(remote) => remote.close().await,
        }
    }
}
