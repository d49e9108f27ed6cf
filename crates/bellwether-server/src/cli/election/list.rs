//! `bellwether election list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::failure::Ended;
use super::super::form::lease as form;
use super::super::human::Wall;
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether election list
  bellwether election list --output json | jq -r '.[].name'";

/// All elections: leases that members keep by their heartbeat; a line for each who leads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let mut elections = store.leases().await?;
            elections.retain(|info| info.kind.is_bound());
            if screen.is_json() {
                screen.json(&Value::Array(elections.iter().map(form::to_json).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = ["NAME", ">TERM", "SINCE", "LEADER", "SAYS", ">WAITING", "NEXT", "PAUSED"];
            let mut table = Table::new(&head);
            for info in &elections {
                table.row([
                    info.name.to_string(),
                    info.term.to_string(),
                    Wall(info.granted_at).to_string(),
                    info.holder.map_or("nobody".into(), |member| member.to_string()),
                    info.metadata.clone(),
                    info.waiting.len().to_string(),
                    info.waiting.first().map_or(String::new(), ToString::to_string),
                    if info.paused { "paused".into() } else { String::new() },
                ]);
                // Who leads beside that one has a line of its own, without what is said once.
                for other in &info.others {
                    table.row([
                        info.name.to_string(),
                        other.term.to_string(),
                        Wall(other.granted_at).to_string(),
                        other.holder.map_or("nobody".into(), |member| member.to_string()),
                        other.metadata.clone(),
                        String::new(),
                        String::new(),
                        String::new(),
                    ]);
                }
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
