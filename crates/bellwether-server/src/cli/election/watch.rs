//! `bellwether election watch`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::outcome::LeaseInfo;
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::form::{lease as form, time};
use super::super::human::Wall;
use super::super::reach::{Reach, now};
use super::super::screen::Screen;
use super::super::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  bellwether election watch chores
  bellwether election watch chores --count 1 --output json";

/// One wait; it is repeated without a gap, because the version last seen is named again.
const WAIT: Duration = Duration::from_secs(60);

/// Write a line whenever an election changes, until Ctrl-C: first how it is now.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// Which election.
    election: String,
    /// End after so many lines.
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

impl Watch {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look_at_elections(out, async |elections, screen| {
            let election = elections.election(&self.election)?;
            let mut stop = Stop::listen()?;
            let (mut seen, mut told) = (0, 0);
            while self.count.is_none_or(|count| told < count) {
                let changed = tokio::select! {
                    changed = election.changed(seen, WAIT) => changed?,
                    () = stop.asked() => break,
                };
                let Some(info) = changed else { continue };
                seen = info.version;
                told += 1;
                tell(screen, &info)?;
                screen.flush()?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn tell(screen: &mut Screen<'_>, info: &LeaseInfo) -> io::Result<()> {
    let at = now();
    if screen.is_json() {
        return screen.json(&json!({ "at": time(at), "election": form::to_json(info) }));
    }
    let term = info.term;
    let paused = if info.paused { "; paused" } else { "" };
    let what = match info.holder {
        Some(_) if info.slots > 1 => several(info),
        Some(member) if let Some(successor) = info.successor => {
            format!("{member} leads under term {term} and is asked to hand over to {successor}")
        }
        Some(member) if info.step_down_asked => {
            format!("{member} leads under term {term} and is asked to step down")
        }
        Some(member) => format!("{member} leads under term {term} {}", info.metadata),
        None if info.term.0 == 0 => "nobody ever led".to_owned(),
        None => format!("nobody leads; term {term} is over ({})", form::state_name(info.state)),
    };
    screen.line(&format!("{}  {}{paused}", Wall(at), what.trim_end()))
}

/// Who leads of those that may at once.
fn several(info: &LeaseInfo) -> String {
    let leaders: Vec<String> = info
        .holders()
        .map(|holder| {
            let member = holder.holder.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
            let asked = if holder.step_down_asked { ", asked to step down" } else { "" };
            format!("{member} under term {}{asked}", holder.term)
        })
        .collect();
    let to = info.successor.map_or(String::new(), |member| format!("; {member} shall be next"));
    format!("{} of {} lead: {}{to}", leaders.len(), info.slots, leaders.join(", "))
}
