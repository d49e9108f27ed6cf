//! `bellwether dead-letter purge`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::ask::Yes;
use super::super::failure::{Ended, NOTHING};
use super::super::fence::UnderFence;
use super::super::human::count;
use super::super::progress::Progress;
use super::super::reach::Reach;
use super::filter::Filter;

const EXAMPLES: &str = "\
Examples:
  bellwether dead-letter purge orders --dry-run
  bellwether dead-letter purge orders --older-than 30d --yes
  bellwether dead-letter purge orders --reason TTLExpiredException --yes";

/// So many are removed in one step.
const CHUNK_MAX: usize = 1000;

/// Remove dead letters for good.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Purge {
    /// Whose dead letters.
    queue: String,
    #[command(flatten)]
    filter: Filter,
    /// Only say how many there would be.
    #[arg(long)]
    dry_run: bool,
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
            let name = queue.name().as_str();
            let numbers = self.filter.numbers(&queue).await?;
            let found = numbers.len() as u64;
            let mut purged = 0;
            if !self.dry_run && found > 0 {
                let question =
                    format!("Remove {} of queue {name:?} for good?", count(found, "dead letter"));
                if !self.yes.confirm(&question)? {
                    return Ok(ExitCode::from(NOTHING));
                }
                let progress = Progress::of(Some(found), "removed");
                for chunk in numbers.chunks(CHUNK_MAX) {
                    purged += queue.dead_letters().remove(chunk.iter().copied()).await?;
                    progress.add(chunk.len() as u64);
                }
            }
            let sentence = if self.dry_run {
                format!("{} would be removed", count(found, "dead letter"))
            } else {
                format!("removed {}", count(purged, "dead letter"))
            };
            let dry_run = self.dry_run;
            screen.say(
                &sentence,
                &json!({ "queue": name, "found": found, "purged": purged, "dry_run": dry_run }),
            )?;
            Ok(if found == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
        })
    }
}
