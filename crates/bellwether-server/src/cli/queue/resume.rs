//! `bellwether queue resume`.

use std::io::Write;

use bellwether::Status;
use clap::Args;

use super::super::failure::Ended;
use super::super::reach::Reach;
use super::pause::set_status;

const EXAMPLES: &str = "\
Examples:
  bellwether queue resume orders";

/// Let a paused queue go on: sending and receiving, also if it has paused itself in an outage.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Resume {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    reach: Reach,
}

impl Resume {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        set_status(&self.reach, out, &self.queue, Status::Active, true)
    }
}
