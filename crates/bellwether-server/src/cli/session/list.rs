//! `bellwether session list`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::super::failure::Ended;
use super::super::human::{Size, Span};
use super::super::reach::Reach;
use super::super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether session list mail
  bellwether session list mail --output json | jq -r .session";

/// The sessions of a queue that have messages, a holder or a state.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    reach: Reach,
}

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let mut table = Table::new(&["SESSION", ">MESSAGES", "HELD BY", ">FOR", ">STATE"]);
            for id in queue.sessions().await? {
                // It may have gone since it was listed.
                let Some((info, state)) = queue.session(id.as_str()).await? else { continue };
                if screen.is_json() {
                    screen.json(&super::to_json(&info, state.as_deref()))?;
                    continue;
                }
                let member = info.hold.and_then(|hold| hold.member);
                table.row([
                    info.id.to_string(),
                    info.messages.to_string(),
                    member.map_or(String::new(), |id| id.to_string()),
                    info.hold.map_or(String::new(), |hold| Span(hold.remaining_ms).to_string()),
                    state.map_or(String::new(), |state| Size(state.len() as u64).to_string()),
                ]);
            }
            if !screen.is_json() {
                screen.table(&table)?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
