//! `bellwether election`: who leads.

mod history;
mod list;
mod show;
mod step_down;
mod watch;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// See who leads, and ask a leader to step down.
#[derive(Debug, Subcommand)]
pub(crate) enum Election {
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    History(history::History),
    StepDown(step_down::StepDown),
}

impl Election {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Watch(watch) => watch.run(out),
            Self::History(history) => history.run(out),
            Self::StepDown(step_down) => step_down.run(out),
        }
    }
}
