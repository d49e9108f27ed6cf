//! Queues: list, create, show, change, delete, purge.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::limits;
use bellwether::core::name::{QueueName, QueuePath};
use bellwether::core::outcome::{Counts, Outcome, QueueInfo, Totals};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::message::wall_time;
use super::problem::{Problem, Told};
use super::settings::{Settings, SettingsChange};
use super::state::{Door, State, unexpected};
use crate::time;

/// Entries of one page, unless fewer are asked for.
pub(crate) const PAGE_DEFAULT: u32 = 100;
/// Entries of one page at most.
pub(crate) const PAGE_MAX: u32 = 1000;

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Names after this one; `next` of the page before.
    pub(crate) after: Option<String>,
    /// At most so many; 100 if not said.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) max: Option<u32>,
}

impl Page {
    /// How many to ask for.
    pub(crate) fn max(&self) -> Told<u32> {
        page_max(self.max)
    }
}

pub(crate) fn page_max(max: Option<u32>) -> Told<u32> {
    match max.unwrap_or(PAGE_DEFAULT) {
        max @ 1..=PAGE_MAX => Ok(max),
        max => {
            let problem = Problem::invalid("max", format!("{max} is not between 1 and {PAGE_MAX}"));
            Err(problem.limit(PAGE_MAX.into()))
        }
    }
}

/// One page of queues.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queues {
    queues: Vec<ShownQueue>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One queue: how it behaves, what is in it, what has passed through it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownQueue {
    queue: String,
    #[schema(format = DateTime)]
    created_at: String,
    settings: Settings,
    counts: ShownCounts,
    totals: ShownTotals,
}

/// What is in a queue now.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ShownCounts {
    /// Wait for a receiver.
    ready: u64,
    /// Held by receivers.
    locked: u64,
    /// Scheduled or delayed.
    scheduled: u64,
    /// Set aside by number.
    deferred: u64,
    /// Dead letters, in whatever state.
    dead_letters: u64,
    /// Bytes of all of these.
    size_bytes: u64,
}

/// What has passed through a queue since it was created.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ShownTotals {
    /// Came in.
    sent: u64,
    /// Duplicates dropped at the door; not in `sent`.
    duplicates: u64,
    /// Completed, or received and deleted.
    completed: u64,
    /// Dropped because their time ran out.
    expired: u64,
    /// Removed by an operator.
    purged: u64,
    /// Taken back before they were due.
    cancelled: u64,
    /// Moved to another queue.
    forwarded: u64,
    /// Moved to the dead letters; they are still here.
    dead_lettered: u64,
    /// Dropped to make room for others.
    shed: u64,
}

impl From<Counts> for ShownCounts {
    fn from(counts: Counts) -> Self {
        let Counts { ready, locked, scheduled, deferred, dead_letters, size_bytes } = counts;
        Self { ready, locked, scheduled, deferred, dead_letters, size_bytes }
    }
}

impl From<Totals> for ShownTotals {
    fn from(totals: Totals) -> Self {
        let Totals { sent, duplicates, completed, expired, .. } = totals;
        let Totals { purged, cancelled, forwarded, dead_lettered, shed, .. } = totals;
        let left = Self { purged, cancelled, forwarded, dead_lettered, shed, ..Self::default() };
        Self { sent, duplicates, completed, expired, ..left }
    }
}

impl From<QueueInfo> for ShownQueue {
    fn from(info: QueueInfo) -> Self {
        Self {
            queue: info.name.to_string(),
            created_at: time::of_wall(info.created_at),
            settings: (&info.settings).into(),
            counts: info.counts.into(),
            totals: info.totals.into(),
        }
    }
}

/// Queues by name, with settings and counters.
#[utoipa::path(
    get, path = "/v1/queues", tag = "queues", params(Page),
    responses((status = 200, description = "One page of queues", body = Queues))
)]
pub(crate) async fn list_queues(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let max = page.0.max()?;
    let after = page.0.after.as_deref().map(QueueName::new).transpose()?;
    let queues = match state.ask(Command::ListQueues { after, max }).await? {
        Outcome::Queues(queues) => queues,
        other => unexpected(&other),
    };
    let full = queues.len() == max as usize;
    let next = queues.last().filter(|_| full).map(|last| last.name.to_string());
    let queues = queues.into_iter().map(Into::into).collect();
    Ok(json(&Queues { queues, next }))
}

/// Creates a queue; one that is there is left as it is.
///
/// Settings that are left out have their defaults.
#[utoipa::path(
    put, path = "/v1/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Settings,
    responses(
        (status = 201, description = "The queue was created", body = ShownQueue),
        (status = 200, description = "The queue was there already", body = ShownQueue),
    )
)]
pub(crate) async fn create_queue(
    caller: Caller,
    Path(queue): Path<String>,
    Json(settings): Json<Settings>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let settings = Box::new(settings.into_settings()?);
    // The ledger does not look at them if the queue is there; what is wrong is wrong then, too.
    settings.check()?;
    let command = Command::CreateQueue { queue: queue.clone(), settings };
    let status = match caller.ask(command).await?.outcome {
        Outcome::QueueCreated { existed: true } => StatusCode::OK,
        Outcome::QueueCreated { existed: false } => StatusCode::CREATED,
        other => unexpected(&other),
    };
    Ok(json_with(status, &describe(caller.state(), queue).await?))
}

async fn describe(state: &State, queue: QueueName) -> Told<ShownQueue> {
    match state.ask(Command::DescribeQueue { queue }).await? {
        Outcome::Queue(info) => Ok((*info).into()),
        other => unexpected(&other),
    }
}

/// Settings and counters of one queue.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    responses((status = 200, description = "The queue", body = ShownQueue))
)]
pub(crate) async fn show_queue(
    Door(state): Door<State>,
    Path(queue): Path<String>,
) -> Told<Response> {
    let queue = describe(&state, QueueName::new(&queue)?).await?;
    Ok(json(&queue))
}

/// Changes settings; what is left out stays, null clears. `status` pauses and resumes.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = SettingsChange,
    responses((status = 200, description = "The queue as it is now", body = ShownQueue))
)]
pub(crate) async fn change_queue(
    caller: Caller,
    Path(queue): Path<String>,
    Json(change): Json<SettingsChange>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let patch = Box::new(change.into_patch()?);
    match caller.ask(Command::UpdateQueue { queue, patch }).await?.outcome {
        Outcome::Queue(info) => Ok(json(&ShownQueue::from(*info))),
        other => unexpected(&other),
    }
}

/// Deletes a queue with all its messages and dead letters.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    responses((status = 204, description = "The queue is gone"))
)]
pub(crate) async fn delete_queue(caller: Caller, Path(queue): Path<String>) -> Told<StatusCode> {
    caller.ask(Command::DeleteQueue { queue: QueueName::new(&queue)? }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What to purge.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Purge {
    /// Only messages enqueued before.
    #[schema(format = DateTime)]
    before: Option<String>,
    /// At most so many; 10,000 if not said, which is the most.
    #[schema(minimum = 1, maximum = 10_000)]
    max: Option<u32>,
}

/// How many were removed, sent again or taken back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    /// There may be more: as many were found as one request may touch. Ask again.
    pub(crate) more: bool,
}

/// Removes messages that nobody has locked, oldest first.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/purge", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    request_body = Purge,
    responses((status = 200, description = "How many were removed", body = Counted))
)]
pub(crate) async fn purge_queue(
    caller: Caller,
    Path(queue): Path<String>,
    Json(purge): Json<Purge>,
) -> Told<Response> {
    purge_from(&caller, QueuePath::main(QueueName::new(&queue)?), &purge).await
}

pub(crate) async fn purge_from(caller: &Caller, from: QueuePath, ask: &Purge) -> Told<Response> {
    let max = count_max(ask.max)?;
    let before = ask.before.as_deref().map(|at| wall_time("before", at)).transpose()?;
    let reply = caller.ask(Command::Purge { from, before, max }).await?;
    counted(&reply.outcome, max)
}

/// How many messages one request may touch.
pub(crate) fn count_max(max: Option<u32>) -> Told<u32> {
    const MAX: u32 = limits::BATCH_MESSAGES_MAX as u32;
    match max.unwrap_or(MAX) {
        max @ 1..=MAX => Ok(max),
        max => {
            let problem = Problem::invalid("max", format!("{max} is not between 1 and {MAX}"));
            Err(problem.limit(MAX.into()))
        }
    }
}

pub(crate) fn counted(outcome: &Outcome, max: u32) -> Told<Response> {
    match outcome {
        Outcome::Count(count) => {
            let more = *count == u64::from(max);
            Ok(json(&Counted { count: *count, more }))
        }
        other => unexpected(other),
    }
}
