//! `bellwether job wait`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::Job;
use bellwether::job::Ending;
use clap::Args;

use super::super::failure::{Ended, Failure, NOTHING};
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  bellwether job wait thumbnails && bellwether job results thumbnails";

/// Wait for a job's end; ends with 1 unless every item is done.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Wait {
    /// Which job.
    job: String,
    #[command(flatten)]
    reach: Reach,
}

impl Wait {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let mut stop = Stop::listen()?;
            wait(&store.job(&self.job)?, screen, &mut stop).await
        })
    }
}

/// Waits for the end and writes the job down as it is then.
pub(super) async fn wait(job: &Job, screen: &mut Screen<'_>, stop: &mut Stop) -> Ended {
    let info = tokio::select! {
        info = job.ended() => info?,
        () = stop.asked() => {
            return Err(Failure::Stopped("stopped; the job goes on without us".into()));
        }
    };
    super::show::show(screen, &info)?;
    let is_whole = info.ended.is_some_and(|ended| ended.how == Ending::Completed);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(NOTHING) })
}
