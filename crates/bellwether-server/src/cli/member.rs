//! `bellwether member`: who takes part.

mod list;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// See who takes part.
#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    List(list::List),
}

impl Member {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
        }
    }
}
