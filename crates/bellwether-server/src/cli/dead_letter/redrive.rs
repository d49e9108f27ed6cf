//! `bellwether dead-letter redrive`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::{Error, Queue, Refusal, SequenceNumber};
use clap::Args;
use serde_json::json;

use super::super::failure::{Ended, Failure, NOTHING};
use super::super::fence::UnderFence;
use super::super::human::count;
use super::super::progress::Progress;
use super::super::reach::Reach;
use super::filter::Filter;

const EXAMPLES: &str = "\
Examples:
  bellwether dead-letter redrive orders --dry-run
  bellwether dead-letter redrive orders --reason MaxDeliveryCountExceeded
  bellwether dead-letter redrive orders --rate 50/s --to orders-retry
  bellwether dead-letter redrive orders --number 17 --number 21";

/// So many are sent again in one step.
const CHUNK_MAX: u64 = 500;
/// With a rate, steps are so far apart.
const STEPS_A_SECOND: u64 = 10;

/// Send dead letters again: under new numbers, with their counts from zero, in their order.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Redrive {
    /// Whose dead letters.
    queue: String,
    /// Only this one, by its number. May be repeated.
    #[arg(long, value_name = "NUMBER",
          conflicts_with_all = ["reason", "older_than", "newer_than", "properties", "limit"])]
    number: Vec<u64>,
    #[command(flatten)]
    filter: Filter,
    /// To this queue instead of their own.
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// At most so many a second, as in 50/s.
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Only say how many there would be.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    fence: UnderFence,
    #[command(flatten)]
    reach: Reach,
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(rate) if rate > 0 => Ok(rate),
        _ => Err("write how many a second, as in 50/s".into()),
    }
}

impl Redrive {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let store = &self.fence.of(store);
            let queue = store.queue(&self.queue)?;
            let to = self.to.as_ref().map(|to| store.queue(to)).transpose()?;
            if let Some(to) = &to {
                to.info().await?;
            }
            // All numbers first: what dies again on the way must not be sent round and round.
            let numbers = match self.number[..] {
                [] => self.filter.numbers(&queue).await?,
                _ => self.number.iter().copied().map(SequenceNumber).collect(),
            };
            let found = numbers.len() as u64;
            let redriven =
                if self.dry_run { 0 } else { self.redrive(&queue, to.as_ref(), &numbers).await? };
            let name = to.as_ref().unwrap_or(&queue).name().as_str();
            let sentence = if self.dry_run {
                format!("{} would go to queue {name:?}", count(found, "dead letter"))
            } else {
                format!("{} went to queue {name:?}", count(redriven, "dead letter"))
            };
            screen.say(
                &sentence,
                &json!({
                    "queue": queue.name().as_str(),
                    "to": name,
                    "found": found,
                    "redriven": redriven,
                    "dry_run": self.dry_run,
                }),
            )?;
            Ok(if found == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
        })
    }

    async fn redrive(
        &self,
        queue: &Queue,
        to: Option<&Queue>,
        numbers: &[SequenceNumber],
    ) -> Result<u64, Failure> {
        let progress = Progress::of(Some(numbers.len() as u64), "sent again");
        let (chunk, pause) = match self.rate {
            None => (CHUNK_MAX, Duration::ZERO),
            Some(rate) => {
                let chunk = (rate / STEPS_A_SECOND).clamp(1, CHUNK_MAX);
                (chunk, Duration::from_micros(chunk * 1_000_000 / rate))
            }
        };
        let mut redriven = 0;
        for (nth, chunk) in numbers.chunks(chunk as usize).enumerate() {
            if nth > 0 && !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            redriven += self.step(queue, to, chunk).await?;
            progress.add(chunk.len() as u64);
        }
        Ok(redriven)
    }

    /// A chunk goes whole or not at all; if somebody took one of it in the meantime, the others go
    /// one by one.
    async fn step(
        &self,
        queue: &Queue,
        to: Option<&Queue>,
        chunk: &[SequenceNumber],
    ) -> Result<u64, Failure> {
        let gone = |error: &Error| matches!(error.refusal(), Some(Refusal::MessageNotFound(_)));
        match queue.redrive_some(to, chunk.iter().copied()).await {
            Err(error) if gone(&error) && self.number.is_empty() => {}
            ended => return Ok(ended?),
        }
        let mut redriven = 0;
        for number in chunk {
            match queue.redrive_some(to, [*number]).await {
                Err(error) if gone(&error) => {}
                ended => redriven += ended?,
            }
        }
        Ok(redriven)
    }
}
