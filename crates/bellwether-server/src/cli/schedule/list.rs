//! `bellwether schedule list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::schedule as form;
use super::super::human::Wall;
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule list
  bellwether schedule list --output json | jq '.[] | select(.paused)'";

/// All schedules and when they are due.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let schedules = store.schedules().await?;
            if screen.is_json() {
                screen.json(&Value::Array(schedules.iter().map(form::to_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = ["NAME", "RULE", "ZONE", "QUEUE", "NEXT", "LAST", ">SENT", ">SKIPPED"];
            let mut table = Table::new(&head);
            for info in &schedules {
                let settings = &info.settings;
                table.row([
                    info.name.to_string(),
                    settings.rule.clone(),
                    settings.zone.clone(),
                    settings.queue.to_string(),
                    info.next.map_or("paused".into(), |at| Wall(at).to_string()),
                    info.last.map_or("never".into(), |at| Wall(at).to_string()),
                    info.sent.to_string(),
                    info.skipped.to_string(),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
