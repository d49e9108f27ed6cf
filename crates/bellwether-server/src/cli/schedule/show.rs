//! `bellwether schedule show`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::super::failure::Ended;
use super::super::form::schedule as form;
use super::super::human::Wall;
use super::super::reach::Reach;
use super::super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule show nightly
  bellwether schedule show nightly --output json | jq -r .next_at";

/// One schedule: when it is due, and what became of its slots.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which schedule.
    schedule: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let info = store.schedule(&self.schedule)?.show().await?;
            if screen.is_json() {
                screen.json(&form::to_json(&info))?;
                return Ok(ExitCode::SUCCESS);
            }
            let settings = &info.settings;
            let session = settings.session.as_ref();
            let lines = pairs(&[
                ("schedule", info.name.to_string()),
                ("rule", settings.rule.clone()),
                ("zone", settings.zone.clone()),
                ("queue", settings.queue.to_string()),
                ("session", session.map_or("none".into(), ToString::to_string)),
                ("missed", form::missed_name(settings.missed)),
                ("created", Wall(info.created_at).to_string()),
                ("next", info.next.map_or("paused".into(), |at| Wall(at).to_string())),
                ("last", info.last.map_or("never".into(), |at| Wall(at).to_string())),
                ("sent", info.sent.to_string()),
                ("skipped", info.skipped.to_string()),
            ]);
            lines.iter().try_for_each(|line| screen.line(line))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
