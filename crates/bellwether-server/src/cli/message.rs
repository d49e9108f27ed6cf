//! `bellwether message`: one message, looked at closely.

mod explain;
pub(super) mod show;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// Look at one message closely.
#[derive(Debug, Subcommand)]
pub(crate) enum Message {
    Show(show::Show),
    Explain(explain::Explain),
}

impl Message {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Show(show) => show.run(out),
            Self::Explain(explain) => explain.run(out),
        }
    }
}
