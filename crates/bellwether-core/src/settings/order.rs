//! In which order, how fast and how much: what a queue gives out next, and what it takes in.

use super::invalid;
use crate::error::Refusal;
use crate::limits;
use crate::name::{Key, QueueName};

/// Order, limits and overflow of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// A waiting message gains one level of priority per so long; `None`: it never does, and the
    /// lowest may wait for ever.
    pub ageing_ms: Option<u64>,
    /// How fast the queue gives messages out.
    pub rate: Option<Rate>,
    /// How fast it gives out the messages of one key.
    pub key_rate: Option<Rate>,
    /// How many messages of one key are held by receivers at a time.
    pub key_in_flight_max: Option<u32>,
    /// Keys that get more than one message a turn.
    pub key_weights: Vec<(Key, u32)>,
    /// How many messages the queue takes in, dead letters apart.
    pub messages_max: Option<u64>,
    /// What happens to a send beyond that.
    pub overflow: Overflow,
}

/// So many messages in so long. All of them may go at once; then they come back one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub messages: u32,
    /// In how long.
    pub per_ms: u32,
}

/// What happens to a send that a queue has no more room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused, and the sender told when to come again.
    #[default]
    Refuse,
    /// The messages that have waited longest are dropped, and counted.
    DropOldest,
    /// It goes to another queue.
    SpillTo(QueueName),
}

impl Default for Order {
    fn default() -> Self {
        Self {
            ageing_ms: Some(60_000),
            rate: None,
            key_rate: None,
            key_in_flight_max: None,
            key_weights: Vec::new(),
            messages_max: None,
            overflow: Overflow::Refuse,
        }
    }
}

impl Order {
    /// How many messages a key is given in one turn.
    pub fn weight(&self, key: &Key) -> u32 {
        let own = self.key_weights.iter().find(|(known, _)| known == key);
        own.map_or(1, |(_, weight)| *weight)
    }

    /// Where messages spill over to.
    pub fn spill(&self) -> Option<&QueueName> {
        match &self.overflow {
            Overflow::SpillTo(queue) => Some(queue),
            Overflow::Refuse | Overflow::DropOldest => None,
        }
    }

    /// Checks every value.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.ageing_ms.is_some_and(|ms| !(1..=limits::AGEING_MS_MAX).contains(&ms)) {
            let why = format!("it is between 1 and {} ms, or switched off", limits::AGEING_MS_MAX);
            return Err(invalid("ageing_ms", why));
        }
        let is_bad = |rate: Rate| {
            !(1..=limits::RATE_MESSAGES_MAX).contains(&rate.messages)
                || !(1..=limits::RATE_MS_MAX).contains(&rate.per_ms)
        };
        let why = || {
            format!(
                "it is 1 to {} messages in 1 to {} ms",
                limits::RATE_MESSAGES_MAX,
                limits::RATE_MS_MAX
            )
        };
        if self.rate.is_some_and(is_bad) {
            return Err(invalid("rate", why()));
        }
        if self.key_rate.is_some_and(is_bad) {
            return Err(invalid("key_rate", why()));
        }
        if self.key_in_flight_max == Some(0) {
            let why = "0 would give out nothing of any key; the least is 1".into();
            return Err(invalid("key_in_flight_max", why));
        }
        if self.messages_max == Some(0) {
            let why = "0 would take in nothing; set the status to send_disabled instead".into();
            return Err(invalid("messages_max", why));
        }
        self.check_weights()
    }

    fn check_weights(&self) -> Result<(), Refusal> {
        let weights = &self.key_weights;
        if weights.len() > limits::KEY_WEIGHTS_MAX {
            let max = limits::KEY_WEIGHTS_MAX as u64;
            return Err(Refusal::TooMany { what: "weights of keys", max });
        }
        let max = limits::KEY_WEIGHT_MAX;
        if let Some((key, weight)) = weights.iter().find(|(_, w)| !(1..=max).contains(w)) {
            let why = format!("{weight} of key {key:?} is not between 1 and {max}");
            return Err(invalid("key_weights", why));
        }
        let is_twice = |(i, (key, _)): (usize, &(Key, u32))| {
            weights.iter().take(i).any(|(earlier, _)| earlier == key)
        };
        if weights.iter().enumerate().any(is_twice) {
            return Err(invalid("key_weights", "a key is named twice".into()));
        }
        Ok(())
    }
}

/// Changes to a queue's order; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub struct OrderPatch {
    /// See [`Order::ageing_ms`].
    pub ageing_ms: Option<Option<u64>>,
    /// See [`Order::rate`].
    pub rate: Option<Option<Rate>>,
    /// See [`Order::key_rate`].
    pub key_rate: Option<Option<Rate>>,
    /// See [`Order::key_in_flight_max`].
    pub key_in_flight_max: Option<Option<u32>>,
    /// See [`Order::key_weights`]; the whole list.
    pub key_weights: Option<Vec<(Key, u32)>>,
    /// See [`Order::messages_max`].
    pub messages_max: Option<Option<u64>>,
    /// See [`Order::overflow`].
    pub overflow: Option<Overflow>,
}

impl OrderPatch {
    /// The order after the change.
    pub fn apply(&self, old: &Order) -> Order {
        Order {
            ageing_ms: self.ageing_ms.unwrap_or(old.ageing_ms),
            rate: self.rate.unwrap_or(old.rate),
            key_rate: self.key_rate.unwrap_or(old.key_rate),
            key_in_flight_max: self.key_in_flight_max.unwrap_or(old.key_in_flight_max),
            key_weights: self.key_weights.as_ref().unwrap_or(&old.key_weights).clone(),
            messages_max: self.messages_max.unwrap_or(old.messages_max),
            overflow: self.overflow.as_ref().unwrap_or(&old.overflow).clone(),
        }
    }
}
