//! `bellwether dead-letter`: what was set aside, and what becomes of it.

mod filter;
mod list;
mod purge;
mod redrive;
mod show;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// Look at dead letters, send them again, or remove them.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetter {
    List(list::List),
    Show(show::Show),
    Redrive(redrive::Redrive),
    Purge(purge::Purge),
}

impl DeadLetter {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Redrive(redrive) => redrive.run(out),
            Self::Purge(purge) => purge.run(out),
        }
    }
}
