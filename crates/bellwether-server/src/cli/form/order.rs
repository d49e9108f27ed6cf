//! A queue's order and limits.

use bellwether::core::name::QueueName;
use bellwether::{Key, Order, Overflow, Rate};
use serde_json::{Value, json};

use super::super::human::Span;
use super::{Fields, Object};

pub(crate) fn to_json(order: &Order) -> Value {
    let rate = |rate: Option<Rate>| {
        rate.map(|rate| json!({ "messages": rate.messages, "per_ms": rate.per_ms }))
    };
    let weights = order.key_weights.iter();
    let weights: Object = weights.map(|(key, n)| (key.to_string(), (*n).into())).collect();
    json!({
        "ageing_ms": order.ageing_ms,
        "rate": rate(order.rate),
        "key_rate": rate(order.key_rate),
        "key_in_flight_max": order.key_in_flight_max,
        "key_weights": weights,
        "messages_max": order.messages_max,
        "overflow": overflow(&order.overflow),
    })
}

fn overflow(overflow: &Overflow) -> Value {
    match overflow {
        Overflow::Refuse => json!("refuse"),
        Overflow::DropOldest => json!("drop-oldest"),
        Overflow::SpillTo(queue) => json!({ "spill_to": queue.as_str() }),
    }
}

/// An order back from its JSON; what is left out is as it is by default, but for what is null.
pub(crate) fn read(json: &Value) -> Result<Order, String> {
    let fields = Fields::of(json, "order")?;
    let rate = |field| fields.maybe(field, read_rate);
    let is_never = json.get("ageing_ms").is_some_and(Value::is_null);
    let ageing_ms = fields.number("ageing_ms")?;
    let usual = Order::default();
    Ok(Order {
        ageing_ms: if is_never { None } else { ageing_ms.or(usual.ageing_ms) },
        rate: rate("rate")?,
        key_rate: rate("key_rate")?,
        key_in_flight_max: fields.number("key_in_flight_max")?,
        key_weights: fields.maybe("key_weights", read_weights)?.unwrap_or_default(),
        messages_max: fields.number("messages_max")?,
        overflow: fields.maybe("overflow", read_overflow)?.unwrap_or_default(),
    })
}

fn read_rate(json: &Value) -> Option<Rate> {
    let number = |field| u32::try_from(json.get(field)?.as_u64()?).ok();
    Some(Rate { messages: number("messages")?, per_ms: number("per_ms")? })
}

fn read_weights(json: &Value) -> Option<Vec<(Key, u32)>> {
    let weights = json.as_object()?.iter();
    weights.map(|(key, n)| Some((Key::new(key).ok()?, u32::try_from(n.as_u64()?).ok()?))).collect()
}

fn read_overflow(json: &Value) -> Option<Overflow> {
    match json.as_str() {
        Some("refuse") => Some(Overflow::Refuse),
        Some("drop-oldest") => Some(Overflow::DropOldest),
        Some(_) => None,
        None => {
            let queue = json.get("spill_to")?.as_str()?;
            QueueName::new(queue).ok().map(Overflow::SpillTo)
        }
    }
}

/// For people, one line each.
pub(crate) fn lines(order: &Order) -> [(&'static str, String); 7] {
    let rate = |rate: Option<Rate>| {
        rate.map_or("none".into(), |rate| {
            format!("{} in {}", rate.messages, Span(rate.per_ms.into()))
        })
    };
    let or_none = |max: Option<u64>| max.map_or("none".into(), |max| max.to_string());
    let weights = order.key_weights.iter().map(|(key, n)| format!("{key}={n}"));
    let weights: Vec<String> = weights.collect();
    let weights = if weights.is_empty() { "none".into() } else { weights.join(", ") };
    [
        ("ageing", order.ageing_ms.map_or("none".into(), |ms| Span(ms).to_string())),
        ("rate", rate(order.rate)),
        ("key rate", rate(order.key_rate)),
        ("key in flight max", or_none(order.key_in_flight_max.map(u64::from))),
        ("key weights", weights),
        ("messages max", or_none(order.messages_max)),
        (
            "overflow",
            match &order.overflow {
                Overflow::Refuse => "refuse".into(),
                Overflow::DropOldest => "drop oldest".into(),
                Overflow::SpillTo(queue) => format!("spill to {queue}"),
            },
        ),
    ]
}
