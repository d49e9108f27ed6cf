//! Dead letters: the same verbs as for a queue's messages, and redrive.

use axum::http::HeaderMap;
use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::name::{QueueName, QueuePath};
use serde::Deserialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::look::{Look, Looked, peek_from, show_from};
use super::message::ShownMessage;
use super::messages::{
    ReceiveAsked, ReceiveDeferred, ReceivedMessages, receive_deferred_from, receive_from, sequences,
};
use super::number::Number;
use super::problem::Told;
use super::queues::{Counted, Purge, count_max, counted, purge_from};
use super::settle::{Renew, Renewed, Settle, Settled, renew_in, settle_in};
use super::state::{Door, State};

fn dead(queue: &str) -> Told<QueuePath> {
    Ok(QueuePath::dead(QueueName::new(queue)?))
}

/// Looks at dead letters, without touching them.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/dead-letters/messages", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"), Look),
    responses((status = 200, description = "The dead letters", body = Looked))
)]
pub(crate) async fn peek_dead_letters(
    Door(state): Door<State>,
    Path(queue): Path<String>,
    look: Query<Look>,
) -> Told<Response> {
    peek_from(&state, dead(&queue)?, &look.0).await
}

/// Looks at one dead letter.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/dead-letters/messages/{sequence}", tag = "dead letters",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("sequence" = String, Path, description = "Its number", pattern = "^[0-9]{1,19}$", example = "1"),
    ),
    responses((status = 200, description = "The dead letter", body = ShownMessage))
)]
pub(crate) async fn show_dead_letter(
    Door(state): Door<State>,
    Path((queue, sequence)): Path<(String, Number)>,
) -> Told<Response> {
    show_from(&state, dead(&queue)?, sequence).await
}

/// Receives dead letters, as messages are received.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/receive", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = ReceiveAsked,
    responses(
        (status = 200, description = "The dead letters, as asked for", content(
            (ReceivedMessages = "application/json"),
            (Vec<u8> = "application/octet-stream"),
            (serde_json::Value = "application/cloudevents+json"),
        )),
        (status = 204, description = "No dead letter, of those asked for one by one"),
    )
)]
pub(crate) async fn receive_dead_letters(
    caller: Caller,
    headers: HeaderMap,
    Path(queue): Path<String>,
    Json(ask): Json<ReceiveAsked>,
) -> Told<Response> {
    receive_from(&caller, &headers, dead(&queue)?, ask).await
}

/// Receives dead letters that were set aside, by number, all or none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/receive-deferred", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = ReceiveDeferred,
    responses((status = 200, description = "The dead letters", body = ReceivedMessages))
)]
pub(crate) async fn receive_deferred_dead_letters(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<ReceiveDeferred>,
) -> Told<Response> {
    receive_deferred_from(&caller, dead(&queue)?, ask).await
}

/// Ends deliveries of dead letters, each by itself.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/settle", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Settle,
    responses((status = 200, description = "What became of each", body = Settled))
)]
pub(crate) async fn settle_dead_letters(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Settle>,
) -> Told<Response> {
    settle_in(&caller, dead(&queue)?, ask).await
}

/// Starts locks of dead letters anew, each by itself.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/renew", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Renew,
    responses((status = 200, description = "What became of each", body = Renewed))
)]
pub(crate) async fn renew_dead_letters(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Renew>,
) -> Told<Response> {
    renew_in(&caller, dead(&queue)?, &ask).await
}

/// Removes dead letters that nobody has locked, oldest first.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/purge", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Purge,
    responses((status = 200, description = "How many were removed", body = Counted))
)]
pub(crate) async fn purge_dead_letters(
    caller: Caller,
    Path(queue): Path<String>,
    Json(purge): Json<Purge>,
) -> Told<Response> {
    purge_from(&caller, dead(&queue)?, &purge).await
}

/// Which dead letters to send again, and where to.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Redrive {
    /// Where to; back to their queue if not said.
    to: Option<String>,
    /// Which, all or none; the oldest if none is named.
    #[schema(max_items = 10_000)]
    sequences: Vec<Number>,
    /// At most so many; 10,000 if not said, which is the most.
    #[schema(minimum = 1, maximum = 10_000)]
    max: Option<u32>,
}

/// Sends dead letters again: under new numbers, with counts from zero.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/dead-letters/redrive", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Redrive,
    responses((status = 200, description = "How many were sent again", body = Counted))
)]
pub(crate) async fn redrive_dead_letters(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Redrive>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let to = ask.to.as_deref().map(QueueName::new).transpose()?;
    let max = count_max(ask.max)?;
    let sequences = sequences(&ask.sequences);
    let reply = caller.ask(Command::Redrive { queue, to, sequences, max }).await?;
    counted(&reply.outcome, max)
}
