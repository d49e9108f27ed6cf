//! `bellwether job show`.

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::job::JobInfo;
use clap::Args;

use super::super::failure::Ended;
use super::super::form::job as form;
use super::super::human::{Span, Wall};
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether job show thumbnails
  bellwether job show thumbnails --output json | jq .done";

/// One job: how it behaves, how far it is, how it ended.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which job.
    job: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            show(screen, &store.job(&self.job)?.show().await?)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Writes a job down.
pub(super) fn show(screen: &mut Screen<'_>, info: &JobInfo) -> io::Result<()> {
    if screen.is_json() {
        return screen.json(&form::to_json(info));
    }
    let settings = &info.settings;
    let none = || "none".to_owned();
    let lines = pairs(&[
        ("job", info.name.to_string()),
        ("state", form::state_name(info).into()),
        ("created", Wall(info.created_at).to_string()),
        ("ended", info.ended.map_or_else(none, |ended| Wall(ended.at).to_string())),
        ("items", info.items.map_or("more to come".into(), |items| items.to_string())),
        ("sent", info.dispatched.to_string()),
        ("done", info.done.to_string()),
        ("failed", info.failed.to_string()),
        ("queue", settings.queue.to_string()),
        ("on failure", form::on_failure_name(settings.on_failure).into()),
        ("gather in", settings.gather_to.as_ref().map_or_else(none, ToString::to_string)),
        ("gathered", if info.gathered { "yes" } else { "no" }.into()),
        ("deadline", settings.deadline_ms.map_or_else(none, |ms| Span(ms).to_string())),
        ("retention", Span(settings.retention_ms).to_string()),
    ]);
    lines.iter().try_for_each(|line| screen.line(line))
}
