//! `bellwether queue create`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::{Failures, QueueSettings};
use clap::Args;
use serde_json::json;

use super::super::failure::Ended;
use super::super::fence::UnderFence;
use super::super::human::ms;
use super::super::reach::{Absent, Reach, has_queue};
use super::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  bellwether queue create orders
  bellwether queue create orders --lock 2m --deliveries-max 5 --ttl 7d
  bellwether queue create mail --sessions --duplicate-window 10m
  bellwether queue create orders --data ./store --create";

/// Make a queue; one that is there is left as it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// Its name.
    queue: String,
    /// Every message names a session, and receivers take one session at a time.
    #[arg(long)]
    sessions: bool,
    #[command(flatten)]
    settings: Settings,
    /// With --data: make a store in the folder if there is none.
    #[arg(long = "create", requires = "data")]
    make: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

impl Create {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let mut failures = Failures::default();
        failures.crashes_max = self.settings.failures.crashes_max.unwrap_or(failures.crashes_max);
        let usual = QueueSettings {
            failures,
            sessions: self.sessions,
            duplicate_window_ms: self.settings.duplicate_window.map(ms),
            ..QueueSettings::default()
        };
        let settings = self.settings.patch().apply(&usual)?;
        self.reach.run(out, Absent::unless(self.make), async |store, screen| {
            let store = &self.fence.of(store);
            let existed = has_queue(store, &self.queue).await?;
            let queue = store.create_queue(&self.queue, settings).await?;
            let name = queue.name().as_str();
            let is_as_asked = !existed || self.is_as_asked(&queue.info().await?.settings);
            let told = match (existed, is_as_asked) {
                (false, _) => "created",
                (true, true) => "was there before",
                (true, false) => {
                    "was there before and keeps its settings, which are other ones; \
                     `bellwether queue set` changes them"
                }
            };
            screen.say(
                &format!("queue {name:?} {told}"),
                &json!({ "queue": name, "existed": existed, "as_asked": is_as_asked }),
            )?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Whether a queue with these settings is what was asked for; what was not named may be anything.
    fn is_as_asked(&self, there: &QueueSettings) -> bool {
        let asked = self.settings.patch().apply(there);
        (there.sessions || !self.sessions) && asked.is_ok_and(|asked| asked == *there)
    }
}
