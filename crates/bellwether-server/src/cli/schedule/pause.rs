//! `bellwether schedule pause`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule pause nightly";

/// Send nothing until `resume`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pause {
    /// Which schedule.
    schedule: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Pause {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).schedule(&self.schedule)?.pause().await?;
            screen.say(
                &format!("schedule {:?} is paused", self.schedule),
                &json!({ "schedule": self.schedule, "paused": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
