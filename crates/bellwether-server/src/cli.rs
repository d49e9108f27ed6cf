//! The command line: one file a command.

mod journal;
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::journal::JournalFault;
use clap::{Parser, Subcommand};

use crate::config::ConfigFault;

/// The command line was not understood.
pub(crate) const USAGE: u8 = 64;
/// The address cannot be listened on.
const UNAVAILABLE: u8 = 69;
/// The store could not be looked at, opened or kept.
const IO_FAULT: u8 = 74;
/// Another process has the store open.
const IN_USE: u8 = 75;
/// A setting is wrong.
const CONFIG: u8 = 78;

/// Leader election and competing consumers, together, on one durable log.
#[derive(Debug, Parser)]
#[command(name = "bellwether", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    #[command(subcommand)]
    Journal(journal::Journal),
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A setting is wrong.
    Config(ConfigFault),
    /// The address can be reached by others, who would need no credentials.
    Exposed(String),
    /// The address cannot be listened on.
    Listen(String),
    /// The server cannot start for want of something of the system's.
    Start(String),
    /// The store cannot be opened, or failed.
    Store(bellwether::Error),
    /// There is no store in the folder.
    NoStore(String),
    /// The store could not be looked at.
    Journal(JournalFault),
    /// The answer could not be written.
    Output(io::Error),
}

impl Cli {
    /// Runs the command; what it has to say goes to `out`.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        match &self.command {
            Command::Serve(serve) => serve.run(out),
            Command::Journal(journal) => journal.run(out),
        }
    }
}

impl Failure {
    /// The exit code that stands for it.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Config(_) | Self::Exposed(_) => CONFIG,
            Self::Listen(_) => UNAVAILABLE,
            Self::Store(bellwether::Error::Fault(JournalFault::InUse { .. })) => IN_USE,
            Self::NoStore(_)
            | Self::Journal(_)
            | Self::Output(_)
            | Self::Start(_)
            | Self::Store(_) => IO_FAULT,
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(fault) => fault.fmt(f),
            Self::Exposed(why) | Self::Listen(why) | Self::Start(why) => f.write_str(why),
            Self::Store(error) => {
                error.fmt(f)?;
                f.write_str(way_out(error))
            }
            Self::NoStore(dir) => {
                write!(f, "there is no store in {dir}; name the folder of a `file:` address")
            }
            Self::Journal(fault) => fault.fmt(f),
            Self::Output(e) => write!(f, "cannot write the answer: {e}"),
        }
    }
}

/// What whoever starts a server can do about it, where the fault itself does not say.
fn way_out(error: &bellwether::Error) -> &'static str {
    match error {
        bellwether::Error::Fault(JournalFault::InUse { .. }) => {
            "; stop that process, or name another folder with --data"
        }
        bellwether::Error::Fault(JournalFault::Unusable { .. }) => {
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

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Output(e)
    }
}
