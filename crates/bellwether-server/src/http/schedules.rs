//! Schedules: recurring rules that send messages.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::core::command::{Command, NewContent};
use bellwether::core::name::{QueueName, ScheduleName};
use bellwether::core::outcome::Outcome;
use bellwether::core::schedule::{Missed, ScheduleInfo, ScheduleSettings, SteerSchedule};
use bellwether::message;
use bellwether::queue::prepare;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::message::NewMessage;
use super::problem::{Problem, Told};
use super::queues::Page;
use super::state::{Door, State, unexpected};
use crate::time;

/// One page of schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules {
    schedules: Vec<ShownSchedule>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One schedule: when it is due, and what became of its slots.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownSchedule {
    schedule: String,
    rule: String,
    zone: String,
    queue: String,
    session: Option<String>,
    missed: MissedName,
    /// How many missed slots are caught up with, if `missed` is `all`.
    missed_max: Option<u32>,
    paused: bool,
    #[schema(format = DateTime)]
    created_at: String,
    /// The next slot; null while it is paused.
    #[schema(format = DateTime)]
    next_at: Option<String>,
    /// The last slot that sent a message.
    #[schema(format = DateTime)]
    last_at: Option<String>,
    /// Messages that were sent.
    sent: u64,
    /// How often slots sent none: they were missed, or the queue did not take it.
    skipped: u64,
}

/// What becomes of slots that nobody was there for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedName {
    /// The latest of them sends its message, late.
    #[default]
    Latest,
    /// They send their messages, the oldest first, up to `missed_max`.
    All,
    /// None sends anything.
    Skip,
}

impl From<&ScheduleInfo> for ShownSchedule {
    fn from(info: &ScheduleInfo) -> Self {
        let settings = &info.settings;
        let (missed, missed_max) = match settings.missed {
            Missed::Latest => (MissedName::Latest, None),
            Missed::All { max } => (MissedName::All, Some(max)),
            Missed::Skip => (MissedName::Skip, None),
        };
        Self {
            schedule: info.name.to_string(),
            rule: settings.rule.clone(),
            zone: settings.zone.clone(),
            queue: settings.queue.to_string(),
            session: settings.session.as_ref().map(ToString::to_string),
            missed,
            missed_max,
            paused: info.next.is_none(),
            created_at: time::of_wall(info.created_at),
            next_at: info.next.map(time::of_wall),
            last_at: info.last.map(time::of_wall),
            sent: info.sent,
            skipped: info.skipped,
        }
    }
}

async fn list(state: &State, from: Option<ScheduleName>, max: u32) -> Told<Vec<ScheduleInfo>> {
    match state.ask(Command::ListSchedules { from, max }).await? {
        Outcome::Schedules(schedules) => Ok(schedules),
        other => unexpected(&other),
    }
}

/// Schedules by name.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", params(Page),
    responses((status = 200, description = "One page of schedules", body = Schedules))
)]
pub(crate) async fn list_schedules(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let max = page.0.max()?;
    let after = page.0.after.as_deref().map(ScheduleName::new).transpose()?;
    let mut schedules = list(&state, after.clone(), max + 1).await?;
    schedules.retain(|schedule| Some(&schedule.name) != after.as_ref());
    schedules.truncate(max as usize);
    let full = schedules.len() == max as usize;
    let next = schedules.last().filter(|_| full).map(|last| last.name.to_string());
    Ok(json(&Schedules { schedules: schedules.iter().map(Into::into).collect(), next }))
}

/// A schedule as it is created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSchedule {
    /// `minute hour day month weekday`, with the second before them if there are six; or `@daily`
    /// and its like; or `every 15m`.
    #[schema(example = "0 8 * * MON-FRI")]
    rule: String,
    /// Whose clock on the wall is meant; UTC if not said.
    #[serde(default = "utc")]
    #[schema(example = "Europe/Berlin")]
    zone: String,
    /// Where its messages go.
    queue: String,
    /// What they say. When and how long is the schedule's and the queue's business.
    #[serde(default)]
    message: NewMessage,
    #[serde(default)]
    missed: MissedName,
    /// How many missed slots are caught up with, if `missed` is `all`.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    missed_max: Option<u32>,
}

fn utc() -> String {
    "UTC".into()
}

/// A schedule that is there now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CreatedSchedule {
    schedule: String,
    /// It was there before.
    existed: bool,
}

/// Creates a schedule; one that is there is left as it is.
#[utoipa::path(
    put, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    request_body = NewSchedule,
    responses(
        (status = 201, description = "The schedule was created", body = CreatedSchedule),
        (status = 200, description = "The schedule was there already", body = CreatedSchedule),
    )
)]
pub(crate) async fn create_schedule(
    caller: Caller,
    Path(name): Path<String>,
    Json(ask): Json<NewSchedule>,
) -> Told<Response> {
    let schedule = ScheduleName::new(&name)?;
    let mut message = ask.message.into_message()?;
    if message.ttl.is_some() || message.scheduled_at.is_some() {
        let why = "the schedule says when, and its queue how long its messages live";
        return Err(Problem::invalid("message", why));
    }
    message.id.get_or_insert(name);
    let (new, _) = prepare(&message)?;
    let settings = ScheduleSettings {
        rule: ask.rule,
        zone: ask.zone,
        queue: QueueName::new(&ask.queue)?,
        session: new.session,
        missed: match ask.missed {
            MissedName::Latest => Missed::Latest,
            MissedName::All => Missed::All { max: ask.missed_max.unwrap_or(100) },
            MissedName::Skip => Missed::Skip,
        },
    };
    settings.check()?;
    let content = message::encode(&message);
    let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let command = Command::CreateSchedule {
        schedule: schedule.clone(),
        settings: Box::new(settings),
        content: NewContent { index: 0, bytes },
    };
    let existed = match caller.ask_with(command, vec![content]).await?.outcome {
        Outcome::ScheduleCreated { existed } => existed,
        other => unexpected(&other),
    };
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json_with(status, &CreatedSchedule { schedule: schedule.to_string(), existed }))
}

/// One schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    responses((status = 200, description = "The schedule", body = ShownSchedule))
)]
pub(crate) async fn show_schedule(
    Door(state): Door<State>,
    Path(name): Path<String>,
) -> Told<Response> {
    let name = ScheduleName::new(&name)?;
    let found = list(&state, Some(name.clone()), 1).await?;
    match found.first().filter(|info| info.name == name) {
        Some(info) => Ok(json(&ShownSchedule::from(info))),
        None => Err(bellwether::Refusal::ScheduleNotFound(name).into()),
    }
}

async fn steer(caller: Caller, name: &str, how: SteerSchedule) -> Told<StatusCode> {
    let schedule = ScheduleName::new(name)?;
    caller.ask(Command::SteerSchedule { schedule, how }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// It sends nothing until it is resumed.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    responses((status = 204, description = "It is paused"))
)]
pub(crate) async fn pause_schedule(caller: Caller, Path(name): Path<String>) -> Told<StatusCode> {
    steer(caller, &name, SteerSchedule::Pause).await
}

/// It goes on with the next slot from now.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    responses((status = 204, description = "It goes on"))
)]
pub(crate) async fn resume_schedule(caller: Caller, Path(name): Path<String>) -> Told<StatusCode> {
    steer(caller, &name, SteerSchedule::Resume).await
}

/// It sends one message now, beside its slots.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/run", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    responses((status = 204, description = "The message is kept"))
)]
pub(crate) async fn run_schedule(caller: Caller, Path(name): Path<String>) -> Told<StatusCode> {
    steer(caller, &name, SteerSchedule::RunNow).await
}

/// It is gone.
#[utoipa::path(
    delete, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name", max_length = 260, example = "nightly")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete_schedule(caller: Caller, Path(name): Path<String>) -> Told<StatusCode> {
    steer(caller, &name, SteerSchedule::Delete).await
}
