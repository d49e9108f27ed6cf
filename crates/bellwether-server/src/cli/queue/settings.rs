//! A queue's settings, as flags.

use std::str::FromStr;
use std::time::Duration;

use bellwether::core::name::QueueName;
use bellwether::{Durability, SettingsPatch};
use clap::{Args, ValueEnum};

use super::super::human::{ms, parse_duration, parse_size};
use super::failures::FailureFlags;

/// A setting that can be switched off with `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

fn duration_or_none(text: &str) -> Result<OrNone<Duration>, String> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    parse_duration(text)
        .map(|duration| OrNone(Some(duration)))
        .map_err(|why| format!("{why}, or none"))
}

impl FromStr for OrNone<QueueName> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        QueueName::new(text).map(|name| Self(Some(name))).map_err(|refusal| refusal.to_string())
    }
}

/// When an acknowledgement is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    /// After the flush.
    Flushed,
    /// Before it; a power cut may lose the last moments.
    Relaxed,
}

/// What a queue can be told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// How long a delivery holds its message.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lock: Option<Duration>,
    /// After so many counted deliveries a message becomes a dead letter.
    #[arg(long, value_name = "N")]
    deliveries_max: Option<u32>,
    #[command(flatten)]
    pub(crate) failures: FailureFlags,
    /// Time-to-live of messages that name none, and the most for those that do; or none.
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    ttl: Option<OrNone<Duration>>,
    /// Whether expired messages become dead letters instead of being dropped.
    #[arg(long, value_name = "YES", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    dead_letter_expired: Option<bool>,
    /// An id that was sent within so long is not accepted again; switched on at creation only.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duplicate_window: Option<Duration>,
    /// Messages move on to this queue; or none.
    #[arg(long, value_name = "QUEUE")]
    forward_to: Option<OrNone<QueueName>>,
    /// Dead letters move to this queue; or none.
    #[arg(long, value_name = "QUEUE")]
    forward_dead_letters_to: Option<OrNone<QueueName>>,
    /// The queue is deleted after so long without use; or none.
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    delete_idle: Option<OrNone<Duration>>,
    /// All contents together may be so large, dead letters included.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size_max: Option<u64>,
    /// One message may be so large, properties included.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    message_max: Option<u64>,
    /// Whether an answer waits for the flush.
    #[arg(long, value_enum, value_name = "WHEN")]
    durability: Option<DurabilityArg>,
}

impl Settings {
    /// As changes to the settings that are there.
    pub(crate) fn patch(&self) -> SettingsPatch {
        // What is out of range is refused by the rules, which say what the range is.
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        SettingsPatch {
            lock_ms: self.lock.map(|lock| narrow(ms(lock))),
            deliveries_max: self.deliveries_max,
            failures: self.failures.patch(),
            ttl_ms: self.ttl.as_ref().map(|ttl| ttl.0.map(ms)),
            dead_letter_expired: self.dead_letter_expired,
            duplicate_window_ms: self.duplicate_window.map(ms),
            forward_to: self.forward_to.as_ref().map(|to| to.0.clone()),
            forward_dead_letters_to: self.forward_dead_letters_to.as_ref().map(|to| to.0.clone()),
            delete_idle_ms: self.delete_idle.as_ref().map(|idle| idle.0.map(ms)),
            status: None,
            size_bytes_max: self.size_max,
            message_bytes_max: self.message_max.map(narrow),
            durability: self.durability.map(|durability| match durability {
                DurabilityArg::Flushed => Durability::Flushed,
                DurabilityArg::Relaxed => Durability::Relaxed,
            }),
        }
    }
}
