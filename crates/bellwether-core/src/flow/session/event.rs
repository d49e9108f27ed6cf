//! What a session flow hears from its shell, and what it asks of it.

use crate::flow::{Action, Event, FlowConfig, Source, Why};
use crate::name::SessionToken;

/// How a pump of sessions behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFlowConfig {
    /// Sessions at once.
    pub sessions: u32,
    /// How long an accept waits for a session.
    pub accept_wait_ms: u64,
    /// How long a session without messages is kept, unless another one needs its place.
    pub idle_ms: u64,
    /// How each session's messages are handled; `concurrency` and `prefetch` are each session's own.
    pub flow: FlowConfig,
}

impl Default for SessionFlowConfig {
    fn default() -> Self {
        let flow = FlowConfig::default();
        Self { sessions: 8, accept_wait_ms: flow.wait_ms, idle_ms: 10_000, flow }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The pump begins.
    Start,
    /// Stop taking; what runs goes on.
    Pause,
    /// Take again.
    Resume,
    /// Stop taking, let what runs end, settle it, let go of the sessions.
    Stop,
    /// Time has passed. May come early, late, doubled or for nothing.
    Wake,
    /// The accept was answered: with a session and how long it is held, or with none.
    Accepted {
        /// Which accept.
        attempt: u64,
        /// What it brought.
        session: Option<(SessionToken, u32)>,
    },
    /// The accept was refused, or nobody knows. A session it may have brought comes free by itself.
    AcceptFailed {
        /// Which accept.
        attempt: u64,
    },
    /// The hold was started anew.
    Renewed {
        /// Of which session.
        session: SessionToken,
        /// For how long.
        lock_ms: u32,
    },
    /// The hold is lost.
    RenewRefused {
        /// Of which session.
        session: SessionToken,
    },
    /// Nobody knows whether the hold was started anew.
    RenewFailed {
        /// Of which session.
        session: SessionToken,
    },
    /// The hold is lost, as the answer to something else has shown.
    Lost {
        /// Of which session.
        session: SessionToken,
    },
    /// The session is free, by this or because it was lost before.
    Closed {
        /// Which session.
        session: SessionToken,
    },
    /// Nobody knows whether the session is free.
    CloseFailed {
        /// Which session.
        session: SessionToken,
    },
    /// Something happened to a session's messages.
    In {
        /// Of which session.
        session: SessionToken,
        /// What; neither start, pause, resume nor stop, nor anything about the hold.
        event: Event,
    },
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Ask for the next free session.
    Accept {
        /// Which accept; grows with each.
        attempt: u64,
        /// How long to wait for it.
        wait_ms: u64,
    },
    /// Take the accept back. It is still answered: with what came before, or with none.
    WithdrawAccept {
        /// Which accept.
        attempt: u64,
    },
    /// Start the hold anew.
    Renew {
        /// Of which session.
        session: SessionToken,
    },
    /// Let go of the session.
    Close {
        /// Which session.
        session: SessionToken,
    },
    /// Do something about a session's messages.
    In {
        /// Of which session.
        session: SessionToken,
        /// What; never that it has stopped.
        action: Action,
    },
    /// Tell the user's error callback.
    Report {
        /// About which session; none for an accept.
        session: Option<SessionToken>,
        /// What went wrong.
        source: Source,
        /// In what way.
        why: Why,
    },
    /// Nothing is open any more and nothing more will be asked.
    Stopped,
}
