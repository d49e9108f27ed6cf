//! `bellwether schedule create`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::Message;
use bellwether::schedule::Missed;
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::reach::Reach;

const EXAMPLES: &str = "\
Examples:
  bellwether schedule create nightly '0 2 * * *' reports 'make the report' --zone Europe/Berlin
  bellwether schedule create pulse 'every 15m' checks
  bellwether schedule create payday '0 9 1,15 * *' mail --missed all:3";

/// Make a schedule; one that is there is left as it is.
///
/// A rule has five fields, minute hour day month weekday, or six with the second before them; or it
/// is @hourly, @daily, @weekly, @monthly, @yearly; or `every 90s`, counted from now on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// Its name.
    schedule: String,
    /// When it is due.
    rule: String,
    /// Where its messages go.
    queue: String,
    /// What they say.
    #[arg(default_value = "")]
    body: String,
    /// Whose clock on the wall is meant.
    #[arg(long, default_value = "UTC")]
    zone: String,
    /// The ordered group its messages belong to.
    #[arg(long)]
    session: Option<String>,
    /// Slots that nobody was there for: latest, skip, or all:N for up to N of them.
    #[arg(long, default_value = "latest", value_parser = parse_missed)]
    missed: Missed,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

fn parse_missed(text: &str) -> Result<Missed, String> {
    match text {
        "latest" => Ok(Missed::Latest),
        "skip" => Ok(Missed::Skip),
        _ => {
            let max = text.strip_prefix("all:").and_then(|max| max.parse().ok());
            max.map(|max| Missed::All { max })
                .ok_or_else(|| "it is latest, skip, or all:N as in all:10".into())
        }
    }
}

impl Create {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let schedule = self.fence.of(store).schedule(&self.schedule)?.missed(self.missed);
            let mut message = Message::new(self.body.as_str());
            message.session.clone_from(&self.session);
            let created = schedule.create(&self.rule, &self.zone, &self.queue, message).await?;
            let told = if created { "created" } else { "was there before and stays as it is" };
            screen.say(
                &format!("schedule {:?} {told}", self.schedule),
                &json!({ "schedule": self.schedule, "existed": !created }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
