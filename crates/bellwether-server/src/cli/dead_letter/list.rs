//! `bellwether dead-letter list`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::{Ended, Failure};
use super::super::form::message as form;
use super::super::human::Wall;
use super::super::peek::PREVIEW_CHARS;
use super::super::reach::Reach;
use super::super::table::Table;
use super::filter::Filter;

const EXAMPLES: &str = "\
Examples:
  bellwether dead-letter list orders
  bellwether dead-letter list orders --summary
  bellwether dead-letter list orders --reason MaxDeliveryCountExceeded --older-than 1h
  bellwether dead-letter list orders --property tenant=acme --output json";

/// A queue's dead letters, and why they are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    filter: Filter,
    /// Only how many there are, by reason.
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
            let mut table = Table::new(&[
                ">NUMBER",
                "ENQUEUED",
                ">DELIVERIES",
                "REASON",
                "DESCRIPTION",
                "BODY",
            ]);
            self.filter
                .each(&queue, |letter| {
                    let reason = letter.dead_letter_reason().unwrap_or("").to_owned();
                    if self.summary {
                        *reasons.entry(reason).or_default() += 1;
                    } else if screen.is_json() {
                        screen.json(&form::to_json(letter))?;
                    } else {
                        table.row([
                            letter.sequence().to_string(),
                            Wall(letter.enqueued_at()).to_string(),
                            letter.deliveries().to_string(),
                            reason,
                            letter.dead_letter_description().unwrap_or("").into(),
                            match letter.message() {
                                Ok(message) => form::preview(message, PREVIEW_CHARS),
                                Err(what) => format!("(unreadable: {what})"),
                            },
                        ]);
                    }
                    Ok::<_, Failure>(())
                })
                .await?;
            match (self.summary, screen.is_json()) {
                (true, true) => {
                    screen.json(&json!({ "queue": self.queue, "by_reason": reasons }))?;
                }
                (true, false) => {
                    let mut table = Table::new(&["REASON", ">DEAD LETTERS"]);
                    for (reason, count) in reasons {
                        table.row([reason, count.to_string()]);
                    }
                    screen.table(&table)?;
                }
                (false, true) => {}
                (false, false) => screen.table(&table)?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
