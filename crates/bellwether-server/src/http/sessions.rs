//! Sessions: list, accept, renew, state, close.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bellwether::core::command::{Command, NewContent};
use bellwether::core::name::{QueueName, SessionId, SessionToken};
use bellwether::core::outcome::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, read_body};
use super::id;
use super::messages::{check_wait, session_token};
use super::problem::{Kind, Problem, Told};
use super::queues::Page;
use super::settle::{Renewed, renewed};
use super::state::{Door, State, unexpected};
use crate::time;

/// One page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sessions {
    sessions: Vec<String>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// Names of sessions that have messages or state.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/sessions", tag = "sessions",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"), Page),
    responses((status = 200, description = "One page of sessions", body = Sessions))
)]
pub(crate) async fn list_sessions(
    Door(state): Door<State>,
    Path(queue): Path<String>,
    page: Query<Page>,
) -> Told<Response> {
    let (queue, max) = (QueueName::new(&queue)?, page.0.max()?);
    let after = page.0.after.as_deref().map(SessionId::new).transpose()?;
    let sessions = match state.ask(Command::ListSessions { queue, after, max }).await? {
        Outcome::Sessions(sessions) => sessions,
        other => unexpected(&other),
    };
    let sessions: Vec<String> = sessions.iter().map(ToString::to_string).collect();
    let next = sessions.last().filter(|_| sessions.len() == max as usize).cloned();
    Ok(json(&Sessions { sessions, next }))
}

/// A wish for a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Accept {
    /// Which; the next free one with messages if not said.
    session: Option<String>,
    /// How long to wait for one; not at all if not said.
    #[schema(maximum = 60_000)]
    wait_ms: u64,
}

/// A session that is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    session: String,
    /// The proof of this hold.
    token: String,
    /// How long the hold lasts from one renewal to the next.
    lock_ms: u32,
    /// When it runs out.
    #[schema(format = DateTime)]
    locked_until: String,
}

/// Takes hold of a session: its messages come to the holder, in order, and to nobody else.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/sessions/accept", tag = "sessions",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Accept,
    responses(
        (status = 200, description = "The session is held", body = Accepted),
        (status = 204, description = "No session was free within the wait"),
    )
)]
pub(crate) async fn accept_session(
    caller: Caller,
    Path(queue): Path<String>,
    Json(ask): Json<Accept>,
) -> Told<Response> {
    check_wait(ask.wait_ms)?;
    let queue = QueueName::new(&queue)?;
    let session = ask.session.as_deref().map(SessionId::new).transpose()?;
    let command = Command::AcceptSession { queue, session, wait_ms: ask.wait_ms };
    let hold = match caller.state().unless_stopped(caller.ask(command)).await?.outcome {
        Outcome::Session(hold) => hold,
        other => unexpected(&other),
    };
    let Some(hold) = hold else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let locked_until = caller.state().now().wall.plus_ms(hold.lock_ms.into());
    Ok(json(&Accepted {
        session: hold.token.session.to_string(),
        token: id::session_token(&hold.token),
        lock_ms: hold.lock_ms,
        locked_until: time::of_wall(locked_until),
    }))
}

/// Which hold.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Hold {
    /// The proof of the hold, as accepting gave it.
    token: String,
}

fn held(queue: &str, session: &str, hold: &Hold) -> Told<(QueueName, SessionToken)> {
    Ok((QueueName::new(queue)?, session_token(session, &hold.token)?))
}

/// Starts the hold anew.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/sessions/{session}/renew", tag = "sessions",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("session" = String, Path, description = "The session", max_length = 260, example = "alice"),
        Hold,
    ),
    responses((status = 200, description = "It holds from now", body = Renewed))
)]
pub(crate) async fn renew_session(
    caller: Caller,
    Path((queue, session)): Path<(String, String)>,
    hold: Query<Hold>,
) -> Told<Response> {
    let (queue, token) = held(&queue, &session, &hold.0)?;
    renewed(&caller, Command::RenewSession { queue, token }).await
}

/// Lets go, so that another receiver can take it; what was handed out goes back uncounted.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/sessions/{session}", tag = "sessions",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("session" = String, Path, description = "The session", max_length = 260, example = "alice"),
        Hold,
    ),
    responses((status = 204, description = "The session is free"))
)]
pub(crate) async fn close_session(
    caller: Caller,
    Path((queue, session)): Path<(String, String)>,
    hold: Query<Hold>,
) -> Told<StatusCode> {
    let (queue, token) = held(&queue, &session, &hold.0)?;
    caller.ask(Command::CloseSession { queue, token }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The state that a holder left, as its bytes.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/sessions/{session}/state", tag = "sessions",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("session" = String, Path, description = "The session", max_length = 260, example = "alice"),
        Hold,
    ),
    responses(
        (status = 200, description = "The state", body = Vec<u8>,
         content_type = "application/octet-stream"),
        (status = 204, description = "There is none"),
    )
)]
pub(crate) async fn session_state(
    Door(state): Door<State>,
    Path((queue, session)): Path<(String, String)>,
    hold: Query<Hold>,
) -> Told<Response> {
    let (queue, token) = held(&queue, &session, &hold.0)?;
    let command = Command::GetSessionState { queue, token };
    let reply = state.ask_as(state.bellwether().slot(), command, Vec::new()).await?;
    match reply.outcome {
        Outcome::SessionState(id, _) if id.0 == 0 => Ok(StatusCode::NO_CONTENT.into_response()),
        Outcome::SessionState(..) => match reply.contents.into_iter().next() {
            Some(Ok(bytes)) => {
                let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
                Ok((kind, bytes).into_response())
            }
            Some(Err(why)) => Err(Problem::new(Kind::Unreadable, why)),
            None => Err(Problem::new(Kind::Unreadable, "its content is missing")),
        },
        other => unexpected(&other),
    }
}

/// Leaves a state for later: the bytes of the body, of whatever kind.
#[utoipa::path(
    put, path = "/v1/queues/{queue}/sessions/{session}/state", tag = "sessions",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("session" = String, Path, description = "The session", max_length = 260, example = "alice"),
        Hold,
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204, description = "The state is kept"))
)]
pub(crate) async fn set_session_state(
    caller: Caller,
    Path((queue, session)): Path<(String, String)>,
    hold: Query<Hold>,
    request: Request,
) -> Told<StatusCode> {
    let (queue, token) = held(&queue, &session, &hold.0)?;
    let content = read_body(request.into_body()).await?;
    let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let state = Some(NewContent { index: 0, bytes });
    caller.ask_with(Command::SetSessionState { queue, token, state }, vec![content]).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Clears the state.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/sessions/{session}/state", tag = "sessions",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        ("session" = String, Path, description = "The session", max_length = 260, example = "alice"),
        Hold,
    ),
    responses((status = 204, description = "There is no state"))
)]
pub(crate) async fn clear_session_state(
    caller: Caller,
    Path((queue, session)): Path<(String, String)>,
    hold: Query<Hold>,
) -> Told<StatusCode> {
    let (queue, token) = held(&queue, &session, &hold.0)?;
    caller.ask(Command::SetSessionState { queue, token, state: None }).await?;
    Ok(StatusCode::NO_CONTENT)
}
