//! `bellwether election pause` and `bellwether election resume`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::lease::show::find;
use super::super::reach::Reach;

const PAUSE_EXAMPLES: &str = "\
Examples:
  bellwether election pause chores
  bellwether election pause chores --keep-leader";

/// Elect nobody until `resume`: the leader is asked to step down.
///
/// Candidates wait in line and keep their places; who does not wait is refused. It lasts over
/// restarts. An election can be paused before anybody stands for it.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct Pause {
    /// Which election.
    election: String,
    /// Whoever leads goes on; only nobody follows.
    #[arg(long)]
    keep_leader: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Pause {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let lease = store.lease(&self.election)?;
            lease.pause(self.keep_leader).await?;
            let name = &self.election;
            let leader = lease.info().await?.and_then(|info| info.holder);
            let leader = leader.map(|member| member.to_string());
            let then = match &leader {
                None => "nobody leads".to_owned(),
                Some(member) if self.keep_leader => format!("{member} leads on"),
                Some(member) => format!("{member} is asked to step down"),
            };
            screen.say(
                &format!("election {name:?} is paused; {then}"),
                &json!({ "election": name, "paused": true, "leader": leader }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

const RESUME_EXAMPLES: &str = "\
Examples:
  bellwether election resume chores";

/// End a pause: whoever is first in line leads at once.
#[derive(Debug, Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(crate) struct Resume {
    /// Which election.
    election: String,
    #[command(flatten)]
    reach: Reach,
}

impl Resume {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            // A slip of the pen would seem to have worked.
            find(store, &self.election).await?;
            store.lease(&self.election)?.resume().await?;
            let name = &self.election;
            screen.say(
                &format!("election {name:?} is open"),
                &json!({ "election": name, "paused": false }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
