//! `bellwether lease list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::lease as form;
use super::super::human::{Span, Wall};
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether lease list
  bellwether lease list --output json | jq -r '.[] | select(.state == \"leased\") | .name'";

/// All leases: those of elections and those that stand by themselves.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let leases = store.leases().await?;
            if screen.is_json() {
                screen.json(&Value::Array(leases.iter().map(form::to_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut table = Table::new(&[
                "NAME", "KIND", "STATE", ">TERM", "GRANTED", ">TTL", ">LEFT", "HOLDER",
            ]);
            for info in &leases {
                table.row([
                    info.name.to_string(),
                    form::kind_name(info.kind).into(),
                    form::state_name(info.state).into(),
                    info.term.to_string(),
                    Wall(info.granted_at).to_string(),
                    Span(info.ttl_ms).to_string(),
                    Span(info.remaining_ms).to_string(),
                    info.metadata.clone(),
                ]);
                for other in &info.others {
                    table.row([
                        info.name.to_string(),
                        form::kind_name(info.kind).into(),
                        form::state_name(other.state).into(),
                        other.term.to_string(),
                        Wall(other.granted_at).to_string(),
                        Span(info.ttl_ms).to_string(),
                        Span(other.remaining_ms).to_string(),
                        other.metadata.clone(),
                    ]);
                }
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
