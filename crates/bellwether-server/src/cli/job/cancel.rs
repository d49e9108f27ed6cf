//! `bellwether job cancel`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether job cancel thumbnails";

/// End a job now. Items nobody works on are taken out of their queue.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cancel {
    /// Which job.
    job: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).job(&self.job)?.cancel().await?;
            screen.say(
                &format!("job {:?} is cancelled", self.job),
                &json!({ "job": self.job, "cancelled": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
