//! `bellwether queue show`.

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::core::name::QueueName;
use bellwether::core::outcome::{OutageInfo, QueueInfo};
use clap::Args;

use super::super::failure::Ended;
use super::super::form::{failures, queue as form};
use super::super::human::{Size, Span, Wall};
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::table::pairs;
use super::failures::{backoff_words, outage_words};

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
            let queue = store.queue(&self.queue)?;
            let (info, outage) = (queue.info().await?, queue.outage().await?);
            show(screen, &info, outage.as_ref())?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Writes a queue down.
pub(super) fn show(
    screen: &mut Screen<'_>,
    info: &QueueInfo,
    outage: Option<&OutageInfo>,
) -> io::Result<()> {
    if screen.is_json() {
        let mut json = form::to_json(info);
        json["outage"] = failures::outage(outage);
        return screen.json(&json);
    }
    let settings = &info.settings;
    let span = |ms: Option<u64>| ms.map_or("none".into(), |ms| Span(ms).to_string());
    let name =
        |queue: &Option<QueueName>| queue.as_ref().map_or("none".into(), QueueName::to_string);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let counts = &info.counts;
    let totals = &info.totals;
    let lines = pairs(&[
        ("queue", info.name.to_string()),
        ("created", Wall(info.created_at).to_string()),
        ("status", form::status_name(settings.status).into()),
        ("in an outage", outage.map_or("no".into(), outage_since)),
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
        ("duplicates", totals.duplicates.to_string()),
        ("lock", Span(settings.lock_ms.into()).to_string()),
        ("deliveries max", settings.deliveries_max.to_string()),
        ("retry", backoff_words(settings.failures.retry)),
        ("crashes max", settings.failures.crashes_max.to_string()),
        ("outage", outage_words(settings.failures.outage)),
        ("ttl", span(settings.ttl_ms)),
        ("dead-letter expired", yes(settings.dead_letter_expired)),
        ("duplicate window", span(settings.duplicate_window_ms)),
        ("sessions", yes(settings.sessions)),
        ("forward to", name(&settings.forward_to)),
        ("forward dead letters to", name(&settings.forward_dead_letters_to)),
        ("delete idle", span(settings.delete_idle_ms)),
        ("message max", Size(settings.message_bytes_max.into()).to_string()),
        ("durability", form::durability_name(settings.durability).into()),
    ]);
    lines.iter().try_for_each(|line| screen.line(line))
}

/// What a queue does that takes its failures for an outage.
fn outage_since(outage: &OutageInfo) -> String {
    let OutageInfo { since, failures, last_failed, tries, try_in_ms, trying } = outage;
    let next = match trying {
        Some(sequence) => format!("message {sequence} is being tried"),
        None if *try_in_ms == 0 => "the next message is tried".into(),
        None => format!("the next message is tried in {}", Span(*try_in_ms)),
    };
    format!(
        "since {}: {failures} messages failed in a row, the last one was {last_failed}; {tries} \
         tried since; {next}; `bellwether queue resume` ends it",
        Wall(*since)
    )
}
