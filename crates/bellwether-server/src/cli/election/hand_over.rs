//! `bellwether election hand-over`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::MemberId;
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::form::lease::parse_member;
use super::super::lease::show::find;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether election show chores
  bellwether election hand-over chores --to 9494ad435dd64c51811bfdf999308e90";

/// Ask the leader to step down in favour of a member that waits in line.
///
/// The leader hears of it with its next heartbeat and decides when its work has ended. Whenever its
/// term ends, that member is granted the lease before the others, if it still waits then. Refused if
/// it does not wait now; `election show` lists those who do, the next one first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HandOver {
    /// Which election.
    election: String,
    /// Who shall lead next: a member's id.
    #[arg(long, value_name = "MEMBER", value_parser = parse_member)]
    to: MemberId,
    #[command(flatten)]
    reach: Reach,
}

impl HandOver {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let info = find(store, &self.election).await?;
            store.lease(&self.election)?.hand_over(self.to).await?;
            let (name, term, to) = (&self.election, info.term, self.to.to_string());
            let leader = info.holder.map(|member| member.to_string());
            let who = leader.as_deref().unwrap_or("the leader");
            screen.say(
                &format!("{who} is asked to hand {name:?}, term {term}, over to {to}"),
                &json!({ "election": name, "leader": leader, "term": term.0, "to": to }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
