//! `bellwether election who`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::outcome::LeaseState;
use clap::Args;
use serde_json::json;

use super::super::failure::{Ended, NOTHING};
use super::super::form::time;
use super::super::lease::show::find;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether election who chores
  bellwether election who chores --output json | jq -r .metadata
  if bellwether election who chores > /dev/null; then echo somebody leads; fi";

/// Who leads: the member, and what it says of itself.
///
/// Ends with 0 if somebody leads, with 1 if nobody does, and with 66 if nobody ever asked for it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Who {
    /// Which election.
    election: String,
    #[command(flatten)]
    reach: Reach,
}

impl Who {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let info = find(store, &self.election).await?;
            let leads = matches!(info.state, LeaseState::Leased | LeaseState::Breaking);
            // A lease that stands by itself may be held by nobody that is a member.
            let leader = info.holder.map(|member| member.to_string());
            let line = match (leads, &leader) {
                (false, _) => "nobody".to_owned(),
                (true, Some(member)) => format!("{member} {}", info.metadata),
                (true, None) => format!("no member {}", info.metadata),
            };
            let json = json!({
                "election": self.election,
                "leads": leads,
                "member": leader,
                "metadata": info.metadata,
                "term": info.term.0,
                "since": leads.then(|| time(info.granted_at)),
            });
            screen.say(line.trim_end(), &json)?;
            Ok(if leads { ExitCode::SUCCESS } else { ExitCode::from(NOTHING) })
        })
    }
}
