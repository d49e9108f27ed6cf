//! Messages: send, receive, look, cancel.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bellwether::core::command::{Command, Receive, ReceiveMode};
use bellwether::core::message::State as MessageState;
use bellwether::core::name::{QueueName, QueuePath, SequenceNumber, SessionId, SessionToken};
use bellwether::core::outcome::Outcome;
use bellwether::message::Message;
use bellwether::queue::{messages, prepare};
use bellwether::{Received, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, is_json, json, json_with, media_type, parse_object, read_body};
use super::message::{NewMessage, ShownMessage};
use super::number::Number;
use super::problem::{Problem, Told};
use super::queues::{Counted, page_max};
use super::state::unexpected;
use super::trace::Traced;
use super::{cloud_events, id, raw};

/// Longest wait of one request: proxies in between seldom wait longer. Ask again.
pub(crate) const WAIT_MS_MAX: u64 = 60_000;

/// A message that was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sent {
    /// Its number in its queue; null for a duplicate that was dropped.
    #[schema(pattern = "^[0-9]+$")]
    sequence: Option<String>,
    /// The queue knows its id already: it was not sent again.
    duplicate: bool,
}

/// Messages to be sent, all or none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    #[schema(min_items = 1, max_items = 10_000)]
    messages: Vec<NewMessage>,
}

/// Messages that were sent, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SentBatch {
    messages: Vec<Sent>,
}

/// Sends one message; with `scheduled_at`, for later.
///
/// `application/json` is a message with its fields. `application/cloudevents+json` is a CloudEvent;
/// `ce-…` headers make one of any body. Any other body is the message's body as it is, and its
/// fields are headers: `Bellwether-Id`, `-Session`, `-Subject`, `-Correlation-Id`, `-To`,
/// `-Reply-To`, `-Reply-To-Session`, `-Ttl-Ms`, `-Scheduled-At`, and `-Properties`, a JSON object.
///
/// When this is answered the message is flushed to disk.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/messages", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body(content(
        (NewMessage = "application/json"),
        (String = "text/plain"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses((status = 201, description = "The message is kept", body = Sent))
)]
pub(crate) async fn send_message(
    caller: Caller,
    Path(queue): Path<String>,
    request: Request,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let (parts, body) = request.into_parts();
    let body = read_body(body).await?;
    let headers = &parts.headers;
    let message = match media_type(headers).as_deref() {
        Some(cloud_events::MEDIA_TYPE) => {
            raw::read_fields(headers, cloud_events::read_structured(&body)?)?
        }
        Some(kind) if is_json(kind) && !cloud_events::is_binary(headers) => {
            parse_object::<NewMessage>(&body)?.into_message()?
        }
        _ => raw::read(headers, body)?,
    };
    let mut sent = send(&caller, queue, &mut [message]).await?;
    let sent = sent.pop().ok_or_else(|| Problem::bad_request("no message"))?;
    Ok(json_with(StatusCode::CREATED, &sent))
}

/// Sends messages, all or none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/messages/batch", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Batch,
    responses((status = 201, description = "The messages are kept", body = SentBatch))
)]
pub(crate) async fn send_batch(
    caller: Caller,
    Path(queue): Path<String>,
    Json(batch): Json<Batch>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let messages: Told<Vec<Message>> =
        batch.messages.into_iter().map(NewMessage::into_message).collect();
    let messages = send(&caller, queue, &mut messages?).await?;
    Ok(json_with(StatusCode::CREATED, &SentBatch { messages }))
}

async fn send(caller: &Caller, queue: QueueName, messages: &mut [Message]) -> Told<Vec<Sent>> {
    let traced = caller.trace().send(queue.as_str(), messages);
    traced.ended(send_traced(caller, queue, messages).await)
}

async fn send_traced(caller: &Caller, queue: QueueName, messages: &[Message]) -> Told<Vec<Sent>> {
    let mut news = Vec::with_capacity(messages.len());
    let mut contents = Vec::with_capacity(messages.len());
    for message in messages {
        let (new, content) = prepare(message)?;
        news.push(new);
        contents.push(content);
    }
    let command = Command::Send { queue, messages: news.into() };
    match caller.ask_with(command, contents).await?.outcome {
        Outcome::Sent(sequences) => Ok(sequences
            .iter()
            .map(|sequence| Sent {
                sequence: (sequence.0 != 0).then(|| sequence.to_string()),
                duplicate: sequence.0 == 0,
            })
            .collect()),
        other => unexpected(&other),
    }
}

/// Numbers of messages.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    #[schema(max_items = 10_000)]
    sequences: Vec<Number>,
}

/// Takes back scheduled messages, all or none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/cancel", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Cancel,
    responses((status = 200, description = "How many were taken back", body = Counted))
)]
pub(crate) async fn cancel_messages(
    caller: Caller,
    Path(queue): Path<String>,
    Json(cancel): Json<Cancel>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let sequences = sequences(&cancel.sequences);
    match caller.ask(Command::Cancel { queue, sequences }).await?.outcome {
        Outcome::Count(count) => Ok(json(&Counted { count, more: false })),
        other => unexpected(&other),
    }
}

pub(crate) fn sequences(numbers: &[Number]) -> Vec<SequenceNumber> {
    numbers.iter().map(|number| SequenceNumber(number.0)).collect()
}

/// A hold of a session, as it was accepted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldSession {
    /// The session.
    session: String,
    /// The proof of the hold.
    token: String,
}

impl HeldSession {
    pub(crate) fn token(&self) -> Told<SessionToken> {
        session_token(&self.session, &self.token)
    }
}

pub(crate) fn session_token(session: &str, token: &str) -> Told<SessionToken> {
    let session = SessionId::new(session)?;
    id::parse_session_token(session, token).ok_or_else(|| {
        Problem::invalid("token", "no session's token; show the one that accepting gave")
    })
}

/// What receiving does to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Locks it until it is settled.
    #[default]
    PeekLock,
    /// Removes it: lost if the answer is. Takes no `Idempotency-Key`.
    ReceiveAndDelete,
}

impl From<Mode> for ReceiveMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::PeekLock => Self::PeekLock,
            Mode::ReceiveAndDelete => Self::ReceiveAndDelete,
        }
    }
}

/// A wish for messages.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReceiveAsked {
    /// At most so many; one if not said.
    #[schema(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// How long to wait for the first one; not at all if not said.
    #[schema(maximum = 60_000)]
    wait_ms: u64,
    mode: Mode,
    /// A lock duration other than the queue's.
    #[schema(minimum = 100, maximum = 604_800_000)]
    lock_ms: Option<u32>,
    /// From this held session; wanted in a session queue.
    session: Option<HeldSession>,
}

/// Messages that were received.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceivedMessages {
    messages: Vec<ShownMessage>,
}

/// Receives messages: locked until they are settled, or removed.
///
/// Waits up to `wait_ms` for the first one; an empty list means that there was none. A caller that
/// goes away while it waits is withdrawn and locks nothing. One message (`max` 1) can be had as
/// its bytes with `Accept: application/octet-stream`, or as a CloudEvent with
/// `Accept: application/cloudevents+json`; then 204 means that there was none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/receive", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = ReceiveAsked,
    responses(
        (status = 200, description = "The messages, as asked for", content(
            (ReceivedMessages = "application/json"),
            (Vec<u8> = "application/octet-stream"),
            (serde_json::Value = "application/cloudevents+json"),
        )),
        (status = 204, description = "No message, of those asked for one by one"),
    )
)]
pub(crate) async fn receive_messages(
    caller: Caller,
    headers: HeaderMap,
    Path(queue): Path<String>,
    Json(ask): Json<ReceiveAsked>,
) -> Told<Response> {
    receive_from(&caller, &headers, QueuePath::main(QueueName::new(&queue)?), ask).await
}

pub(crate) async fn receive_from(
    caller: &Caller,
    headers: &HeaderMap,
    from: QueuePath,
    ask: ReceiveAsked,
) -> Told<Response> {
    let form = raw::wanted(headers);
    let max = page_max(Some(ask.max.unwrap_or(1)))?;
    if form.is_some() && max != 1 {
        return Err(Problem::invalid("max", "several messages are received as application/json"));
    }
    check_wait(ask.wait_ms)?;
    check_key(caller, ask.mode)?;
    let command = Command::Receive(Receive {
        from: from.clone(),
        session: ask.session.as_ref().map(HeldSession::token).transpose()?,
        max,
        mode: ask.mode.into(),
        wait_ms: ask.wait_ms,
        lock_ms: ask.lock_ms,
    });
    let traced = caller.trace().receive(&from);
    let reply = traced.ended(caller.state().unless_stopped(caller.ask(command)).await)?;
    answer(caller, &traced, form, &from, ask.mode, reply)
}

pub(crate) fn check_wait(wait_ms: u64) -> Told<()> {
    if wait_ms > WAIT_MS_MAX {
        let why = format!("one request waits at most {WAIT_MS_MAX} ms; ask again after it");
        return Err(Problem::invalid("wait_ms", why).limit(WAIT_MS_MAX));
    }
    Ok(())
}

/// What was received and deleted is not there to be told again, so a key would promise too much.
fn check_key(caller: &Caller, mode: Mode) -> Told<()> {
    if mode == Mode::ReceiveAndDelete && caller.is_keyed() {
        let why = "what is received and deleted cannot be told twice; use peek_lock and complete";
        return Err(Problem::invalid("Idempotency-Key", why));
    }
    Ok(())
}

fn answer(
    caller: &Caller,
    traced: &Traced,
    form: Option<raw::Form>,
    from: &QueuePath,
    mode: Mode,
    reply: bellwether::engine::Reply,
) -> Told<Response> {
    let state = caller.state();
    let name = from.queue.to_string();
    let empty = Message::default();
    if mode == Mode::ReceiveAndDelete {
        let received: Vec<Received> = messages(reply).collect();
        traced.received(received.iter().map(|one| one.message().unwrap_or(&empty)));
        if let Some(form) = form {
            return raw::write(form, &name, received.first().map(|one| (one, None)));
        }
        let shown = received.iter().map(|one| ShownMessage::deleted(state, one)).collect();
        return Ok(json(&ReceivedMessages { messages: shown }));
    }
    let mut queue = state.bellwether().queue(&name)?;
    if from.part == bellwether::core::name::Part::Dead {
        queue = queue.dead_letters();
    }
    let mut deliveries = queue.deliveries(reply);
    traced.received(deliveries.iter().map(std::ops::Deref::deref));
    let Some(form) = form else {
        let shown = deliveries.into_iter().map(|one| ShownMessage::delivered(state, one)).collect();
        return Ok(json(&ReceivedMessages { messages: shown }));
    };
    let Some(delivery) = deliveries.pop() else { return raw::write(form, &name, None) };
    let received = delivery.received().clone();
    let locked_until = match received.state() {
        MessageState::Locked(lock) => lock.until,
        _ => delivery.locked_until(),
    };
    let until = state.wall_at(locked_until);
    let lock = raw::Lock { token: id::lock_token(delivery.keep()), until };
    raw::write(form, &name, Some((&received, Some(lock))))
}

/// A wish for messages that were set aside.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiveDeferred {
    /// Which.
    #[schema(max_items = 1000)]
    sequences: Vec<Number>,
    #[serde(default)]
    mode: Mode,
    /// From this held session; wanted in a session queue.
    #[serde(default)]
    session: Option<HeldSession>,
}

/// Receives messages that were set aside by `defer`, by number, all or none.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/receive-deferred", tag = "messages",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = ReceiveDeferred,
    responses((status = 200, description = "The messages", body = ReceivedMessages))
)]
pub(crate) async fn receive_deferred(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<ReceiveDeferred>,
) -> Told<Response> {
    receive_deferred_from(&caller, QueuePath::main(QueueName::new(&queue)?), ask).await
}

pub(crate) async fn receive_deferred_from(
    caller: &Caller,
    from: QueuePath,
    ask: ReceiveDeferred,
) -> Told<Response> {
    check_key(caller, ask.mode)?;
    if ask.sequences.len() > super::queues::PAGE_MAX as usize {
        let max = super::queues::PAGE_MAX.into();
        return Err(Refusal::TooMany { what: "sequence numbers in one request", max }.into());
    }
    let command = Command::ReceiveDeferred {
        from: from.clone(),
        session: ask.session.as_ref().map(HeldSession::token).transpose()?,
        sequences: sequences(&ask.sequences),
        mode: ask.mode.into(),
    };
    let traced = caller.trace().receive(&from);
    let reply = traced.ended(caller.ask(command).await)?;
    answer(caller, &traced, None, &from, ask.mode, reply)
}
