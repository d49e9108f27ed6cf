//! `bellwether schedule resume`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule resume nightly";

/// Go on with the next slot from now.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Resume {
    /// Which schedule.
    schedule: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Resume {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).schedule(&self.schedule)?.resume().await?;
            screen.say(
                &format!("schedule {:?} goes on", self.schedule),
                &json!({ "schedule": self.schedule, "resumed": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
