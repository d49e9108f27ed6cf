//! `bellwether queue`: making, changing and removing queues.

mod create;
mod delete;
mod failures;
mod list;
mod pause;
mod purge;
mod resume;
mod set;
mod settings;
mod show;

use std::io::Write;

use clap::Subcommand;

use super::failure::Ended;

/// Make, change and remove queues.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Set(set::Set),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Purge(purge::Purge),
    Delete(delete::Delete),
}

impl Queue {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Create(create) => create.run(out),
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
            Self::Set(set) => set.run(out),
            Self::Pause(pause) => pause.run(out),
            Self::Resume(resume) => resume.run(out),
            Self::Purge(purge) => purge.run(out),
            Self::Delete(delete) => delete.run(out),
        }
    }
}
