//! What can go wrong, and who must act.

use bellwether_core::error::Refusal;

use crate::journal::JournalFault;

/// Why a call did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The rules said no; nothing was changed. The caller must act, or wait if
    /// [`Refusal::retry`] says so.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The machinery failed; the operator must act.
    #[error(transparent)]
    Fault(#[from] JournalFault),
    /// It is not known whether the call took effect. Ask again with the same request number.
    #[error("the outcome is unknown: {0}; ask again, or look")]
    Unknown(String),
    /// The server could not do it; its operator must act.
    #[error("the server failed: {0}")]
    Failed(String),
    /// There is no connection to the server; nothing was asked of it.
    #[error("cannot reach {address}: {why}; is the server running there (`bellwether serve`)?")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What happened.
        why: String,
    },
    /// The server does not let this program in; whoever keeps its keys must act, or this program
    /// must show another credential.
    #[error("{address} does not let us in: {why}")]
    Denied {
        /// Where it is.
        address: String,
        /// What it said.
        why: String,
    },
    /// The server is there, and no connection to it can be trusted or understood: the text says
    /// whether this side must act or the server's operator. Nothing was asked of it.
    #[error("no connection to {address}: {why}")]
    Handshake {
        /// Where it is.
        address: String,
        /// What is wrong, and who must act.
        why: String,
    },
    /// The store was closed.
    #[error("the store was closed by this process; open it again")]
    Closed,
    /// An address that names no store.
    #[error("cannot open {address:?}: {why}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// A stored message cannot be read.
    #[error(
        "message {sequence} of queue {queue:?} cannot be read: {what}; its bytes are kept; run `bellwether journal check` on the folder"
    )]
    Unreadable {
        /// Which queue.
        queue: String,
        /// Which message.
        sequence: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// The refusal, if the rules said no.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
