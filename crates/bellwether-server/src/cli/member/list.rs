//! `bellwether member list`.

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
  bellwether member list
  bellwether member list --output json | jq length";

/// All members that are here, this command's own included, and the leases they hold.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let members = store.members().await?;
            if screen.is_json() {
                screen.json(&Value::Array(members.iter().map(form::member).collect()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut table = Table::new(&["MEMBER", "JOINED", "SAYS", "LEASES"]);
            for info in &members {
                let leases = info.leases.iter().map(|(name, term)| format!("{name} (term {term})"));
                table.row([
                    info.id.to_string(),
                    Wall(info.joined_at).to_string(),
                    info.metadata.clone(),
                    leases.collect::<Vec<_>>().join(", "),
                ]);
            }
            screen.table(&table)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
