//! What a flow hears from its shell.

use super::action::Why;
use crate::name::LockToken;
use crate::time::BootTime;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pump begins.
    Start,
    /// Stop taking messages; what runs goes on.
    Pause,
    /// Take messages again.
    Resume,
    /// Stop taking, let what runs end, settle it.
    Stop,
    /// Time has passed. May come early, late, doubled or for nothing.
    Wake,
    /// The receive was answered, perhaps with nothing.
    Received {
        /// Which receive.
        attempt: u64,
        /// What it brought, in the queue's order.
        deliveries: Vec<Arrival>,
    },
    /// The receive was refused, or nobody knows. Messages it may have locked come back by
    /// themselves.
    ReceiveFailed {
        /// Which receive.
        attempt: u64,
    },
    /// The handler ended.
    HandlerDone {
        /// Of which delivery.
        token: LockToken,
        /// With what result.
        verdict: Verdict,
    },
    /// The handler ended with an error, or panicked.
    HandlerFailed {
        /// Of which delivery.
        token: LockToken,
    },
    /// The lock was started anew.
    Renewed {
        /// Of which delivery.
        token: LockToken,
        /// For how long.
        lock_ms: u32,
    },
    /// The lock is lost.
    RenewRefused {
        /// Of which delivery.
        token: LockToken,
    },
    /// Nobody knows whether the lock was started anew.
    RenewFailed {
        /// Of which delivery.
        token: LockToken,
    },
    /// The session is held as long as this, and with it everything that is locked under it.
    Held {
        /// How long.
        trust: Trust,
    },
    /// The session is no longer ours, and nothing that was locked under it.
    HoldLost {
        /// In what way.
        why: Why,
    },
    /// The delivery is ended.
    Settled {
        /// Which delivery.
        token: LockToken,
    },
    /// The lock was lost before the delivery could be ended.
    SettleRefused {
        /// Which delivery.
        token: LockToken,
    },
    /// Nobody knows whether the delivery is ended.
    SettleFailed {
        /// Which delivery.
        token: LockToken,
    },
}

/// How long a lock is believed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// No handler starts after this.
    pub trusted_until: BootTime,
    /// The lock is surely over.
    pub ends_at: BootTime,
}

/// One delivery as it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its proof.
    pub token: LockToken,
    /// How long it was locked for.
    pub lock_ms: u32,
    /// Its delivery count, this one included.
    pub deliveries: u32,
}

/// What a handler says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The work is done. Without `auto_settle` this settles nothing: the handler had to.
    Complete,
    /// Not now.
    Retry {
        /// Not before so long from now; by the delivery count if `None`.
        after_ms: Option<u64>,
    },
    /// It can never work.
    DeadLetter,
    /// Set aside.
    Defer,
    /// Given back unused.
    Release,
    /// The handler has settled it itself.
    SettledByHandler,
}
