//! A queue's order and limits as JSON.

use std::collections::BTreeMap;

use bellwether::core::name::QueueName;
use bellwether::{Key, Order, OrderPatch, Overflow, Rate};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::maybe;
use super::problem::Told;

/// In which order, how fast and how much. What is left out has its default.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ShownOrder {
    /// A waiting message gains one level of priority per so long; null: it never does.
    #[schema(minimum = 1, maximum = 604_800_000)]
    ageing_ms: Option<u64>,
    /// How fast the queue gives messages out; null is as fast as it can.
    rate: Option<ShownRate>,
    /// How fast it gives out the messages of one key.
    key_rate: Option<ShownRate>,
    /// How many messages of one key are held by receivers at a time.
    #[schema(minimum = 1)]
    key_in_flight_max: Option<u32>,
    /// Keys that get more than one message a turn.
    key_weights: BTreeMap<String, u32>,
    /// How many messages the queue takes in, dead letters apart.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    messages_max: Option<u64>,
    /// What happens to a send beyond that.
    overflow: ShownOverflow,
}

/// So many messages in so long; all of them may go at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownRate {
    #[schema(minimum = 1, maximum = 1_000_000)]
    messages: u32,
    #[schema(minimum = 1, maximum = 86_400_000)]
    per_ms: u32,
}

/// What happens to a send that a queue has no more room for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownOverflow {
    /// It is refused, and the sender told when to come again.
    Refuse,
    /// The messages that have waited longest are dropped, and counted.
    DropOldest,
    /// It goes to this queue.
    SpillTo(String),
}

impl From<Rate> for ShownRate {
    fn from(rate: Rate) -> Self {
        let Rate { messages, per_ms } = rate;
        Self { messages, per_ms }
    }
}

impl From<ShownRate> for Rate {
    fn from(rate: ShownRate) -> Self {
        let ShownRate { messages, per_ms } = rate;
        Self { messages, per_ms }
    }
}

impl From<&Overflow> for ShownOverflow {
    fn from(overflow: &Overflow) -> Self {
        match overflow {
            Overflow::Refuse => Self::Refuse,
            Overflow::DropOldest => Self::DropOldest,
            Overflow::SpillTo(queue) => Self::SpillTo(queue.to_string()),
        }
    }
}

impl ShownOverflow {
    fn read(&self) -> Told<Overflow> {
        Ok(match self {
            Self::Refuse => Overflow::Refuse,
            Self::DropOldest => Overflow::DropOldest,
            Self::SpillTo(queue) => Overflow::SpillTo(QueueName::new(queue)?),
        })
    }
}

impl Default for ShownOrder {
    fn default() -> Self {
        (&Order::default()).into()
    }
}

impl From<&Order> for ShownOrder {
    fn from(order: &Order) -> Self {
        let weights = order.key_weights.iter();
        Self {
            ageing_ms: order.ageing_ms,
            rate: order.rate.map(Into::into),
            key_rate: order.key_rate.map(Into::into),
            key_in_flight_max: order.key_in_flight_max,
            key_weights: weights.map(|(key, weight)| (key.to_string(), *weight)).collect(),
            messages_max: order.messages_max,
            overflow: (&order.overflow).into(),
        }
    }
}

fn weights(weights: &BTreeMap<String, u32>) -> Told<Vec<(Key, u32)>> {
    weights.iter().map(|(key, weight)| Ok((Key::new(key)?, *weight))).collect()
}

impl ShownOrder {
    pub(crate) fn into_order(self) -> Told<Order> {
        Ok(Order {
            ageing_ms: self.ageing_ms,
            rate: self.rate.map(Into::into),
            key_rate: self.key_rate.map(Into::into),
            key_in_flight_max: self.key_in_flight_max,
            key_weights: weights(&self.key_weights)?,
            messages_max: self.messages_max,
            overflow: self.overflow.read()?,
        })
    }
}

/// Changes to a queue's order: what is left out stays, null clears.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub(crate) struct OrderChange {
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 604_800_000)]
    ageing_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<ShownRate>)]
    rate: Option<Option<ShownRate>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<ShownRate>)]
    key_rate: Option<Option<ShownRate>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    key_in_flight_max: Option<Option<u32>>,
    /// All of them: those that are not named have a weight of one.
    key_weights: Option<BTreeMap<String, u32>>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    messages_max: Option<Option<u64>>,
    overflow: Option<ShownOverflow>,
}

impl OrderChange {
    pub(crate) fn into_patch(self) -> Told<OrderPatch> {
        let rate = |change: Option<Option<ShownRate>>| change.map(|rate| rate.map(Into::into));
        Ok(OrderPatch {
            ageing_ms: self.ageing_ms,
            rate: rate(self.rate),
            key_rate: rate(self.key_rate),
            key_in_flight_max: self.key_in_flight_max,
            key_weights: self.key_weights.as_ref().map(weights).transpose()?,
            messages_max: self.messages_max,
            overflow: self.overflow.as_ref().map(ShownOverflow::read).transpose()?,
        })
    }
}
