//! `bellwether peek`.

use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

use bellwether::SequenceNumber;
use bellwether::delivery::Received;
use clap::{Args, ValueEnum};

use super::failure::{Ended, Failure};
use super::form::message as form;
use super::human::Wall;
use super::pages::Pages;
use super::reach::{Reach, half};
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether peek orders
  bellwether peek orders --state locked --limit 100
  bellwether peek orders --dead-letters --output json | jq .body";

/// So much of a body is shown in a table.
pub(crate) const PREVIEW_CHARS: usize = 60;

/// Where a message is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    Ready,
    Scheduled,
    Delayed,
    Locked,
    Deferred,
}

impl StateArg {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Delayed => "delayed",
            Self::Locked => "locked",
            Self::Deferred => "deferred",
        }
    }
}

/// Look at messages without touching them, in whatever state they are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Peek {
    /// Which queue.
    queue: String,
    /// At most so many.
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    limit: u64,
    /// From this number on.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    from: u64,
    /// Only those in this state.
    #[arg(long, value_enum)]
    state: Option<StateArg>,
    /// Only those of this session.
    #[arg(long)]
    session: Option<String>,
    /// The queue's dead letters instead.
    #[arg(long)]
    dead_letters: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Peek {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = half(store.queue(&self.queue)?, self.dead_letters);
            let pages = Pages::of(&queue, SequenceNumber(self.from), self.session.as_deref());
            let mut table = heading();
            let mut shown = 0;
            pages
                .each(|received| {
                    if shown == self.limit {
                        return Ok::<_, Failure>(ControlFlow::Break(()));
                    }
                    if self.state.is_none_or(|s| s.name() == form::state_name(received.state())) {
                        shown += 1;
                        if screen.is_json() {
                            screen.json(&form::to_json(&received))?;
                        } else {
                            table.row(row(&received));
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })
                .await?;
            if !screen.is_json() {
                screen.table(&table)?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn heading() -> Table {
    Table::new(&[">NUMBER", "STATE", "ENQUEUED", ">DELIVERIES", "ID", "SESSION", "BODY"])
}

fn row(received: &Received) -> [String; 7] {
    let message = received.message();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    [
        received.sequence().to_string(),
        form::state_name(received.state()).into(),
        Wall(received.enqueued_at()).to_string(),
        received.deliveries().to_string(),
        message.map_or(String::new(), |m| text(m.id.as_ref())),
        message.map_or(String::new(), |m| text(m.session.as_ref())),
        match message {
            Ok(message) => form::preview(message, PREVIEW_CHARS),
            Err(what) => format!("(unreadable: {what})"),
        },
    ]
}
