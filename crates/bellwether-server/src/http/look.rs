//! Looking at messages without touching them.

use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::name::{QueueName, QueuePath, SequenceNumber, SessionId};
use bellwether::queue::messages;
use bellwether::{Received, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Path, Query, json};
use super::message::ShownMessage;
use super::number::Number;
use super::problem::Told;
use super::queues::page_max;
use super::state::{Door, State};

/// A page of messages ends when it has so many bytes of bodies.
const LOOK_BYTES_MAX: usize = 16 << 20;
/// So many messages are looked at in one go: a large body is 8 MiB.
const LOOK_STEP: usize = 16;

/// Which messages to look at.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Look {
    /// From this number on; from the first if not said. `next` of the page before.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,19}$")]
    from: Option<Number>,
    /// At most so many; 100 if not said.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// Only those of this session.
    session: Option<String>,
}

/// Messages that were looked at.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Looked {
    messages: Vec<ShownMessage>,
    /// Ask for the next page with `from` set to this; there is none if it is null.
    #[schema(pattern = "^[0-9]+$")]
    next: Option<String>,
}

/// Looks at messages in whatever state, without touching them.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"), Look),
    responses((status = 200, description = "The messages", body = Looked))
)]
pub(crate) async fn peek_messages(
    Door(state): Door<State>,
    Path(queue): Path<String>,
    look: Query<Look>,
) -> Told<Response> {
    peek_from(&state, QueuePath::main(QueueName::new(&queue)?), &look.0).await
}

pub(crate) async fn peek_from(state: &State, from: QueuePath, look: &Look) -> Told<Response> {
    let max = page_max(look.max)? as usize;
    let session = look.session.as_deref().map(SessionId::new).transpose()?;
    let mut next = Some(SequenceNumber(look.from.unwrap_or_default().0));
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while let Some(sequence) = next.filter(|_| messages.len() < max && bytes < LOOK_BYTES_MAX) {
        let step = LOOK_STEP.min(max - messages.len());
        let received = peek(state, from.clone(), sequence, step as u32, session.clone()).await?;
        bytes +=
            received.iter().filter_map(|one| Some(one.message().ok()?.body().len())).sum::<usize>();
        // Fewer than were asked for may also be as many as one answer holds.
        next = received.last().map(|last| SequenceNumber(last.sequence().0 + 1));
        messages.extend(received.iter().map(|one| ShownMessage::new(state, one)));
    }
    Ok(json(&Looked { messages, next: next.map(|next| next.to_string()) }))
}

async fn peek(
    state: &State,
    from: QueuePath,
    sequence: SequenceNumber,
    max: u32,
    session: Option<SessionId>,
) -> Told<Vec<Received>> {
    let command = Command::Peek { from, sequence, max, session };
    let slot = state.bellwether().slot();
    Ok(messages(state.ask_as(slot, command, Vec::new()).await?).collect())
}

/// Looks at one message.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages/{sequence}", tag = "messages",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("sequence" = String, Path, description = "Its number", pattern = "^[0-9]{1,19}$", example = "1"),
    ),
    responses((status = 200, description = "The message", body = ShownMessage))
)]
pub(crate) async fn show_message(
    Door(state): Door<State>,
    Path((queue, sequence)): Path<(String, Number)>,
) -> Told<Response> {
    show_from(&state, QueuePath::main(QueueName::new(&queue)?), sequence).await
}

pub(crate) async fn show_from(state: &State, from: QueuePath, number: Number) -> Told<Response> {
    let sequence = SequenceNumber(number.0);
    let received = peek(state, from, sequence, 1, None).await?;
    match received.first().filter(|one| one.sequence() == sequence) {
        Some(one) => Ok(json(&ShownMessage::new(state, one))),
        None => Err(Refusal::MessageNotFound(sequence).into()),
    }
}
