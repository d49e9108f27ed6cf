//! What a flow asks its shell to do.

use crate::command::Disposition;
use crate::name::LockToken;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for messages.
    Receive {
        /// Which receive; grows with each.
        attempt: u64,
        /// At most so many.
        max: u32,
        /// How long to wait for the first one.
        wait_ms: u64,
    },
    /// Take the receive back. It is still answered: with what came before, or with nothing.
    Withdraw {
        /// Which receive.
        attempt: u64,
    },
    /// Run the handler.
    Handle {
        /// For which delivery.
        token: LockToken,
    },
    /// Tell the running handler to stop. It still ends by `HandlerDone` or `HandlerFailed`.
    CancelHandler {
        /// Of which delivery.
        token: LockToken,
        /// Why.
        why: Cause,
    },
    /// Start the lock anew.
    Renew {
        /// Of which delivery.
        token: LockToken,
    },
    /// End the delivery. The same token again is the same request again, under the same request
    /// number, so that a settlement whose answer was lost is not refused.
    Settle {
        /// Which delivery.
        token: LockToken,
        /// How it ends.
        disposition: Disposition,
    },
    /// Tell the user's error callback. The shell knows the queue, and the words if any.
    Report {
        /// What went wrong.
        source: Source,
        /// With which delivery; none for a receive.
        token: Option<LockToken>,
        /// In what way.
        why: Why,
    },
    /// Nothing is open any more and nothing more will be asked.
    Stopped,
}

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its lock is lost: its result will be dropped.
    LockLost,
    /// The pump stops and the time to end in peace is over.
    GraceOver,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Asking for messages.
    Receive,
    /// Keeping a lock.
    Renew,
    /// Ending a delivery.
    Settle,
    /// The user's handler.
    Handler,
    /// Asking for a session.
    Accept,
    /// Letting go of a session.
    Close,
}

/// In what way it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The rules said no: the lock is lost.
    Refused,
    /// Nobody knows whether it was done; it is tried again.
    Unknown,
    /// The lock's time is over; it is not tried again, and the message comes back.
    GivenUp,
    /// The handler failed or panicked.
    Failed,
}
