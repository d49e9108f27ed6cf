//! Which dead letters are meant.

use std::ops::ControlFlow;
use std::time::Duration;

use bellwether::core::message::State;
use bellwether::core::time::WallTime;
use bellwether::delivery::Received;
use bellwether::message::Value;
use bellwether::{Error, Queue, SequenceNumber};
use clap::Args;

use super::super::form::value::parse_property;
use super::super::human::{ms, parse_duration};
use super::super::pages::Pages;
use super::super::reach::now;

/// Which dead letters are meant; all of them if nothing is said.
#[derive(Clone, Debug, Args)]
pub(super) struct Filter {
    /// Only those with this reason; capitals do not matter.
    #[arg(long)]
    reason: Option<String>,
    /// Only those that came to the queue longer ago.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Only those that came to the queue since.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    newer_than: Option<Duration>,
    /// Only those with this property: NAME=TEXT, or NAME:TYPE=VALUE. May be repeated.
    #[arg(long = "property", short, value_name = "NAME=VALUE", value_parser = parse_property)]
    properties: Vec<(String, Value)>,
    /// At most so many, oldest first.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
}

impl Filter {
    fn matches(&self, received: &Received, now: WallTime) -> bool {
        let reason = received.dead_letter_reason().unwrap_or("");
        let age_ms = now.0.saturating_sub(received.enqueued_at().0);
        self.reason.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(reason))
            && self.older_than.is_none_or(|age| age_ms > ms(age))
            && self.newer_than.is_none_or(|age| age_ms <= ms(age))
            && self.properties.iter().all(|(name, value)| has(received, name, value))
    }

    /// Visits those that are meant.
    pub(super) async fn each<E: From<Error>>(
        &self,
        queue: &Queue,
        mut visit: impl FnMut(&Received) -> Result<(), E>,
    ) -> Result<(), E> {
        let (now, limit) = (now(), self.limit.unwrap_or(u64::MAX));
        let mut found = 0;
        Pages::of(&queue.dead_letters(), SequenceNumber(0), None)
            .each(|received| {
                if found == limit {
                    return Ok(ControlFlow::Break(()));
                }
                if self.matches(&received, now) {
                    found += 1;
                    visit(&received)?;
                }
                Ok(ControlFlow::Continue(()))
            })
            .await
    }

    /// The numbers of those that are meant and that nobody has locked or deferred.
    pub(super) async fn numbers(&self, queue: &Queue) -> Result<Vec<SequenceNumber>, Error> {
        let mut numbers = Vec::new();
        self.each(queue, |received| {
            if received.state() == State::Ready {
                numbers.push(received.sequence());
            }
            Ok::<_, Error>(())
        })
        .await?;
        Ok(numbers)
    }
}

fn has(received: &Received, name: &str, value: &Value) -> bool {
    received.message().is_ok_and(|message| message.properties.get(name) == Some(value))
}
