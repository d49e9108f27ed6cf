//! Engines: what runs the ledger.
//!
//! ```text
//!   handle ── Call ──► inbox ──► writer: Shard::apply … Shard::seal ──► journal ──► flusher
//!      ▲                                      │ appended                              │ durable
//!      └────────────────── Reply ◄────────────┴──────────────────── Reply ◄───────────┘
//! ```
//!
//! [`shard`] is the order of effects without threads; the simulator drives it too. [`local`] puts
//! threads around it.

pub(crate) mod ask;
pub(crate) mod bodies;
pub mod content;
pub(crate) mod inbox;
pub mod local;
pub(crate) mod pending;
pub mod shard;

use bellwether_core::command::Request;
use bellwether_core::few::Few;
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

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
