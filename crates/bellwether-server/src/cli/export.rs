//! `bellwether export`.

use std::io::{self, Write};
use std::process::ExitCode;

use bellwether::core::outcome::QueueInfo;
use bellwether::{Bellwether, Exported, Queue, SequenceNumber};
use clap::Args;
use serde_json::json;

use super::failure::{Ended, Failure};
use super::form::{self, exported, queue as form_queue};
use super::pages::Pages;
use super::progress::Progress;
use super::reach::{Reach, now};
use super::screen::Screen;

const EXAMPLES: &str = "\
Examples:
  bellwether export > store.jsonl
  bellwether export orders mail --data ./store > two-queues.jsonl
  bellwether export | bellwether import --data ./copy --create";

/// The form of the lines; `import` reads this and older ones.
pub(crate) const VERSION: u64 = 1;

/// Write queues with all their messages as lines of JSON, for `bellwether import`.
///
/// Settings, messages with their fields, typed properties, body, times, counts and states, dead
/// letters with their reasons, and the states of sessions. A locked message is written as ready. Not
/// written: numbers, which are a queue's own; ids seen lately; leases, whose terms must not be
/// carried from store to store and need not be, because a new name's terms begin at today's time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// Only these queues.
    queues: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Default)]
struct Written {
    queues: u64,
    sessions: u64,
    messages: u64,
    unreadable: u64,
}

impl Export {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queues = self.chosen(store).await?;
            let all = |info: &QueueInfo| {
                let counts = info.counts;
                counts.ready
                    + counts.locked
                    + counts.scheduled
                    + counts.deferred
                    + counts.dead_letters
            };
            let progress = Progress::of(Some(queues.iter().map(all).sum()), "exported");
            screen.json(&json!({ "export": { "version": VERSION, "at": form::time(now()) } }))?;
            let mut written = Written::default();
            // All queues first: one that forwards names another.
            for info in &queues {
                let settings = form_queue::settings(&info.settings);
                screen.json(
                    &json!({ "queue": { "name": info.name.as_str(), "settings": settings } }),
                )?;
                written.queues += 1;
            }
            for info in &queues {
                let queue = store.queue(info.name.as_str())?;
                if info.settings.sessions {
                    sessions(&queue, screen, &mut written).await?;
                }
                for dead_letter in [false, true] {
                    messages(&queue, dead_letter, screen, &mut written, &progress).await?;
                }
            }
            let Written { queues, sessions, messages, unreadable } = written;
            screen.json(&json!({
                "end": { "queues": queues, "sessions": sessions, "messages": messages },
            }))?;
            if unreadable > 0 {
                return Err(Failure::Input {
                    what: format!("{unreadable} of the messages"),
                    error: io::Error::other("everything else was written; see above for each"),
                });
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn chosen(&self, store: &Bellwether) -> Result<Vec<QueueInfo>, Failure> {
        if self.queues.is_empty() {
            return Ok(store.queues().await?);
        }
        let mut chosen = Vec::new();
        for name in &self.queues {
            chosen.push(store.queue(name)?.info().await?);
        }
        Ok(chosen)
    }
}

async fn sessions(
    queue: &Queue,
    screen: &mut Screen<'_>,
    written: &mut Written,
) -> Result<(), Failure> {
    for id in queue.sessions().await? {
        let Some((info, Some(state))) = queue.session(id.as_str()).await? else { continue };
        screen.json(&json!({
            "session": {
                "queue": queue.name().as_str(),
                "name": info.id.as_str(),
                "state_base64": form::base64(&state),
            },
        }))?;
        written.sessions += 1;
    }
    Ok(())
}

async fn messages(
    queue: &Queue,
    dead_letter: bool,
    screen: &mut Screen<'_>,
    written: &mut Written,
    progress: &Progress,
) -> Result<(), Failure> {
    let name = queue.name().as_str();
    let half = if dead_letter { queue.dead_letters() } else { queue.clone() };
    let mut pages = Pages::of(&half, SequenceNumber(0), None);
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(());
        }
        for received in &page {
            let number = received.sequence().0;
            match Exported::of(received) {
                Ok(exported) => {
                    screen.json(&exported::to_json(name, dead_letter, number, &exported))?;
                    written.messages += 1;
                }
                Err(what) => {
                    eprintln!("bellwether: message {number} of queue {name:?}: {what}");
                    written.unreadable += 1;
                }
            }
        }
        progress.add(page.len() as u64);
    }
}
