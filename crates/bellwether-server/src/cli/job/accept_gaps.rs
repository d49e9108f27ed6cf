//! `bellwether job accept-gaps`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether job accept-gaps thumbnails";

/// From now on failed items are gaps: a job that only waits for a decision about them ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AcceptGaps {
    /// Which job.
    job: String,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl AcceptGaps {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            self.fence.of(store).job(&self.job)?.accept_gaps().await?;
            screen.say(
                &format!("job {:?} ends with gaps if it must", self.job),
                &json!({ "job": self.job, "accepts_gaps": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
