//! `bellwether job start`.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::job::{Job, OnFailure};
use clap::{Args, ValueEnum};

use super::super::failure::{Ended, Failure};
use super::super::fence::UnderFence;
use super::super::form::job as form;
use super::super::human::{count, parse_duration};
use super::super::lines::Lines;
use super::super::reach::Reach;
use super::super::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  ls *.jpg | bellwether job start thumbnails --over images
  bellwether job start night --over orders --file ids.txt --on-failure gaps --gather-in done
  bellwether job start night --over orders --file ids.txt --wait && bellwether job results night";

/// What a failed item means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// The job waits until somebody sends it again, accepts the gap, or cancels the job.
    #[default]
    Wait,
    /// The job has failed, at once.
    Fail,
    /// The job goes on and ends with gaps.
    Gaps,
}

/// Make a job and send its items: one for every line of the input.
///
/// The same again goes on where it was: items that were sent are not sent a second time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Start {
    /// Its name.
    job: String,
    /// The queue its items go to.
    #[arg(long, value_name = "QUEUE")]
    over: String,
    /// The items are the lines of this file; those of the input if not given.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// What a failed item means.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    on_failure: Policy,
    /// One message is sent there when the job has ended.
    #[arg(long, value_name = "QUEUE")]
    gather_in: Option<String>,
    /// What that message says.
    #[arg(long, value_name = "TEXT", default_value = "", requires = "gather_in")]
    gather_body: String,
    /// The job ends so long after it was made, whatever is missing.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// The job is forgotten so long after its end [default: 24h].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retention: Option<Duration>,
    /// Wait for the job's end; ends with 1 unless every item is done.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Start {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let job = self.job(store)?;
            let mut stop = Stop::listen()?;
            let items = tokio::select! {
                items = self.items() => items?,
                () = stop.asked() => return Err(Failure::Stopped("stopped; no item was sent".into())),
            };
            let dispatch = job.map(items).dispatch();
            let info = stop.after(dispatch).await.ok_or_else(|| {
                let why = "stopped; some items are sent, and the same again sends the rest";
                Failure::Stopped(why.into())
            })??;
            if self.wait {
                return super::wait::wait(&job, screen, &mut stop).await;
            }
            let sentence = format!(
                "job {:?} has {}, {} done",
                info.name.as_str(),
                count(info.dispatched.into(), "item"),
                info.done
            );
            screen.say(&sentence, &form::to_json(&info))?;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn job(&self, store: &bellwether::Bellwether) -> Result<Job, Failure> {
        let mut job = store.job(&self.job)?.over(&self.over).on_failure(match self.on_failure {
            Policy::Wait => OnFailure::Wait,
            Policy::Fail => OnFailure::Fail,
            Policy::Gaps => OnFailure::Gaps,
        });
        if let Some(queue) = &self.gather_in {
            job = job.gather_in(queue, self.gather_body.as_str());
        }
        if let Some(deadline) = self.deadline {
            job = job.deadline(deadline);
        }
        if let Some(retention) = self.retention {
            job = job.retention(retention);
        }
        Ok(job)
    }

    async fn items(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let mut lines = match &self.file {
            None => Lines::of("the input", io::stdin())?,
            Some(path) => {
                let what = path.display().to_string();
                let file = File::open(path)
                    .map_err(|error| Failure::Input { what: what.clone(), error })?;
                Lines::of(&what, file)?
            }
        };
        let mut items = Vec::new();
        while let Some(line) = lines.next().await? {
            items.push(line);
        }
        Ok(items)
    }
}
