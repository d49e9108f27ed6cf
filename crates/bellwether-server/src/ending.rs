//! Why terms end, in the words of HTTP and of the command line.

use bellwether::core::command::ReleaseReason;
use bellwether::core::outcome::{EndedBy, LeftAs};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What became of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftAsName {
    /// It stands; or nobody wrote down how it ended.
    Held,
    /// It was given back: by its holder, or because its holder has gone.
    Released,
    /// It was taken away.
    Broken,
    /// Its time ran out.
    Expired,
}

impl From<LeftAs> for LeftAsName {
    fn from(left_as: LeftAs) -> Self {
        match left_as {
            LeftAs::Held => Self::Held,
            LeftAs::Broken | LeftAs::Ended { by: EndedBy::Broken, .. } => Self::Broken,
            LeftAs::Ended { by: EndedBy::RanOut, .. } => Self::Expired,
            LeftAs::Released | LeftAs::Ended { .. } => Self::Released,
        }
    }
}

/// What ended a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndedByName {
    /// Its holder gave it back; `reason` says why, if it said so.
    Released,
    /// Its holder said goodbye with all that it held.
    Goodbye,
    /// Its holder's process ended, by the word of the kernel or of a guardian.
    Died,
    /// It was not renewed in time: its holder crashed, froze or could not be reached.
    RanOut,
    /// An operator took it away.
    Broken,
    /// Its holder gave it another id, and so another term.
    ChangedId,
    /// Its holder's last connection was closed.
    Disconnected,
}

impl From<EndedBy> for EndedByName {
    fn from(by: EndedBy) -> Self {
        match by {
            EndedBy::Released { .. } => Self::Released,
            EndedBy::Goodbye => Self::Goodbye,
            EndedBy::Died => Self::Died,
            EndedBy::RanOut => Self::RanOut,
            EndedBy::Broken => Self::Broken,
            EndedBy::ChangedId => Self::ChangedId,
            EndedBy::Disconnected => Self::Disconnected,
        }
    }
}

/// Why a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReasonName {
    /// It was asked to step down.
    Asked,
    /// Its process shuts down.
    Shutdown,
    /// The work it led for is done.
    Finished,
    /// The work failed.
    Failed,
    /// The work made no progress for too long.
    Stalled,
    /// It hands over to a successor of its own choice.
    HandedOver,
    /// Its process has died: said by whoever saw that.
    Died,
}

impl From<ReleaseReason> for ReasonName {
    fn from(reason: ReleaseReason) -> Self {
        match reason {
            ReleaseReason::Asked => Self::Asked,
            ReleaseReason::Shutdown => Self::Shutdown,
            ReleaseReason::Finished => Self::Finished,
            ReleaseReason::Failed | ReleaseReason::FailedWith { .. } => Self::Failed,
            ReleaseReason::Stalled => Self::Stalled,
            ReleaseReason::HandedOver => Self::HandedOver,
            ReleaseReason::Died => Self::Died,
        }
    }
}

impl From<ReasonName> for ReleaseReason {
    fn from(reason: ReasonName) -> Self {
        match reason {
            ReasonName::Asked => Self::Asked,
            ReasonName::Shutdown => Self::Shutdown,
            ReasonName::Finished => Self::Finished,
            ReasonName::Failed => Self::Failed,
            ReasonName::Stalled => Self::Stalled,
            ReasonName::HandedOver => Self::HandedOver,
            ReasonName::Died => Self::Died,
        }
    }
}

/// The reason that the holder of an ended term gave.
pub(crate) fn reason_of(left_as: LeftAs) -> Option<ReasonName> {
    match left_as {
        LeftAs::Ended { by: EndedBy::Released { reason }, .. } => reason.map(Into::into),
        _ => None,
    }
}

/// The exit code of the work that failed, if it had one.
pub(crate) fn exit_code_of(left_as: LeftAs) -> Option<u32> {
    match left_as {
        LeftAs::Ended {
            by: EndedBy::Released { reason: Some(ReleaseReason::FailedWith { code }) },
            ..
        } => Some(code),
        _ => None,
    }
}

/// Half a sentence about a leader.
pub(crate) fn sentence(left_as: LeftAs) -> String {
    match exit_code_of(left_as) {
        Some(code) => format!("it stepped down because its work failed with exit code {code}"),
        None => plain_sentence(left_as).to_owned(),
    }
}

fn plain_sentence(left_as: LeftAs) -> &'static str {
    let by = match left_as {
        LeftAs::Held => return "how it ended was not written down",
        LeftAs::Released => return "it gave the lease back",
        LeftAs::Broken => return "the lease was taken away",
        LeftAs::Ended { by, .. } => by,
    };
    match by {
        EndedBy::Released { reason: None } => "it gave the lease back",
        EndedBy::Released { reason: Some(reason) } => match reason {
            ReleaseReason::Asked => "it stepped down because it was asked to",
            ReleaseReason::Shutdown => "it stepped down because its process was shut down",
            ReleaseReason::Finished => "it stepped down because its work was done",
            ReleaseReason::Failed | ReleaseReason::FailedWith { .. } => {
                "it stepped down because its work failed"
            }
            ReleaseReason::Stalled => "it stepped down because its work made no progress",
            ReleaseReason::HandedOver => "it handed over to a successor of its choice",
            ReleaseReason::Died => "its process died",
        },
        EndedBy::Goodbye => "its process said goodbye",
        EndedBy::Died => "its process died",
        EndedBy::RanOut => "it was not heard of in time: it crashed, froze or could not be reached",
        EndedBy::Broken => "an operator broke the lease",
        EndedBy::ChangedId => "it gave the lease another id",
        EndedBy::Disconnected => "its connection was closed",
    }
}
