//! `bellwether queue purge`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::ask::Yes;
use super::super::failure::{Ended, NOTHING};
use super::super::fence::UnderFence;
use super::super::human::{When, count, parse_when};
use super::super::reach::{Reach, now};

const EXAMPLES: &str = "\
Examples:
  bellwether queue purge orders
  bellwether queue purge orders --before -7d --yes";

/// Remove a queue's messages, but for those that somebody has locked.
///
/// Dead letters stay: `bellwether dead-letter purge` removes those.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Purge {
    /// Which queue.
    queue: String,
    /// Only those that came before this time: RFC 3339, or -7d for a week ago.
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    before: Option<When>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Purge {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let queue = store.queue(&self.queue)?;
            let counts = queue.info().await?.counts;
            let there = counts.ready + counts.scheduled + counts.deferred;
            let there = count(there, "message");
            let which = if self.before.is_some() { "what is old enough of the " } else { "" };
            let question = format!("Remove {which}{there} of queue {:?}?", self.queue);
            if !self.yes.confirm(&question)? {
                return Ok(ExitCode::from(NOTHING));
            }
            let purged = queue.purge(self.before.map(|before| before.wall(now()))).await?;
            screen.say(
                &format!("removed {}", count(purged, "message")),
                &json!({ "queue": queue.name().as_str(), "purged": purged }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
