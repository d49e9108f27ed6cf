//! Items of jobs: dispatching them, looking at them, completing them with a result.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::core::command::{Command, NewContent};
use bellwether::core::job::{Failure, ItemState, Which};
use bellwether::core::name::{JobName, Part, QueueName, QueuePath};
use bellwether::core::outcome::Outcome;
use bellwether::job::{Item, item_id, read_items};
use bellwether::queue::prepare;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json};
use super::id;
use super::message::NewMessage;
use super::problem::{Problem, Told};
use super::queues::page_max;
use super::state::{Door, State, unexpected};

/// Items to be sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dispatch {
    /// The index of the first; the others follow.
    #[serde(default)]
    first: u32,
    /// Their messages. The id of each is the job and its index, the correlation id the job.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    messages: Vec<NewMessage>,
    /// There are so many items and no more will come.
    #[serde(default)]
    #[schema(maximum = 1_000_000)]
    items: Option<u32>,
}

/// What became of a dispatch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Dispatched {
    /// How many were sent; the others were known already.
    sent: u32,
}

/// Sends items of a job, all or none; those that are known already are left alone.
#[utoipa::path(
    post, path = "/v1/jobs/{job}/items", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize")),
    request_body = Dispatch,
    responses((status = 200, description = "How many were sent", body = Dispatched))
)]
pub(crate) async fn dispatch_items(
    caller: Caller,
    Path(name): Path<String>,
    Json(ask): Json<Dispatch>,
) -> Told<Response> {
    let job = JobName::new(&name)?;
    let (mut news, mut contents) = (Vec::new(), Vec::new());
    for (index, message) in (ask.first..).zip(ask.messages) {
        let mut message = message.into_message()?;
        message.id = Some(item_id(&job, index));
        message.correlation_id = Some(name.clone());
        let (new, content) = prepare(&message)?;
        news.push(new);
        contents.push(content);
    }
    let (first, messages, items) = (ask.first, news.into(), ask.items);
    let command = Command::Dispatch { job, first, messages, items };
    match caller.ask_with(command, contents).await?.outcome {
        Outcome::Dispatched { sent } => Ok(json(&Dispatched { sent })),
        other => unexpected(&other),
    }
}

/// Which items.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ItemPage {
    /// From this index on; `next` of the page before.
    from: Option<u32>,
    /// At most so many; 100 if not said.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// Only those that stand so.
    state: Option<ItemStateName>,
}

/// How an item stands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ItemStateName {
    /// Its message waits or is worked on.
    Pending,
    /// Its work is done.
    Done,
    /// It will not be done unless somebody sends it again.
    Failed,
}

/// One page of items.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Items {
    items: Vec<ShownItem>,
    /// Ask for the next page with `from` set to this; a page without items is the last, and its
    /// `next` is null.
    next: Option<u32>,
}

/// One item, with its result.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownItem {
    index: u32,
    state: ItemStateName,
    /// What came of it, if it is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// What came of it, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    base64: Option<String>,
    /// What became of its message: `dead_lettered`, `expired`, `removed` or `queue_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'static str>,
    /// Where its message or dead letter is, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<ShownPlace>,
}

/// Where an item's message is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownPlace {
    queue: String,
    /// It is among the dead letters.
    dead_letter: bool,
    #[schema(pattern = "^[0-9]+$")]
    sequence: String,
    /// Somebody works on it.
    locked: bool,
    /// Deliveries that ended and count.
    deliveries: u32,
}

impl From<Item> for ShownItem {
    fn from(Item { info, result }: Item) -> Self {
        let (state, failure) = match info.state {
            ItemState::Pending { .. } => (ItemStateName::Pending, None),
            ItemState::Done { .. } => (ItemStateName::Done, None),
            ItemState::Failed { why, .. } => (ItemStateName::Failed, Some(failure_name(why))),
        };
        let (text, base64) = match result.map(|bytes| String::from_utf8(bytes.into())) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(bytes)) => (None, Some(BASE64.encode(bytes.into_bytes()))),
        };
        let message = info.message.map(|message| ShownPlace {
            queue: message.queue.to_string(),
            dead_letter: message.part == Part::Dead,
            sequence: message.sequence.to_string(),
            locked: message.is_locked,
            deliveries: message.deliveries,
        });
        Self { index: info.index, state, text, base64, failure, message }
    }
}

/// What became of a failed item, in a word.
fn failure_name(why: Failure) -> &'static str {
    match why {
        Failure::DeadLettered { .. } => "dead_lettered",
        Failure::Expired => "expired",
        Failure::Removed => "removed",
        Failure::QueueGone => "queue_gone",
    }
}

/// Items of a job by index, with their results.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/items", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize"), ItemPage),
    responses((status = 200, description = "One page of items", body = Items))
)]
pub(crate) async fn list_items(
    Door(state): Door<State>,
    Path(job): Path<String>,
    page: Query<ItemPage>,
) -> Told<Response> {
    let (job, max) = (JobName::new(&job)?, page_max(page.0.max)?);
    let which = match page.0.state {
        None => Which::All,
        Some(ItemStateName::Pending) => Which::Pending,
        Some(ItemStateName::Done) => Which::Done,
        Some(ItemStateName::Failed) => Which::Failed,
    };
    let command = Command::ListItems { job, from: page.0.from.unwrap_or(0), max, which };
    let slot = state.bellwether().slot();
    let items = read_items(state.ask_as(slot, command, Vec::new()).await?)?;
    // Fewer may have come because they are large: whether there are more is known by asking.
    let next = items.last().map(|last| last.info.index + 1);
    Ok(json(&Items { items: items.into_iter().map(Into::into).collect(), next }))
}

/// The end of a delivery, and what came of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Complete {
    /// The proof of the delivery.
    lock_token: String,
    /// What came of it, a text.
    #[serde(default)]
    text: Option<String>,
    /// What came of it, bytes as base64.
    #[serde(default)]
    #[schema(content_encoding = "base64")]
    base64: Option<String>,
    /// It is a dead letter that was done by hand.
    #[serde(default)]
    dead_letter: bool,
}

/// Whether a job took it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Completed {
    /// An open job has it now; otherwise the message is gone all the same.
    taken: bool,
}

/// Completes an item of a job with its result.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/complete", tag = "jobs",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Complete,
    responses((status = 200, description = "Whether a job took it", body = Completed))
)]
pub(crate) async fn complete_item(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Complete>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let from = if ask.dead_letter { QueuePath::dead(queue) } else { QueuePath::main(queue) };
    let token = id::parse_lock_token(&ask.lock_token).ok_or_else(|| {
        Problem::invalid("lock_token", "no lock's token; show the one that receiving gave")
    })?;
    let content = match (ask.text, ask.base64) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("text", "give one of text and base64"));
        }
        (None, None) => None,
        (Some(text), None) => Some(Bytes::from(text)),
        (None, Some(base64)) => Some(Bytes::from(BASE64.decode(base64).map_err(|e| {
            Problem::invalid("base64", format!("{e}; encode with the standard alphabet"))
        })?)),
    };
    let contents: Vec<Bytes> = content.into_iter().collect();
    let result = contents.first().map(|content| NewContent {
        index: 0,
        bytes: u32::try_from(content.len()).unwrap_or(u32::MAX),
    });
    match caller.ask_with(Command::CompleteItem { from, token, result }, contents).await?.outcome {
        Outcome::Count(taken) => Ok(json(&Completed { taken: taken > 0 })),
        other => unexpected(&other),
    }
}
