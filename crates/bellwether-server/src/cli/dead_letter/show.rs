//! `bellwether dead-letter show`.

use std::io::Write;

use bellwether::SequenceNumber;
use clap::Args;

use super::super::failure::Ended;
use super::super::message::show::{not_there, show};
use super::super::pages::find;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether dead-letter show orders 17
  bellwether dead-letter show orders 17 --body > body.bin";

/// Everything about one dead letter.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which queue.
    queue: String,
    /// Which dead letter, by its number.
    number: u64,
    /// Only the body, byte for byte.
    #[arg(long)]
    body: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let sequence = SequenceNumber(self.number);
            let found = find(&queue.dead_letters(), sequence).await?;
            show(screen, &found.ok_or_else(|| not_there(&queue, sequence))?, self.body)
        })
    }
}
