//! `bellwether election step-down`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::lease::show::find;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether election step-down chores";

/// Ask the leader to step down: it stops its work, then gives the lease back.
///
/// It hears of it with its next heartbeat and decides when its work has ended. Ends with 66 if
/// nobody leads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StepDown {
    /// Which election.
    election: String,
    #[command(flatten)]
    reach: Reach,
}

impl StepDown {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let info = find(store, &self.election).await?;
            store.election(&self.election)?.ask_step_down().await?;
            let (name, term) = (&self.election, info.term);
            let leader = info.holder.map(|member| member.to_string());
            let who = leader.as_deref().unwrap_or("the leader");
            screen.say(
                &format!("{who} is asked to step down from {name:?}, term {term}"),
                &json!({ "election": name, "leader": leader, "term": term.0 }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
