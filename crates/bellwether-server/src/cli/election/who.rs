//! `bellwether election who`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::outcome::{HolderInfo, LeaseInfo, LeaseState};
use clap::Args;
use serde_json::{Value, json};

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

/// Who leads: the member, and what it says of itself; a line for each if several lead at once.
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
        let mut lines: Vec<String> = info.holders().map(|holder| line(&holder)).collect();
        if lines.is_empty() {
            lines.push("nobody".to_owned());
        }
        let leaders: Vec<Value> = info.holders().map(|holder| one(&holder)).collect();
        let json = json!({
            "election": self.election,
            "leads": leads,
            "member": info.holder.map(|member| member.to_string()),
            "metadata": info.metadata,
            "term": info.term.0,
            "since": leads.then(|| time(info.granted_at)),
            "leaders": leaders,
        });
        screen.say(&lines.join("\n"), &json)?;
        Ok(if leads { ExitCode::SUCCESS } else { ExitCode::from(NOTHING) })
    }
}

fn line(holder: &HolderInfo) -> String {
    // A lease that stands by itself may be held by nobody that is a member.
    let member = holder.holder.map_or_else(|| "no member".to_owned(), |member| member.to_string());
    format!("{member} {}", holder.metadata).trim_end().to_owned()
}

fn one(holder: &HolderInfo) -> Value {
    json!({
        "member": holder.holder.map(|member| member.to_string()),
        "metadata": holder.metadata,
        "term": holder.term.0,
        "since": time(holder.granted_at),
    })
}
