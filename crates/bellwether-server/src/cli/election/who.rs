//! `bellwether election who`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::outcome::{LeaseInfo, LeaseState};
use clap::Args;
use serde_json::json;

use super::super::failure::{Ended, Failure, NOTHING};
use super::super::form::time;
use super::super::lease::show::find;
use super::super::reach::Reach;
use super::super::screen::Screen;

const EXAMPLES: &str = "\
Examples:
  bellwether election who chores
  bellwether election who chores --output json | jq -r .metadata
  bellwether election who chores --server etcd://10.0.0.5:2379
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
        if self.reach.engine().is_none() {
            return self.reach.look(out, async |store, screen| {
                self.tell(screen, &find(store, &self.election).await?)
            });
        }
        self.reach.look_at_elections(out, async |elections, screen| {
            let info = elections.election(&self.election)?.info().await?;
            let nobody = || format!("nobody leads or ever led election {:?}", self.election);
            self.tell(screen, &info.ok_or_else(|| Failure::NotThere(nobody()))?)
        })
    }

    fn tell(&self, screen: &mut Screen<'_>, info: &LeaseInfo) -> Ended {
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
    }
}
