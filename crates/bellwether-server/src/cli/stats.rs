//! `bellwether stats`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::Bellwether;
use bellwether::core::outcome::{Counts, LeaseInfo, LeaseState, QueueInfo, Totals};
use clap::Args;
use serde_json::json;

use super::failure::{Ended, Failure};
use super::human::Size;
use super::reach::Reach;
use super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether stats
  bellwether stats --output json | jq .messages.ready";

/// The whole store in numbers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stats {
    #[command(flatten)]
    reach: Reach,
}

/// A store, looked at once.
pub(crate) struct Sight {
    pub(crate) queues: Vec<QueueInfo>,
    pub(crate) leases: Vec<LeaseInfo>,
    pub(crate) members: usize,
}

impl Sight {
    pub(crate) async fn of(store: &Bellwether) -> Result<Self, Failure> {
        let (queues, leases) = (store.queues().await?, store.leases().await?);
        Ok(Self { queues, leases, members: store.members().await?.len() })
    }

    pub(crate) fn held(&self) -> usize {
        self.leases.iter().filter(|info| info.state == LeaseState::Leased).count()
    }

    pub(crate) fn count(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.queues.iter().map(|info| of(&info.counts)).sum()
    }

    pub(crate) fn total(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.queues.iter().map(|info| of(&info.totals)).sum()
    }
}

impl Stats {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let sight = Sight::of(store).await?;
            if screen.is_json() {
                screen.json(&sight.json())?;
                return Ok(ExitCode::SUCCESS);
            }
            let lines = pairs(&[
                ("queues", sight.queues.len().to_string()),
                ("ready", sight.count(|c| c.ready).to_string()),
                ("locked", sight.count(|c| c.locked).to_string()),
                ("scheduled", sight.count(|c| c.scheduled).to_string()),
                ("deferred", sight.count(|c| c.deferred).to_string()),
                ("dead letters", sight.count(|c| c.dead_letters).to_string()),
                ("size", Size(sight.count(|c| c.size_bytes)).to_string()),
                ("sent", sight.total(|t| t.sent).to_string()),
                ("completed", sight.total(|t| t.completed).to_string()),
                ("expired", sight.total(|t| t.expired).to_string()),
                ("dead-lettered", sight.total(|t| t.dead_lettered).to_string()),
                ("leases", format!("{}, {} held", sight.leases.len(), sight.held())),
                ("members", sight.members.to_string()),
            ]);
            lines.iter().try_for_each(|line| screen.line(line))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Sight {
    fn json(&self) -> serde_json::Value {
        json!({
            "queues": self.queues.len(),
            "messages": {
                "ready": self.count(|c| c.ready),
                "locked": self.count(|c| c.locked),
                "scheduled": self.count(|c| c.scheduled),
                "deferred": self.count(|c| c.deferred),
                "dead_letters": self.count(|c| c.dead_letters),
                "size_bytes": self.count(|c| c.size_bytes),
            },
            "totals": {
                "sent": self.total(|t| t.sent),
                "duplicates": self.total(|t| t.duplicates),
                "completed": self.total(|t| t.completed),
                "expired": self.total(|t| t.expired),
                "purged": self.total(|t| t.purged),
                "cancelled": self.total(|t| t.cancelled),
                "forwarded": self.total(|t| t.forwarded),
                "dead_lettered": self.total(|t| t.dead_lettered),
                "shed": self.total(|t| t.shed),
            },
            "leases": { "all": self.leases.len(), "held": self.held() },
            "members": self.members,
        })
    }
}
