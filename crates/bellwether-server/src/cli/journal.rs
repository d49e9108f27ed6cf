//! `bellwether journal`: looks at the folder of a `file:` store without changing it.

mod check;
mod dump;
pub(super) mod show;
mod verdict;

use std::io::Write;
use std::process::ExitCode;

use clap::Subcommand;

use super::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0   clean
  1   torn tail: what was never durable is incomplete; opening cuts it off and keeps a copy
  2   damaged: what was durable is not sound; opening will refuse
  64  the command line was not understood
  74  could not look: no store there, unreadable, or a newer format
  75  could not look: another process has the store open";

/// Look at the journal of a `file:` store, without changing it.
#[derive(Debug, Subcommand)]
pub(crate) enum Journal {
    Check(check::Check),
    Dump(dump::Dump),
}

impl Journal {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        match self {
            Self::Check(check) => check.run(out),
            Self::Dump(dump) => dump.run(out),
        }
    }
}
