//! `bellwether election show`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::super::failure::Ended;
use super::super::lease::show::{find, show};
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether election show chores
  bellwether election show chores --output json | jq -r .holder";

/// One election: who leads, under which term, and who waits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which election.
    election: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            show(screen, &find(store, &self.election).await?)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
