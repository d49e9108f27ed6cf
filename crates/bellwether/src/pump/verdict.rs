//! What a handler says of its message.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bellwether_core::flow;

use crate::message::Overlay;
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
}

impl Verdict {
    /// A dead letter with its reason and description.
    pub fn dead_letter(reason: impl Into<String>, description: impl Into<String>) -> Self {
        Self::DeadLetter { reason: reason.into(), description: description.into() }
    }

    /// The word for the rules; what travels beside it goes into `changes`.
    pub(super) fn into_core(self, changes: &mut Overlay) -> flow::Verdict {
        match self {
            Self::Complete => {
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
/// failure of that message: it comes back after the pump's growing delay, unless it is [`Permanent`].
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
        match self.map_err(Into::into) {
            Ok(value) => value.into_verdict(),
            Err(failure) => Permanent::verdict(&*failure).ok_or(failure),
        }
    }
}

/// An error that no further try would change: the message is bad, or what it names does not exist. A
/// handler that fails with it, or with an error caused by it, makes its message a dead letter at once,
/// whatever deliveries it had left.
///
/// ```
/// # use bellwether::pump::Permanent;
/// fn parse(body: &str) -> Result<u64, Permanent> {
///     body.parse().map_err(|error| Permanent::new("BadBody", error))
/// }
/// # assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Debug)]
pub struct Permanent {
    reason: String,
    error: Failure,
}

impl Permanent {
    /// Why, in a word or two that programs compare, and in words for people.
    pub fn new(reason: impl Into<String>, error: impl Into<Failure>) -> Self {
        Self { reason: reason.into(), error: error.into() }
    }

    /// The verdict of a handler that failed, if what it failed with is permanent.
    fn verdict(failure: &(dyn StdError + 'static)) -> Option<Verdict> {
        let mut cause = failure;
        loop {
            if let Some(permanent) = cause.downcast_ref::<Self>() {
                let reason = permanent.reason.clone();
                return Some(Verdict::dead_letter(reason, failure.to_string()));
            }
            cause = cause.source()?;
        }
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Permanent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}
