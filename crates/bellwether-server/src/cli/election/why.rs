//! `bellwether election why`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::outcome::{LeftAs, TermInfo};
use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Ended;
use super::super::human::{Span, Wall};
use super::super::lease::show::find;
use super::super::reach::{Reach, now};
use super::history::{as_json, remembered};
use crate::ending;

const EXAMPLES: &str = "\
Examples:
  bellwether election why chores
  bellwether election why chores --last 1
  bellwether election why chores --output json | jq -r '.[] | select(.ended_by == \"ran_out\")'";

/// Why leadership changed: a sentence for every term, the oldest first.
///
/// Each says who led, under which term, for how long, why that ended, and who followed after how
/// long. What is remembered is what `election history` shows.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Why {
    /// Which election.
    election: String,
    /// Only the last so many terms.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    reach: Reach,
}

impl Why {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let terms = remembered(store, &self.election).await?;
            let from = self.last.map_or(0, |last| terms.len().saturating_sub(last));
            let info = find(store, &self.election).await?;
            let leads = |term: &TermInfo| info.holders().any(|holder| holder.term == term.term);
            let next = |index: usize| {
                let (term, mut later) = (&terms[index], terms[index + 1..].iter());
                match term.left_as {
                    _ if info.slots == 1 => later.next(),
                    // Of several who lead at once, the next that began after this had ended.
                    LeftAs::Ended { at, .. } if !leads(term) => {
                        later.find(|next| next.granted_at >= at)
                    }
                    _ => None,
                }
            };
            let shown = terms.iter().enumerate().skip(from);
            if screen.is_json() {
                let told = shown.map(|(index, term)| with_next(term, next(index)));
                screen.json(&Value::Array(told.collect()))?;
            } else {
                for (index, term) in shown {
                    let told = sentence(term, next(index));
                    screen.line(&format!("{}  {told}", Wall(term.granted_at)))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// How long it was led, and how long nobody led after it, as far as that is known.
fn spans(term: &TermInfo, next: Option<&TermInfo>) -> (Option<u64>, Option<u64>) {
    let LeftAs::Ended { at, .. } = term.left_as else { return (None, None) };
    let gap_ms = next.map(|next| next.granted_at.0.saturating_sub(at.0));
    (Some(at.0.saturating_sub(term.granted_at.0)), gap_ms)
}

fn with_next(term: &TermInfo, next: Option<&TermInfo>) -> Value {
    let (led_ms, gap_ms) = spans(term, next);
    let mut told = as_json(term);
    told["led_ms"] = json!(led_ms);
    told["next_member"] = json!(next.map(|next| next.holder.map(|member| member.to_string())));
    told["gap_ms"] = json!(gap_ms);
    told["why"] = json!(sentence(term, next));
    told
}

fn name(term: &TermInfo) -> String {
    let member = term.holder.map_or_else(|| "somebody".to_owned(), |member| member.to_string());
    if term.metadata.is_empty() { member } else { format!("{member} ({})", term.metadata) }
}

fn sentence(term: &TermInfo, next: Option<&TermInfo>) -> String {
    let led = format!("{} led under term {}", name(term), term.term);
    if term.left_as == LeftAs::Held && next.is_none() {
        let for_ms = now().0.saturating_sub(term.granted_at.0);
        return format!("{} leads under term {}, for {}", name(term), term.term, Span(for_ms));
    }
    let (led_ms, gap_ms) = spans(term, next);
    let for_so_long = led_ms.map_or(String::new(), |ms| format!(" for {}", Span(ms)));
    let why = ending::sentence(term.left_as);
    let followed = match (next, gap_ms) {
        (None, _) => "nobody has followed".to_owned(),
        (Some(next), None) => format!("{} followed", name(next)),
        (Some(next), Some(ms)) => format!("{} followed after {ms} ms", name(next)),
    };
    format!("{led}{for_so_long}; {why}; {followed}")
}
