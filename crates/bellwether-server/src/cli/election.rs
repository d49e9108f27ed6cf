//! `bellwether election`: who leads.

mod chaos;
mod hand_over;
mod history;
mod list;
mod pause;
mod show;
mod step_down;
mod watch;
mod who;
mod why;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

pub(super) use chaos::Candidate;

/// See who leads and why that changed; ask a leader to step down, hand over, pause; try failovers.
#[derive(Debug, Subcommand)]
pub(crate) enum Election {
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    History(history::History),
    Who(who::Who),
    Why(why::Why),
    StepDown(step_down::StepDown),
    HandOver(hand_over::HandOver),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Chaos(chaos::Chaos),
}

impl Election {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Watch(watch) => watch.run(out),
            Self::History(history) => history.run(out),
            Self::Who(who) => who.run(out),
            Self::Why(why) => why.run(out),
            Self::StepDown(step_down) => step_down.run(out),
            Self::HandOver(hand_over) => hand_over.run(out),
            Self::Pause(pause) => pause.run(out),
            Self::Resume(resume) => resume.run(out),
            Self::Chaos(chaos) => chaos.run(out),
        }
    }
}
