//! Transactions: several steps that all happen, or none of them.
//!
//! ```text
//!   receive ─► work ─► Transact [ complete the input, send the outputs, keep the session's state ]
//!                 │                    all of it is in one frame of the journal, or nothing is
//!                 └── the process dies: the input comes back, and no output was sent
//! ```
//!
//! 1. Every step is checked before the first one is done, against how things stand before the
//!    transaction and what the steps before it will have changed. One that would be refused refuses
//!    them all, and the refusal names it ([`crate::error::StepRefusal`]).
//! 2. What a step before it completes or cancels makes room for what it sends; what is given back,
//!    deferred or dead-lettered does not: it stays, or goes where other rules send it.
//! 3. A delivery is settled once, also within one transaction.
//! 4. The fence of the request holds for all of it, and its number makes all of it happen once.

use crate::command::{NewContent, Settlement};
use crate::few::Few;
use crate::message::NewMessage;
use crate::name::{NoteKey, QueueName, QueuePath, SequenceNumber, SessionToken};
use crate::note::{ClaimToken, Report};

/// One part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ends a delivery.
    Settle {
        /// Where.
        from: QueuePath,
        /// Which, and how.
        settlement: Settlement,
    },
    /// Sends messages.
    Send {
        /// Where to.
        queue: QueueName,
        /// What.
        messages: Few<NewMessage>,
        /// The content of the first one; those of the others follow it.
        first: u32,
    },
    /// Keeps or clears a session's state.
    SetSessionState {
        /// In which queue.
        queue: QueueName,
        /// Which hold.
        token: SessionToken,
        /// The content; `None` clears.
        state: Option<NewContent>,
    },
    /// Takes back scheduled messages.
    Cancel {
        /// Where.
        queue: QueueName,
        /// Which.
        sequences: Vec<SequenceNumber>,
    },
    /// Sends one message and keeps a result for it. If one is kept under that key already, it was
    /// asked before: nothing is sent, and its number is zero as a duplicate's is.
    Request {
        /// Where to.
        queue: QueueName,
        /// What.
        message: NewMessage,
        /// Which content.
        content: u32,
        /// The id of the message.
        key: NoteKey,
        /// How long the result is kept after it was last written.
        ttl_ms: u64,
    },
    /// Writes a result, unless a final one is there.
    Report {
        /// Of which queue.
        queue: QueueName,
        /// Of the message with this id.
        key: NoteKey,
        /// How it goes.
        report: Report,
        /// What came of it, or why it failed.
        content: Option<NewContent>,
        /// How long it is kept even if nobody asked for it; then it is not, if `None`.
        ttl_ms: Option<u64>,
    },
    /// The claimed work is done.
    Finish {
        /// Whose work it is.
        scope: QueueName,
        /// Which piece.
        key: NoteKey,
        /// The proof of the claim.
        token: ClaimToken,
        /// What came of it.
        content: Option<NewContent>,
    },
    /// The claimed work was not done: whoever claims it next has it.
    GiveUp {
        /// Whose work it is.
        scope: QueueName,
        /// Which piece.
        key: NoteKey,
        /// The proof of the claim.
        token: ClaimToken,
    },
}

impl Step {
    /// The contents that travel beside the command for it: index and length of each.
    pub fn contents(&self) -> impl Iterator<Item = NewContent> + '_ {
        let (messages, first, one) = match self {
            Self::Send { messages, first, .. } => (&messages[..], *first, None),
            Self::Settle { settlement, .. } => ([].as_slice(), 0, settlement.overlay),
            Self::SetSessionState { state, .. } => ([].as_slice(), 0, *state),
            Self::Request { message, content, .. } => {
                (std::slice::from_ref(message), *content, None)
            }
            Self::Report { content, .. } | Self::Finish { content, .. } => {
                ([].as_slice(), 0, *content)
            }
            Self::Cancel { .. } | Self::GiveUp { .. } => ([].as_slice(), 0, None),
        };
        let of_messages = messages.iter().enumerate().map(move |(nth, new)| NewContent {
            index: first.saturating_add(nth as u32),
            bytes: new.content_bytes,
        });
        of_messages.chain(one)
    }
}
