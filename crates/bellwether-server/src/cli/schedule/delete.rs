//! `bellwether schedule delete`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule delete nightly";

/// Remove a schedule; messages that it sent stay.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    /// Which schedule.
    schedule: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Delete {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).schedule(&self.schedule)?.delete().await?;
            screen.say(
                &format!("schedule {:?} is deleted", self.schedule),
                &json!({ "schedule": self.schedule, "deleted": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
