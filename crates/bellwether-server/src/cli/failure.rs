//! Why a command did not do what was asked, in words and as an exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use bellwether::journal::JournalFault;
use bellwether::{Error, LeaseRefusal, Refusal};

use crate::config::ConfigFault;
use crate::unfinished::CannotWrite;

/// There was nothing to do, or the answer is no.
pub(crate) const NOTHING: u8 = 1;
/// The command line was not understood.
pub(crate) const USAGE: u8 = 64;
/// The rules say no, or what was given to read makes no sense.
const REFUSED: u8 = 65;
/// What was named is not there.
const NOT_THERE: u8 = 66;
/// The server cannot be reached, or an address cannot be listened on.
const UNAVAILABLE: u8 = 69;
/// The server, or this program, failed.
const INTERNAL: u8 = 70;
/// A store, a file or a pipe could not be used.
const IO_FAULT: u8 = 74;
/// The rules say no for now, or another process has the store open.
pub(crate) const TRY_AGAIN: u8 = 75;
/// It is not known whether it was done.
const UNKNOWN: u8 = 76;
/// The credential does not allow it.
const NOT_ALLOWED: u8 = 77;
/// A setting is wrong.
const CONFIG: u8 = 78;
/// Ended by Ctrl-C, as a shell says it.
const STOPPED: u8 = 130;

/// The table of exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   there was nothing to do, or the answer is no: no message came, nothing matched, the
      question was answered with no, `doctor` found a problem, `journal` a torn tail,
      `election chaos` something that must never happen
  2   `journal` found damage
  64  the command line was not understood, or a question was left without an answer
  65  refused: the rules say no, or what was given to read makes no sense
  66  what was named is not there: a queue, a message, a session, a lease, a file
  69  the server cannot be reached, or does not do that; `serve` cannot listen there
  70  the server or this program failed
  74  a store, a file or a pipe could not be used: not there, unreadable, damaged
  75  refused for now: held by somebody else, full or busy, or another process has the store
      open; the same may succeed later
  76  it is not known whether it was done; look, or ask again
  77  the server does not let this program in, or its credential does not allow it
  78  a setting of `serve` is wrong
  130 stopped by Ctrl-C before it was done";

/// How a command ends.
pub(crate) type Ended = Result<ExitCode, Failure>;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A setting is wrong.
    Config(ConfigFault),
    /// The address can be reached by others, who would need no credentials.
    Exposed(String),
    /// The rules that say who may ask cannot be used.
    Access(String),
    /// The address cannot be listened on.
    Listen(String),
    /// The server cannot start for want of something of the system's.
    Start(String),
    /// Another process has the store open.
    InUse(String),
    /// There is no store in the folder.
    NoStore(String),
    /// There is none, and the command could make one.
    NoStoreYet(String),
    /// The store could not be looked at.
    Journal(JournalFault),
    /// The answer could not be written.
    Output(io::Error),
    /// Something that was to be read could not be.
    Input {
        /// What.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// What was read makes no sense.
    BadInput(String),
    /// The command line makes no sense.
    Usage(String),
    /// What was named is not there.
    NotThere(String),
    /// The server cannot be reached.
    Unreachable(String),
    /// The server does not let this program in.
    NotAllowed(String),
    /// The store said no, or failed.
    Store(Error),
    /// This program could not do its part.
    Internal(String),
    /// Somebody wanted it to stop; what became of what was asked for.
    Stopped(String),
}

impl Failure {
    /// The exit code that stands for it.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Config(_) | Self::Exposed(_) | Self::Access(_) => CONFIG,
            Self::Unreachable(_) | Self::Listen(_) => UNAVAILABLE,
            Self::InUse(_) | Self::Journal(JournalFault::InUse { .. }) => TRY_AGAIN,
            Self::Input { error, .. } if error.kind() == io::ErrorKind::NotFound => NOT_THERE,
            Self::NotThere(_) => NOT_THERE,
            Self::NotAllowed(_) => NOT_ALLOWED,
            Self::NoStore(_)
            | Self::NoStoreYet(_)
            | Self::Journal(_)
            | Self::Output(_)
            | Self::Start(_)
            | Self::Input { .. } => IO_FAULT,
            Self::BadInput(_) => REFUSED,
            Self::Usage(_) => USAGE,
            Self::Internal(_) => INTERNAL,
            Self::Stopped(_) => STOPPED,
            Self::Store(error) => code_of(error),
        })
    }
}

fn code_of(error: &Error) -> u8 {
    match error {
        Error::Refused(refusal) if refusal.retry() => TRY_AGAIN,
        Error::Refused(
            Refusal::QueueNotFound(_)
            | Refusal::MessageNotFound(_)
            | Refusal::JobNotFound(_)
            | Refusal::ScheduleNotFound(_)
            | Refusal::Lease(LeaseRefusal::NotPresent(_)),
        ) => NOT_THERE,
        Error::Refused(Refusal::Forbidden { .. }) | Error::Denied { .. } => NOT_ALLOWED,
        Error::Refused(_) => REFUSED,
        Error::Fault(JournalFault::InUse { .. }) => TRY_AGAIN,
        Error::Fault(_) | Error::Unreadable { .. } => IO_FAULT,
        Error::Unknown(_) => UNKNOWN,
        Error::Failed(_) | Error::Closed => INTERNAL,
        Error::Unreachable { .. } | Error::Handshake { .. } => UNAVAILABLE,
        Error::Address { .. } => USAGE,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(fault) => fault.fmt(f),
            Self::NoStore(dir) => {
                write!(f, "there is no store in {dir}; name the folder of a `file:` address")
            }
            Self::NoStoreYet(dir) => {
                write!(f, "there is no store in {dir}; check the path, or make one with --create")
            }
            Self::Journal(fault) => fault.fmt(f),
            Self::Output(e) => write!(f, "cannot write the answer: {e}"),
            Self::Input { what, error } => write!(f, "cannot read {what}: {error}"),
            Self::BadInput(what)
            | Self::Usage(what)
            | Self::NotThere(what)
            | Self::Unreachable(what)
            | Self::NotAllowed(what)
            | Self::Exposed(what)
            | Self::Access(what)
            | Self::Listen(what)
            | Self::Start(what)
            | Self::InUse(what)
            | Self::Internal(what)
            | Self::Stopped(what) => f.write_str(what),
            Self::Store(error) => {
                error.fmt(f)?;
                f.write_str(way_out(error))
            }
        }
    }
}

/// What whoever starts a server can do about it, where the fault itself does not say.
fn way_out(error: &Error) -> &'static str {
    match error {
        Error::Fault(JournalFault::InUse { .. }) => {
            "; stop that process, or name another folder with --data"
        }
        Error::Fault(JournalFault::Unusable { .. }) => {
            "; let this user write there, or name another folder with --data"
        }
        _ => "",
    }
}

impl From<ConfigFault> for Failure {
    fn from(fault: ConfigFault) -> Self {
        Self::Config(fault)
    }
}

impl From<JournalFault> for Failure {
    fn from(fault: JournalFault) -> Self {
        Self::Journal(fault)
    }
}

impl From<CannotWrite> for Failure {
    fn from(cannot: CannotWrite) -> Self {
        Self::Start(cannot.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Output(e)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Store(refusal.into())
    }
}
