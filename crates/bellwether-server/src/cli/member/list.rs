//! `bellwether member list`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::LeaseName;
use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::lease as form;
use super::super::human::{Span, Wall};
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether member list
  bellwether member list --output json | jq length";

/// All members that are here, this command's own included: when each was last heard of, what it
/// holds and what it waits for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let members = store.member_health().await?;
            if screen.is_json() {
                screen.json(&Value::Array(members.iter().map(form::member).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = ["MEMBER", "JOINED", ">SILENT", ">TTL", "SAYS", "LEASES", "WAITS FOR"];
            let mut table = Table::new(&head);
            for health in &members {
                let info = &health.info;
                let waits: Vec<&str> = health.waits_for.iter().map(LeaseName::as_str).collect();
                let leases = info.leases.iter().map(|(name, term)| format!("{name} (term {term})"));
                table.row([
                    info.id.to_string(),
                    Wall(info.joined_at).to_string(),
                    Span(health.silent_ms).to_string(),
                    Span(health.ttl_ms).to_string(),
                    info.metadata.clone(),
                    leases.collect::<Vec<_>>().join(", "),
                    waits.join(", "),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
