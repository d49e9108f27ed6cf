//! Settling: the ends of deliveries, and the renewal of their locks.

use axum::response::Response;
use bellwether::core::command::{Command, Disposition, NewContent, Settlement};
use bellwether::core::name::{LockToken, QueueName, QueuePath};
use bellwether::core::outcome::Outcome;
use bellwether::message::Overlay;
use bellwether_core::few::Few;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, json};
use super::id;
use super::problem::{Problem, Told};
use super::state::unexpected;
use crate::property::Property;
use crate::time;

/// Deliveries to be ended, each by itself.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    #[schema(max_items = 10_000)]
    settlements: Vec<OneSettlement>,
}

/// The end of one delivery.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneSettlement {
    /// The proof of the delivery.
    lock_token: String,
    disposition: DispositionName,
    /// An abandoned message comes back after so long; at once if not said.
    #[serde(default)]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    delay_ms: Option<u64>,
    /// Why it becomes a dead letter, in a word or two that programs compare.
    #[serde(default)]
    reason: Option<String>,
    /// Why it becomes a dead letter, in words for people.
    #[serde(default)]
    description: Option<String>,
    /// Properties that change; null removes one. Not with `complete`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Property>)]
    properties: BTreeMap<String, Option<Property>>,
}

/// How a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DispositionName {
    /// The work is done: the message goes.
    Complete,
    /// The work failed: the message comes back, and the delivery counts.
    Abandon,
    /// Nothing was done: the message comes back, and the delivery does not count.
    Release,
    /// Set aside until it is asked for by number.
    Defer,
    /// It can never work: set aside with a reason.
    DeadLetter,
}

/// What became of each.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Settled {
    /// How many were settled.
    settled: usize,
    /// Those that were not.
    refused: Vec<RefusedOne>,
}

/// One that was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedOne {
    /// Which, counted from zero.
    index: u32,
    /// Why.
    #[schema(value_type = Problem)]
    problem: Box<Problem>,
}

/// Ends deliveries, each by itself: one that is refused does not stop the others.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/settle", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Settle,
    responses((status = 200, description = "What became of each", body = Settled))
)]
pub(crate) async fn settle_messages(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Settle>,
) -> Told<Response> {
    settle_in(&caller, QueuePath::main(QueueName::new(&queue)?), ask).await
}

pub(crate) async fn settle_in(caller: &Caller, from: QueuePath, ask: Settle) -> Told<Response> {
    let count = ask.settlements.len();
    let traced = caller.trace().settle(word(&ask.settlements), &from, count);
    traced.ended(settle_traced(caller, from, ask).await)
}

/// The one word for what becomes of all of them, if there is one.
fn word(settlements: &[OneSettlement]) -> &'static str {
    let mut names = settlements.iter().map(|one| one.disposition);
    let first = names.next();
    match first.filter(|first| names.all(|name| name == *first)) {
        Some(DispositionName::Complete) => "complete",
        Some(DispositionName::Abandon) => "abandon",
        Some(DispositionName::Release) => "release",
        Some(DispositionName::Defer) => "defer",
        Some(DispositionName::DeadLetter) => "dead_letter",
        None => "settle",
    }
}

async fn settle_traced(caller: &Caller, from: QueuePath, ask: Settle) -> Told<Response> {
    let count = ask.settlements.len();
    let mut contents = Vec::new();
    let mut settlements = Vec::with_capacity(count);
    for one in ask.settlements {
        settlements.push(one.into_settlement(&mut contents)?);
    }
    let command = Command::Settle { from, settlements: Few::from(settlements) };
    match caller.ask_with(command, contents).await?.outcome {
        Outcome::Settled { refused } => {
            let settled = count - refused.len();
            Ok(json(&Settled { settled, refused: refused_ones(&refused) }))
        }
        other => unexpected(&other),
    }
}

impl OneSettlement {
    /// As the rules have it; what was changed is added to the contents.
    pub(crate) fn into_settlement(self, contents: &mut Vec<Bytes>) -> Told<Settlement> {
        let one = self;
        let token = lock_token(&one.lock_token)?;
        let disposition = disposition(&one)?;
        let overlay = Overlay {
            properties: one.properties.into_iter().map(|(k, v)| (k, v.map(|v| v.0))).collect(),
            reason: one.reason,
            description: one.description,
        };
        let overlay = (!overlay.is_empty()).then(|| {
            let content = overlay.encode();
            let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
            contents.push(content);
            NewContent { index: contents.len() as u32 - 1, bytes }
        });
        Ok(Settlement { token, disposition, overlay })
    }
}

fn refused_ones(refused: &[(u32, bellwether::Refusal)]) -> Vec<RefusedOne> {
    let one = |(index, refusal): &(u32, bellwether::Refusal)| RefusedOne {
        index: *index,
        problem: refusal.into(),
    };
    refused.iter().map(one).collect()
}

fn lock_token(text: &str) -> Told<LockToken> {
    id::parse_lock_token(text).ok_or_else(|| {
        Problem::invalid("lock_token", "no lock's token; show the one that receiving gave")
    })
}

/// What is said of a delivery must belong to the way it ends: nothing that was said is dropped.
fn disposition(one: &OneSettlement) -> Told<Disposition> {
    let name = one.disposition;
    if one.delay_ms.is_some() && name != DispositionName::Abandon {
        return Err(Problem::invalid("delay_ms", "only an abandoned message comes back later"));
    }
    let has_words = one.reason.is_some() || one.description.is_some();
    if has_words && name != DispositionName::DeadLetter {
        return Err(Problem::invalid("reason", "only a dead letter has a reason and description"));
    }
    if !one.properties.is_empty() && name == DispositionName::Complete {
        return Err(Problem::invalid("properties", "a completed message goes, with all it has"));
    }
    Ok(match name {
        DispositionName::Complete => Disposition::Complete,
        DispositionName::Abandon => Disposition::Abandon { delay_ms: one.delay_ms },
        DispositionName::Release => Disposition::Release,
        DispositionName::Defer => Disposition::Defer,
        DispositionName::DeadLetter => Disposition::DeadLetter,
    })
}

/// Locks to be renewed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renew {
    #[schema(max_items = 10_000)]
    lock_tokens: Vec<String>,
    /// For how long from now; the lock's own duration if not said.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 604_800_000)]
    lock_ms: Option<u32>,
}

/// What became of each lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Renewed {
    /// How long they hold from now.
    pub(crate) lock_ms: u32,
    /// Until when.
    #[schema(format = DateTime)]
    pub(crate) locked_until: String,
    /// Those that were not renewed.
    pub(crate) refused: Vec<RefusedOne>,
}

/// Starts locks anew, each by itself.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/renew", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Renew,
    responses((status = 200, description = "What became of each", body = Renewed))
)]
pub(crate) async fn renew_locks(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Renew>,
) -> Told<Response> {
    renew_in(&caller, QueuePath::main(QueueName::new(&queue)?), &ask).await
}

pub(crate) async fn renew_in(caller: &Caller, from: QueuePath, ask: &Renew) -> Told<Response> {
    let tokens: Told<Vec<LockToken>> =
        ask.lock_tokens.iter().map(|token| lock_token(token)).collect();
    let command = Command::RenewLocks { from, tokens: tokens?, lock_ms: ask.lock_ms };
    renewed(caller, command).await
}

pub(crate) async fn renewed(caller: &Caller, command: Command) -> Told<Response> {
    // Counted from before it was asked for: never later than it is.
    let asked_at = caller.state().now().wall;
    match caller.ask(command).await?.outcome {
        Outcome::Renewed { lock_ms, refused } => Ok(json(&Renewed {
            lock_ms,
            locked_until: time::of_wall(asked_at.plus_ms(lock_ms.into())),
            refused: refused_ones(&refused),
        })),
        other => unexpected(&other),
    }
}
