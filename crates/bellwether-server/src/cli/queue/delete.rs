//! `bellwether queue delete`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::ask::Yes;
use super::super::failure::{Ended, NOTHING};
use super::super::fence::UnderFence;
use super::super::human::count;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether queue delete orders
  bellwether queue delete orders --yes";

/// Remove a queue with all its messages and dead letters.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Delete {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let queue = store.queue(&self.queue)?;
            let counts = queue.info().await?.counts;
            let there = counts.ready + counts.locked + counts.scheduled + counts.deferred;
            let question = format!(
                "Delete queue {:?} with {} and {}?",
                self.queue,
                count(there, "message"),
                count(counts.dead_letters, "dead letter")
            );
            if !self.yes.confirm(&question)? {
                return Ok(ExitCode::from(NOTHING));
            }
            queue.delete().await?;
            let name = queue.name().as_str();
            screen.say(
                &format!("queue {name:?} is deleted"),
                &json!({ "queue": name, "deleted": true }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
