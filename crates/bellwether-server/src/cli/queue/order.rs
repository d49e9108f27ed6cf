//! A queue's order and limits, as flags.

use std::str::FromStr;
use std::time::Duration;

use bellwether::core::name::QueueName;
use bellwether::{Key, OrderPatch, Overflow, Rate};
use clap::Args;

use super::super::human::{ms, parse_duration};
use super::settings::{OrNone, duration_or_none};

/// In which order, how fast and how much.
#[derive(Clone, Debug, Args)]
pub(crate) struct Order {
    /// A waiting message gains one level of priority per so long; or none.
    #[arg(long, value_name = "DURATION", value_parser = duration_or_none)]
    ageing: Option<OrNone<Duration>>,
    /// How fast the queue gives messages out, as in 100/1s; or none.
    #[arg(long, value_name = "N/DURATION")]
    rate: Option<OrNone<Rate>>,
    /// How fast it gives out the messages of one key; or none.
    #[arg(long, value_name = "N/DURATION")]
    key_rate: Option<OrNone<Rate>>,
    /// How many messages of one key receivers hold at a time; or none.
    #[arg(long, value_name = "N")]
    key_in_flight_max: Option<OrNone<u32>>,
    /// A key that gets more than one message a turn, as in gold=4; all of them, or none. May be
    /// repeated.
    #[arg(long = "key-weight", value_name = "KEY=N")]
    key_weights: Vec<OrNone<(Key, u32)>>,
    /// How many messages the queue takes in, dead letters apart; or none.
    #[arg(long, value_name = "N")]
    messages_max: Option<OrNone<u64>>,
    /// What happens to a send beyond that: refuse, drop-oldest, or spill-to=QUEUE.
    #[arg(long, value_name = "WHAT", value_parser = parse_overflow)]
    overflow: Option<Overflow>,
}

impl Order {
    pub(super) fn patch(&self) -> OrderPatch {
        let weights = self.key_weights.iter().filter_map(|weight| weight.0.clone());
        OrderPatch {
            ageing_ms: self.ageing.as_ref().map(|ageing| ageing.0.map(ms)),
            rate: self.rate.as_ref().map(|rate| rate.0),
            key_rate: self.key_rate.as_ref().map(|rate| rate.0),
            key_in_flight_max: self.key_in_flight_max.as_ref().map(|max| max.0),
            key_weights: (!self.key_weights.is_empty()).then(|| weights.collect()),
            messages_max: self.messages_max.as_ref().map(|max| max.0),
            overflow: self.overflow.clone(),
        }
    }
}

fn or_none<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<OrNone<T>, String> {
    if text == "none" { Ok(OrNone(None)) } else { read(text).map(|value| OrNone(Some(value))) }
}

impl FromStr for OrNone<Rate> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        or_none(text, |text| {
            let wrong = || "write a rate like 100/1s, or none".to_owned();
            let (messages, per) = text.split_once('/').ok_or_else(wrong)?;
            let messages = messages.trim().parse().map_err(|_| wrong())?;
            // What is out of range is refused by the rules, which say what the range is.
            let per_ms = u32::try_from(ms(parse_duration(per)?)).unwrap_or(u32::MAX);
            Ok(Rate { messages, per_ms })
        })
    }
}

impl FromStr for OrNone<(Key, u32)> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        or_none(text, |text| {
            let wrong = || "write a weight like gold=4, or none".to_owned();
            let (key, weight) = text.rsplit_once('=').ok_or_else(wrong)?;
            let key = Key::new(key).map_err(|refusal| refusal.to_string())?;
            Ok((key, weight.parse().map_err(|_| wrong())?))
        })
    }
}

macro_rules! number_or_none {
    ($($number:ty),+) => {$(
        impl FromStr for OrNone<$number> {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                or_none(text, |text| {
                    text.parse().map_err(|_| "write a whole number, or none".to_owned())
                })
            }
        }
    )+};
}
number_or_none!(u32, u64);

fn parse_overflow(text: &str) -> Result<Overflow, String> {
    match text {
        "refuse" => Ok(Overflow::Refuse),
        "drop-oldest" => Ok(Overflow::DropOldest),
        _ => {
            let wrong = || "it is refuse, drop-oldest, or spill-to=QUEUE".to_owned();
            let queue = text.strip_prefix("spill-to=").ok_or_else(wrong)?;
            QueueName::new(queue).map(Overflow::SpillTo).map_err(|refusal| refusal.to_string())
        }
    }
}
