//! `bellwether schedule`: recurring rules that send messages.

mod create;
mod delete;
mod list;
mod pause;
mod resume;
mod run_now;
mod show;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// Send messages again and again, at times that a rule says.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Pause(pause::Pause),
    Resume(resume::Resume),
    RunNow(run_now::RunNow),
    Delete(delete::Delete),
}

impl Schedule {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Create(create) => create.run(out),
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Pause(pause) => pause.run(out),
            Self::Resume(resume) => resume.run(out),
            Self::RunNow(run_now) => run_now.run(out),
            Self::Delete(delete) => delete.run(out),
        }
    }
}
