//! What a handler says of its message.

use std::error::Error as StdError;
use std::time::Duration;

use bellwether_core::flow;

use crate::message::{Message, Overlay};
use crate::queue::ms;

/// Why a handler failed, in its own words.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// How a message ends that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The work is done: the message goes.
    Complete,
    /// Not now: the message comes back after so long, or after the pump's own growing delay. The
    /// delivery counts.
    Retry(Option<Duration>),
    /// It can never work: the message becomes a dead letter.
    DeadLetter {
        /// Why, in a word or two that programs compare.
        reason: String,
        /// Why, in words for people.
        description: String,
    },
    /// Set aside until somebody asks for it by its number.
    Defer,
    /// Nothing was done: the message comes back at once and the delivery does not count.
    Release,
    /// The work is done and this is the answer: it is sent to the message's `reply_to`, with the
    /// message's id as its correlation id and `reply_to_session` as its session, and the message goes.
    /// Dropped if the message names no queue for it.
    Reply(Box<Message>),
}

impl Verdict {
    /// A dead letter with its reason and description.
    pub fn dead_letter(reason: impl Into<String>, description: impl Into<String>) -> Self {
        Self::DeadLetter { reason: reason.into(), description: description.into() }
    }

    /// A reply with this body, or this message.
    pub fn reply(message: impl Into<Message>) -> Self {
        Self::Reply(Box::new(message.into()))
    }

    /// The word for the rules; what travels beside it goes into `changes`.
    pub(super) fn into_core(self, changes: &mut Overlay) -> flow::Verdict {
        match self {
            // The reply has been sent.
            Self::Complete | Self::Reply(_) => {
                // A message that goes has no use for changes.
                *changes = Overlay::default();
                flow::Verdict::Complete
            }
            Self::Retry(after) => flow::Verdict::Retry { after_ms: after.map(ms) },
            Self::DeadLetter { reason, description } => {
                changes.reason = Some(reason);
                changes.description = Some(description);
                flow::Verdict::DeadLetter
            }
            Self::Defer => flow::Verdict::Defer,
            Self::Release => flow::Verdict::Release,
        }
    }
}

/// What a handler may return: nothing, a [`Verdict`], or a `Result` of one of these. An error is a
/// failure of that message: it comes back after the pump's growing delay.
pub trait IntoVerdict {
    /// The verdict, or why the handler failed.
    fn into_verdict(self) -> Result<Verdict, Failure>;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Result<Verdict, Failure> {
        Ok(Verdict::Complete)
    }
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Verdict, Failure> {
        Ok(self)
    }
}

impl<T: IntoVerdict, E: Into<Failure>> IntoVerdict for Result<T, E> {
    fn into_verdict(self) -> Result<Verdict, Failure> {
        self.map_err(Into::into)?.into_verdict()
    }
}
