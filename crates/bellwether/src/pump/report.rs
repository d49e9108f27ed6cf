//! What goes wrong around a handler, and whom it is told to.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bellwether_core::flow::{Source, Why};
use bellwether_core::name::{QueuePath, SequenceNumber, SessionId};

use super::verdict::Failure;

pub(super) type OnError = Arc<dyn Fn(&PumpError) + Send + Sync>;

/// One thing that went wrong.
#[derive(Debug)]
pub struct PumpError {
    /// What was being done.
    pub source: Source,
    /// In what way it went wrong.
    pub why: Why,
    /// Where.
    pub queue: QueuePath,
    /// With which session, if the pump takes sessions; none for asking for one.
    pub session: Option<SessionId>,
    /// With which message; none for a receive or a session.
    pub sequence: Option<SequenceNumber>,
    /// The words of the store or of the handler, if there are any.
    pub error: Option<Failure>,
}

impl PumpError {
    /// False if whoever was told panicked.
    pub(super) fn tell(&self, on_error: Option<&OnError>) -> bool {
        if let Some(on_error) = on_error {
            return quietly(|| on_error(self));
        }
        true
    }
}

/// Whoever is told of errors must not add to them. False if it panicked.
pub(super) fn quietly(tell: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(tell)).is_ok()
}

impl fmt::Display for PumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::Receive => "receiving",
            Source::Renew if self.sequence.is_none() => "renewing the hold",
            Source::Renew => "renewing the lock",
            Source::Settle => "settling",
            Source::Handler => "the handler",
            Source::Accept => "asking for a session",
            Source::Close => "letting go",
        })?;
        if let Some(sequence) = self.sequence {
            write!(f, " of message {sequence}")?;
        }
        if let Some(session) = &self.session {
            write!(f, " of session {:?}", session.as_str())?;
        }
        write!(f, " of queue {:?} ", self.queue.queue)?;
        f.write_str(match self.why {
            Why::Refused => "was refused: the message is no longer ours",
            Why::Unknown => "failed and is tried again",
            Why::GivenUp => "was given up: the lock has run out and the message comes back",
            Why::Failed => "failed",
        })?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PumpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_deref().map(|error| error as _)
    }
}
