//! `bellwether job forget`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether job forget thumbnails";

/// Forget a job that has ended, with its results, before its retention is over.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Forget {
    /// Which job.
    job: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Forget {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).job(&self.job)?.forget().await?;
            screen.say(
                &format!("job {:?} is forgotten", self.job),
                &json!({ "job": self.job, "forgotten": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
