//! `bellwether job items`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::name::Part;
use bellwether::job::{ItemState, Which};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::job as form;
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether job items thumbnails --state failed
  bellwether job items thumbnails --from 5000 --max 20";

/// Which items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum State {
    /// All that were sent.
    #[default]
    All,
    /// Their message waits or is worked on.
    Pending,
    /// Their work is done.
    Done,
    /// They will not be done unless somebody sends them again.
    Failed,
}

/// The items of a job, how each stands, and where its message or dead letter is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Items {
    /// Which job.
    job: String,
    /// Only those that stand so.
    #[arg(long, value_enum, default_value_t)]
    state: State,
    /// From this index on.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u32,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,
    #[command(flatten)]
    reach: Reach,
}

impl Items {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let which = match self.state {
            State::All => Which::All,
            State::Pending => Which::Pending,
            State::Done => Which::Done,
            State::Failed => Which::Failed,
        };
        self.reach.look(out, async |store, screen| {
            let items = store.job(&self.job)?.items(self.from, self.max, which).await?;
            if screen.is_json() {
                screen.json(&Value::Array(items.iter().map(form::item).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = [">INDEX", "STATE", "WHY", "WHERE", ">DELIVERIES", "LOCKED"];
            let mut table = Table::new(&head);
            for item in &items {
                let why = match item.info.state {
                    ItemState::Failed { why, .. } => form::failure_name(why),
                    ItemState::Pending { .. } | ItemState::Done { .. } => "",
                };
                let message = item.info.message.as_ref();
                let place = message.map_or(String::new(), |message| {
                    let dead = if message.part == Part::Dead { " (dead letter)" } else { "" };
                    format!("{} {}{dead}", message.queue, message.sequence)
                });
                table.row([
                    item.info.index.to_string(),
                    form::item_state(item).into(),
                    why.into(),
                    place,
                    message.map_or(String::new(), |message| message.deliveries.to_string()),
                    message.map_or("", |m| if m.is_locked { "yes" } else { "no" }).into(),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
