//! `bellwether request show`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::super::failure::{Ended, Failure};
use super::super::human::parse_duration;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether request show sums r1
  bellwether request show sums r1 --wait 10s --output json | jq -r .answer";

/// How a request stands, and its answer if it has one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which queue it was sent to.
    queue: String,
    /// Which request.
    id: String,
    /// Wait until it is over, so long at most.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    wait: Duration,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let Some(result) = queue.result(&self.id, self.wait).await? else {
                return Err(Failure::NotThere(format!(
                    "no result is kept for request {:?} of queue {:?}: it was never asked, or its \
                     time is over; `bellwether request send --keep` says for how long",
                    self.id, self.queue
                )));
            };
            super::tell(screen, &self.id, &result)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
