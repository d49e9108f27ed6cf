//! `bellwether lease break`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::super::ask::Yes;
use super::super::failure::{Ended, NOTHING};
use super::super::form::span;
use super::super::human::{Span, ms, parse_duration};
use super::super::reach::Reach;
use super::show::find;

const EXAMPLES: &str = "\
Examples:
  bellwether lease break backup
  bellwether lease break backup --after 10s --yes";

/// Take a lease from its holder, who is not told.
///
/// Until its time is over the holder may go on, and afterwards only the term protects what it
/// writes. Prefer `bellwether election step-down`, which asks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Break {
    /// Which lease.
    lease: String,
    /// After so long, or what is left of it, whichever is shorter.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    after: Option<Duration>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    reach: Reach,
}

impl Break {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let info = find(store, &self.lease).await?;
            let question = format!(
                "Take lease {:?}, term {}, from its holder without telling it?",
                self.lease, info.term
            );
            if !self.yes.confirm(&question)? {
                return Ok(ExitCode::from(NOTHING));
            }
            let left = store.lease(&self.lease)?.break_(self.after).await?;
            let name = &self.lease;
            let left_ms = ms(left);
            let sentence = match left_ms {
                0 => format!("lease {name:?} is broken"),
                left_ms => format!("lease {name:?} ends in {}", Span(left_ms)),
            };
            screen.say(&sentence, &json!({ "lease": name, "remaining_ms": span(left_ms) }))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
