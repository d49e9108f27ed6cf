//! Transactions: several things at once, all or nothing.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::core::command::{Command, NewContent};
use bellwether::core::name::{NoteKey, QueueName, QueuePath};
use bellwether::core::note::Report;
use bellwether::core::outcome::Outcome;
use bellwether::core::transaction::Step;
use bellwether::queue::prepare;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::claims::parse_token;
use super::extract::{Json, json};
use super::message::NewMessage;
use super::messages::{HeldSession, sequences};
use super::number::Number;
use super::problem::{Problem, Told};
use super::settle::OneSettlement;
use super::state::unexpected;

/// Steps that all happen, or none of them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transaction {
    #[schema(min_items = 1, max_items = 100)]
    steps: Vec<OneStep>,
}

/// One step.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OneStep {
    /// Ends a delivery.
    Settle(SettleStep),
    /// Sends messages.
    Send(SendStep),
    /// Keeps or clears a session's state.
    SetSessionState(StateStep),
    /// Takes back scheduled messages.
    Cancel(CancelStep),
    /// Sends a message and keeps a result for it under its id.
    Request(RequestStep),
    /// Writes the result of a message, unless a final one is there.
    Report(ReportStep),
    /// The claimed work is done.
    Finish(FinishStep),
    /// The claimed work was not done.
    GiveUp(GiveUpStep),
}

/// The end of a delivery.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleStep {
    /// Where it was received.
    queue: String,
    /// It was received from the queue's dead letters.
    #[serde(default)]
    dead_letters: bool,
    settlement: OneSettlement,
}

/// Messages for a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendStep {
    queue: String,
    #[schema(min_items = 1, max_items = 10_000)]
    messages: Vec<NewMessage>,
}

/// A session's state; without `text` and `base64` it is cleared.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateStep {
    queue: String,
    session: HeldSession,
    /// The state, a text.
    #[serde(default)]
    text: Option<String>,
    /// The state, bytes as base64.
    #[serde(default)]
    #[schema(content_encoding = "base64")]
    base64: Option<String>,
}

/// Scheduled messages of a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelStep {
    queue: String,
    #[schema(max_items = 10_000)]
    sequences: Vec<Number>,
}

/// A message that wants an answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestStep {
    queue: String,
    /// It must have an id.
    message: NewMessage,
    /// How long the result is kept after it was last written; an hour if not said.
    #[serde(default = "super::requests::keep_ms")]
    #[schema(minimum = 1, maximum = 31_622_400_000_u64)]
    keep_ms: u64,
}

/// What became of a message's work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportStep {
    queue: String,
    /// The id of the message.
    id: String,
    state: ReportName,
    /// How far it is.
    #[serde(default)]
    #[schema(maximum = 100)]
    percent: Option<u32>,
    /// What came of it, or why it failed.
    #[serde(default)]
    message: Option<NewMessage>,
    /// How long it is kept even if nobody asked for it; then it is not, if not said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 31_622_400_000_u64)]
    keep_ms: Option<u64>,
}

/// How work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportName {
    /// Somebody is at it.
    Running,
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
}

/// What came of claimed work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishStep {
    scope: String,
    key: String,
    /// The proof of the claim.
    token: String,
    /// What came of it, a text.
    #[serde(default)]
    text: Option<String>,
    /// What came of it, bytes as base64.
    #[serde(default)]
    #[schema(content_encoding = "base64")]
    base64: Option<String>,
}

/// Claimed work that was not done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GiveUpStep {
    scope: String,
    key: String,
    /// The proof of the claim.
    token: String,
}

/// A transaction that happened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Committed {
    /// The numbers of the messages of each `send` and `request`, in their order; null for a duplicate
    /// that was dropped.
    sent: Vec<Vec<Option<String>>>,
}

/// Does all steps, or none of them. A step that is refused refuses them all: the problem is that of the
/// step, and says which one it is. When this is answered everything is flushed to disk.
#[utoipa::path(
    post, path = "/v1/transactions", tag = "messages",
    request_body = Transaction,
    responses((status = 200, description = "All of it has happened", body = Committed))
)]
pub(crate) async fn commit_transaction(
    caller: Caller,
    Json(transaction): Json<Transaction>,
) -> Told<Response> {
    let mut contents = Vec::new();
    let steps: Told<Vec<Step>> =
        transaction.steps.into_iter().map(|step| step.into_step(&mut contents)).collect();
    match caller.ask_with(Command::Transact { steps: steps? }, contents).await?.outcome {
        Outcome::Transacted(sends) => {
            let sent = sends.iter().map(|send| {
                send.iter().map(|number| (number.0 != 0).then(|| number.to_string())).collect()
            });
            Ok(json(&Committed { sent: sent.collect() }))
        }
        other => unexpected(&other),
    }
}

impl OneStep {
    fn into_step(self, contents: &mut Vec<Bytes>) -> Told<Step> {
        Ok(match self {
            Self::Settle(step) => {
                let queue = QueueName::new(&step.queue)?;
                let dead = step.dead_letters;
                let from = if dead { QueuePath::dead(queue) } else { QueuePath::main(queue) };
                Step::Settle { from, settlement: step.settlement.into_settlement(contents)? }
            }
            Self::Send(step) => {
                let (queue, first) = (QueueName::new(&step.queue)?, contents.len() as u32);
                let mut messages = Vec::with_capacity(step.messages.len());
                for message in step.messages {
                    let (new, content) = prepare(&message.into_message()?)?;
                    messages.push(new);
                    contents.push(content);
                }
                Step::Send { queue, messages: messages.into(), first }
            }
            Self::SetSessionState(step) => {
                let (queue, token) = (QueueName::new(&step.queue)?, step.session.token()?);
                let state = add(bytes(step.text, step.base64)?, contents);
                Step::SetSessionState { queue, token, state }
            }
            Self::Cancel(step) => {
                let queue = QueueName::new(&step.queue)?;
                Step::Cancel { queue, sequences: sequences(&step.sequences) }
            }
            Self::Request(step) => {
                request_step(&step.queue, step.message, step.keep_ms, contents)?.0
            }
            Self::Report(step) => {
                let (queue, key) = (QueueName::new(&step.queue)?, NoteKey::new(&step.id)?);
                let report = match step.state {
                    ReportName::Running => Report::Running { percent: step.percent },
                    ReportName::Succeeded => Report::Succeeded,
                    ReportName::Failed => Report::Failed,
                };
                let message = step.message.map(NewMessage::into_message).transpose()?;
                let content = message.map(|message| bellwether::message::encode(&message));
                let content = add(content, contents);
                Step::Report { queue, key, report, content, ttl_ms: step.keep_ms }
            }
            Self::Finish(step) => {
                let (scope, key) = (QueueName::new(&step.scope)?, NoteKey::new(&step.key)?);
                let token = parse_token(&step.token)?;
                let content = add(bytes(step.text, step.base64)?, contents);
                Step::Finish { scope, key, token, content }
            }
            Self::GiveUp(step) => {
                let (scope, key) = (QueueName::new(&step.scope)?, NoteKey::new(&step.key)?);
                Step::GiveUp { scope, key, token: parse_token(&step.token)? }
            }
        })
    }
}

/// A request, and the id of its message.
pub(crate) fn request_step(
    queue: &str,
    message: NewMessage,
    ttl_ms: u64,
    contents: &mut Vec<Bytes>,
) -> Told<(Step, NoteKey)> {
    let queue = QueueName::new(queue)?;
    let message = message.into_message()?;
    let key = NoteKey::new(message.id.as_deref().unwrap_or_default())?;
    let (new, content) = prepare(&message)?;
    let index = contents.len() as u32;
    contents.push(content);
    let step = Step::Request { queue, message: new, content: index, key: key.clone(), ttl_ms };
    Ok((step, key))
}

fn add(content: Option<Bytes>, contents: &mut Vec<Bytes>) -> Option<NewContent> {
    let content = content?;
    let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
    contents.push(content);
    Some(NewContent { index: contents.len() as u32 - 1, bytes })
}

/// A text, or bytes as base64; not both.
fn bytes(text: Option<String>, base64: Option<String>) -> Told<Option<Bytes>> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Problem::invalid("text", "give one of text and base64")),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(base64)) => {
            let bytes = BASE64.decode(base64).map_err(|e| {
                Problem::invalid("base64", format!("{e}; encode with the standard alphabet"))
            })?;
            Ok(Some(bytes.into()))
        }
        (None, None) => Ok(None),
    }
}
