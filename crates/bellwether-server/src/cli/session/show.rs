//! `bellwether session show`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::name::SessionId;
use clap::Args;

use super::super::failure::{Ended, Failure};
use super::super::human::Span;
use super::super::reach::{Reach, did_you_mean};
use super::super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether session show mail customer-4
  bellwether session show mail customer-4 --output json | jq -r .state";

/// One session: who holds it, what is in it, and the state that was left in it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which queue.
    queue: String,
    /// Which session.
    session: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let Some((info, state)) = queue.session(&self.session).await? else {
                let names = queue.sessions().await?;
                let near = did_you_mean(&self.session, names.iter().map(SessionId::as_str));
                let next = near.unwrap_or_else(|| "`bellwether session list` names them".into());
                return Err(Failure::NotThere(format!(
                    "queue {:?} has no session {:?}; {next}",
                    self.queue, self.session
                )));
            };
            if screen.is_json() {
                screen.json(&super::to_json(&info, state.as_deref()))?;
                return Ok(ExitCode::SUCCESS);
            }
            let held = match info.hold {
                None => "nobody".into(),
                Some(hold) => {
                    let who =
                        hold.member.map_or("a member that has left".into(), |id| id.to_string());
                    format!("{who}, for {} more", Span(hold.remaining_ms))
                }
            };
            let mut lines = vec![
                ("session", info.id.to_string()),
                ("messages", info.messages.to_string()),
                ("held by", held),
            ];
            lines.extend(info.waits_for.map(|number| ("waits for", format!("message {number}"))));
            lines
                .extend(state.map(|state| ("state", String::from_utf8_lossy(&state).into_owned())));
            pairs(&lines).iter().try_for_each(|line| screen.line(line))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
