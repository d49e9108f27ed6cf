//! `bellwether message show`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::delivery::Received;
use bellwether::{Queue, SequenceNumber};
use clap::Args;

use super::super::failure::{Ended, Failure};
use super::super::form::message as form;
use super::super::pages::find;
use super::super::reach::Reach;
use super::super::screen::Screen;

const EXAMPLES: &str = "\
Examples:
  bellwether message show orders 17
  bellwether message show orders 17 --output json | jq -r .body
  bellwether message show orders 17 --body > body.bin";

/// Everything about one message, also if it is a dead letter.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which queue.
    queue: String,
    /// Which message, by its number.
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
            let found = match find(&queue, sequence).await? {
                Some(found) => Some(found),
                None => find(&queue.dead_letters(), sequence).await?,
            };
            let found = found.ok_or_else(|| not_there(&queue, sequence))?;
            show(screen, &found, self.body)
        })
    }
}

/// Writes a message down.
pub(crate) fn show(screen: &mut Screen<'_>, received: &Received, only_body: bool) -> Ended {
    if only_body {
        let message = received.message().map_err(|what| Failure::BadInput(what.to_owned()))?;
        screen.bytes(message.body())?;
    } else if screen.is_json() {
        screen.json(&form::to_json(received))?;
    } else {
        for line in form::lines(received) {
            screen.line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said of a message that is not there.
pub(crate) fn not_there(queue: &Queue, sequence: SequenceNumber) -> Failure {
    Failure::NotThere(format!(
        "there is no message {sequence} in queue {:?}: it was completed, has expired, was removed, \
         or got another number when it came due; `bellwether peek` shows what is there",
        queue.name().as_str()
    ))
}
