//! The command line: one file a command.

mod journal;
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::journal::JournalFault;
use clap::{Parser, Subcommand};

/// The command line was not understood.
pub(crate) const USAGE: u8 = 64;
/// What was asked for cannot be had now.
const UNAVAILABLE: u8 = 69;
/// The store could not be looked at.
const IO_FAULT: u8 = 74;

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
    /// The store could not be opened.
    Open(bellwether::Error),
    /// The address could not be listened on.
    Listen(String, io::Error),
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
            Self::Open(_) | Self::Listen(..) => UNAVAILABLE,
            Self::NoStore(_) | Self::Journal(_) | Self::Output(_) => IO_FAULT,
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Listen(address, e) => write!(f, "cannot listen on {address}: {e}"),
            Self::NoStore(dir) => {
                write!(f, "there is no store in {dir}; name the folder of a `file:` address")
            }
            Self::Journal(fault) => fault.fmt(f),
            Self::Output(e) => write!(f, "cannot write the answer: {e}"),
        }
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
