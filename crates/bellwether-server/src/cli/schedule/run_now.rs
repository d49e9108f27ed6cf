//! `bellwether schedule run-now`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule run-now nightly";

/// Send one message now, beside the slots.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunNow {
    /// Which schedule.
    schedule: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl RunNow {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).schedule(&self.schedule)?.run_now().await?;
            screen.say(
                &format!("schedule {:?} has sent a message", self.schedule),
                &json!({ "schedule": self.schedule, "ran": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
