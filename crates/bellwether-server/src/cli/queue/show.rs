//! `bellwether queue show`.

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::core::name::QueueName;
use bellwether::core::outcome::QueueInfo;
use clap::Args;

use super::super::failure::Ended;
use super::super::form::{order, queue as form};
use super::super::human::{Size, Span, Wall};
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether queue show orders
  bellwether queue show orders --output json | jq .counts.ready";

/// One queue: its settings, what is in it, and what has passed through it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    reach: Reach,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            show(screen, &store.queue(&self.queue)?.info().await?)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Writes a queue down.
pub(super) fn show(screen: &mut Screen<'_>, info: &QueueInfo) -> io::Result<()> {
    if screen.is_json() {
        return screen.json(&form::to_json(info));
    }
    let settings = &info.settings;
    let span = |ms: Option<u64>| ms.map_or("none".into(), |ms| Span(ms).to_string());
    let name =
        |queue: &Option<QueueName>| queue.as_ref().map_or("none".into(), QueueName::to_string);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let counts = &info.counts;
    let totals = &info.totals;
    let mut rows = vec![
        ("queue", info.name.to_string()),
        ("created", Wall(info.created_at).to_string()),
        ("status", form::status_name(settings.status).into()),
        ("ready", counts.ready.to_string()),
        ("locked", counts.locked.to_string()),
        ("scheduled", counts.scheduled.to_string()),
        ("deferred", counts.deferred.to_string()),
        ("dead letters", counts.dead_letters.to_string()),
        ("size", format!("{} of {}", Size(counts.size_bytes), Size(settings.size_bytes_max))),
        ("sent", totals.sent.to_string()),
        ("completed", totals.completed.to_string()),
        ("expired", totals.expired.to_string()),
        ("purged", totals.purged.to_string()),
        ("cancelled", totals.cancelled.to_string()),
        ("forwarded", totals.forwarded.to_string()),
        ("dead-lettered", totals.dead_lettered.to_string()),
        ("shed", totals.shed.to_string()),
        ("duplicates", totals.duplicates.to_string()),
        ("lock", Span(settings.lock_ms.into()).to_string()),
        ("deliveries max", settings.deliveries_max.to_string()),
        ("ttl", span(settings.ttl_ms)),
        ("dead-letter expired", yes(settings.dead_letter_expired)),
        ("duplicate window", span(settings.duplicate_window_ms)),
        ("sessions", yes(settings.sessions)),
        ("forward to", name(&settings.forward_to)),
        ("forward dead letters to", name(&settings.forward_dead_letters_to)),
        ("delete idle", span(settings.delete_idle_ms)),
        ("message max", Size(settings.message_bytes_max.into()).to_string()),
        ("durability", form::durability_name(settings.durability).into()),
    ];
    rows.extend(order::lines(&settings.order));
    let lines = pairs(&rows);
    lines.iter().try_for_each(|line| screen.line(line))
}
