//! `bellwether queue list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::queue as form;
use super::super::human::Size;
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether queue list
  bellwether queue list --data ./store --output json";

/// All queues and what is in them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queues = store.queues().await?;
            if screen.is_json() {
                screen.json(&Value::Array(queues.iter().map(form::to_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut table = Table::new(&[
                "NAME",
                "STATUS",
                ">READY",
                ">LOCKED",
                ">SCHEDULED",
                ">DEFERRED",
                ">DEAD",
                ">SIZE",
            ]);
            for info in &queues {
                let counts = &info.counts;
                table.row([
                    info.name.to_string(),
                    form::status_name(info.settings.status).into(),
                    counts.ready.to_string(),
                    counts.locked.to_string(),
                    counts.scheduled.to_string(),
                    counts.deferred.to_string(),
                    counts.dead_letters.to_string(),
                    Size(counts.size_bytes).to_string(),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
