//! Requests: work that is asked for, and what became of it.
//!
//! ```text
//!   POST …/requests ─► 202, Location: …/requests/ID
//!   GET  …/requests/ID ─► 200 pending or running … ─► 303, Location: …/requests/ID/result
//! ```

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bellwether::core::command::Command;
use bellwether::core::name::{NoteKey, QueueName};
use bellwether::message::Message;
use bellwether::result::{RequestResult, ResultState, read_result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::message::NewMessage;
use super::messages::check_wait;
use super::problem::{Kind, Problem, Told};
use super::state::{Door, State};
use super::transactions::request_step;
use crate::time;

/// What is left as it is in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// When to ask for the first time.
const RETRY_AFTER_SECONDS: u64 = 1;

/// How long a result is kept if nobody says.
pub(crate) fn keep_ms() -> u64 {
    3_600_000
}

/// Work that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRequest {
    /// What is sent. Its id names the request, and is drawn if not said; the same id again asks
    /// nothing again.
    message: NewMessage,
    /// How long the result is kept after it was last written; an hour if not said.
    #[serde(default = "keep_ms")]
    #[schema(minimum = 1, maximum = 31_622_400_000_u64)]
    keep_ms: u64,
}

/// How a request stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownRequest {
    /// Its id.
    id: String,
    state: RequestState,
    /// How far it is, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u32>,
    /// Why it failed, if that was said, in text.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    created_at: Option<String>,
    /// When it was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    updated_at: Option<String>,
    /// When it is forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// Where a request is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestState {
    /// Nobody has begun.
    Pending,
    /// Somebody is at it.
    Running,
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
    /// Its message left without an answer: a dead letter, expired or purged.
    Gone,
}

impl ShownRequest {
    fn new(id: &NoteKey, result: &RequestResult) -> Self {
        let (state, percent) = match result.state {
            ResultState::Pending => (RequestState::Pending, None),
            ResultState::Running { percent } => (RequestState::Running, percent),
            ResultState::Succeeded => (RequestState::Succeeded, None),
            ResultState::Failed => (RequestState::Failed, None),
            ResultState::Gone => (RequestState::Gone, None),
        };
        let error = result.message.as_ref().filter(|_| state == RequestState::Failed);
        Self {
            id: id.to_string(),
            state,
            percent,
            error: error.and_then(Message::text).map(ToOwned::to_owned),
            created_at: Some(time::of_wall(result.created_at)),
            updated_at: Some(time::of_wall(result.updated_at)),
            expires_at: Some(time::of_wall(result.expires_at)),
        }
    }
}

fn path(queue: &str, id: &NoteKey, result: bool) -> Told<HeaderValue> {
    let (queue, id) = (utf8_percent_encode(queue, PATH), utf8_percent_encode(id.as_str(), PATH));
    let path = format!("/v1/queues/{queue}/requests/{id}{}", if result { "/result" } else { "" });
    HeaderValue::from_str(&path).map_err(|e| Problem::bad_request(e.to_string()))
}

/// Sends a message and keeps a result for it: `Location` is where to ask for it, `Retry-After` when.
///
/// Whoever handles the message writes the result in a transaction, with its completion
/// (`/v1/transactions`, a `settle` and a `report`).
#[utoipa::path(
    post, path = "/v1/queues/{queue}/requests", tag = "requests",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = NewRequest,
    responses((status = 202, description = "It was sent, now or before", body = ShownRequest))
)]
pub(crate) async fn send_request(
    caller: Caller,
    Path(queue): Path<String>,
    Json(mut ask): Json<NewRequest>,
) -> Told<Response> {
    let drawn = || super::id::text(super::id::random());
    ask.message.id.get_or_insert_with(drawn);
    let mut contents = Vec::new();
    let (step, id) = request_step(&queue, ask.message, ask.keep_ms, &mut contents)?;
    caller.ask_with(Command::Transact { steps: vec![step] }, contents).await?;
    let location = path(&queue, &id, false)?;
    let shown = ShownRequest {
        id: id.to_string(),
        state: RequestState::Pending,
        percent: None,
        error: None,
        created_at: None,
        updated_at: None,
        expires_at: None,
    };
    let mut response = json_with(StatusCode::ACCEPTED, &shown);
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    Ok(response)
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// Answers as soon as it is over, so long at most; at once if not said.
    #[serde(default)]
    #[param(maximum = 60_000)]
    wait_ms: u64,
}

async fn result(
    state: &State,
    queue: &str,
    id: &str,
    wait_ms: u64,
) -> Told<(NoteKey, Option<RequestResult>)> {
    check_wait(wait_ms)?;
    let (name, key) = (QueueName::new(queue)?, NoteKey::new(id)?);
    let command = Command::GetResult { queue: name.clone(), key: key.clone(), wait_ms };
    let asked = state.ask_as(state.bellwether().slot(), command, Vec::new());
    let reply = state.unless_stopped(asked).await?;
    Ok((key, read_result(&name, reply)?))
}

fn none(id: &str) -> Box<Problem> {
    let detail = format!(
        "no result is kept for request {id:?}: it was never asked, or its time is over; ask again \
         with a longer keep_ms"
    );
    Problem::new(Kind::ResultNotFound, detail)
}

/// How a request stands; 303 to its result when it has succeeded.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/requests/{request}", tag = "requests",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("request" = String, Path, description = "The request's id", max_length = 260, example = "r1"),
        Wait,
    ),
    responses(
        (status = 200, description = "It is pending or running, has failed or is gone", body = ShownRequest),
        (status = 303, description = "It succeeded: the result is where `Location` says"),
    )
)]
pub(crate) async fn show_request(
    Door(state): Door<State>,
    Path((queue, id)): Path<(String, String)>,
    wait: Query<Wait>,
) -> Told<Response> {
    let (id, result) = result(&state, &queue, &id, wait.0.wait_ms).await?;
    let Some(result) = result else { return Err(none(id.as_str())) };
    if result.state == ResultState::Succeeded {
        let location = path(&queue, &id, true)?;
        return Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response());
    }
    let mut response = json(&ShownRequest::new(&id, &result));
    if !result.state.is_over() {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    Ok(response)
}

/// What came of a request, or why it failed: the bytes of the answer, with its content type. 204 if
/// nothing was said.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/requests/{request}/result", tag = "requests",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("request" = String, Path, description = "The request's id", max_length = 260, example = "r1"),
        Wait,
    ),
    responses(
        (status = 200, description = "The answer", body = Vec<u8>,
         content_type = "application/octet-stream"),
        (status = 204, description = "It is over, and nothing was said"),
    )
)]
pub(crate) async fn show_result(
    Door(state): Door<State>,
    Path((queue, id)): Path<(String, String)>,
    wait: Query<Wait>,
) -> Told<Response> {
    let (id, result) = result(&state, &queue, &id, wait.0.wait_ms).await?;
    let Some(result) = result else { return Err(none(id.as_str())) };
    if !result.state.is_over() {
        let detail = format!("request {:?} is not over yet; ask again", id.as_str());
        return Err(Problem::new(Kind::ResultNotFound, detail).retry_after(1_000));
    }
    let Some(message) = result.message else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let kind = message.content_type.as_deref().unwrap_or("application/octet-stream");
    let kind = HeaderValue::from_str(kind)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    Ok(([(header::CONTENT_TYPE, kind)], message.into_body()).into_response())
}
