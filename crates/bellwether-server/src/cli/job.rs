//! `bellwether job`: work fanned out as messages and gathered again.

mod accept_gaps;
mod cancel;
mod forget;
mod items;
mod list;
mod results;
mod show;
mod start;
mod wait;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// Fan work out as messages, and gather what came of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    Start(start::Start),
    List(list::List),
    Show(show::Show),
    Wait(wait::Wait),
    Results(results::Results),
    Items(items::Items),
    AcceptGaps(accept_gaps::AcceptGaps),
    Cancel(cancel::Cancel),
    Forget(forget::Forget),
}

impl Job {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Start(start) => start.run(out),
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Wait(wait) => wait.run(out),
            Self::Results(results) => results.run(out),
            Self::Items(items) => items.run(out),
            Self::AcceptGaps(accept_gaps) => accept_gaps.run(out),
            Self::Cancel(cancel) => cancel.run(out),
            Self::Forget(forget) => forget.run(out),
        }
    }
}
