//! `bellwether job list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::job as form;
use super::super::human::Wall;
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether job list
  bellwether job list --output json | jq '.[] | select(.stuck)'";

/// All jobs and how far they are; those that have ended until they are forgotten.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let jobs = store.jobs().await?;
            if screen.is_json() {
                screen.json(&Value::Array(jobs.iter().map(form::to_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = ["NAME", "STATE", "QUEUE", ">ITEMS", ">SENT", ">DONE", ">FAILED", "CREATED"];
            let mut table = Table::new(&head);
            for info in &jobs {
                table.row([
                    info.name.to_string(),
                    form::state_name(info).into(),
                    info.settings.queue.to_string(),
                    info.items.map_or("more to come".into(), |items| items.to_string()),
                    info.dispatched.to_string(),
                    info.done.to_string(),
                    info.failed.to_string(),
                    Wall(info.created_at).to_string(),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
