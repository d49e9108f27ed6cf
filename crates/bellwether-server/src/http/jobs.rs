//! Jobs: work fanned out as messages and gathered again.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::core::command::{Command, NewContent};
use bellwether::core::job::{
    EndJob, Ending, Failure, ItemState, JobInfo, JobSettings, OnFailure, Which,
};
use bellwether::core::limits;
use bellwether::core::name::{JobName, Part, QueueName, QueuePath};
use bellwether::core::outcome::Outcome;
use bellwether::job::{Item, item_id, read_items};
use bellwether::message;
use bellwether::queue::prepare;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::id;
use super::message::NewMessage;
use super::messages::check_wait;
use super::problem::{Problem, Told};
use super::queues::{Page, page_max};
use super::state::{Door, State, unexpected};
use crate::time;

/// One page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Jobs {
    jobs: Vec<ShownJob>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One job: how it behaves, how far it is, how it ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownJob {
    job: String,
    /// Where its items are sent.
    queue: String,
    /// Where one message is sent when it has ended.
    gather_to: Option<String>,
    on_failure: OnFailureName,
    deadline_ms: Option<u64>,
    retention_ms: u64,
    #[schema(format = DateTime)]
    created_at: String,
    /// How many items it has; null while more may come.
    items: Option<u32>,
    /// Items that were sent, whatever became of them.
    dispatched: u32,
    /// The first index that was never sent: where a dispatch goes on.
    next: u32,
    done: u32,
    failed: u32,
    /// It only waits for somebody to decide about its failed items.
    stuck: bool,
    /// How it ended; null while it is open.
    ended: Option<EndingName>,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// The gather message was sent.
    gathered: bool,
}

/// What a failed item means for its job.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFailureName {
    /// The job waits until somebody decides.
    #[default]
    Wait,
    /// The job has failed, at once.
    Fail,
    /// The job goes on and ends with gaps.
    Gaps,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndingName {
    /// Every item is done.
    Completed,
    /// Every item is done or has failed.
    Gaps,
    /// An item failed, and the job with it.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its deadline passed.
    Overdue,
}

impl From<OnFailure> for OnFailureName {
    fn from(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Wait => Self::Wait,
            OnFailure::Fail => Self::Fail,
            OnFailure::Gaps => Self::Gaps,
        }
    }
}

impl From<OnFailureName> for OnFailure {
    fn from(name: OnFailureName) -> Self {
        match name {
            OnFailureName::Wait => Self::Wait,
            OnFailureName::Fail => Self::Fail,
            OnFailureName::Gaps => Self::Gaps,
        }
    }
}

impl From<Ending> for EndingName {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Completed => Self::Completed,
            Ending::Gaps => Self::Gaps,
            Ending::Failed => Self::Failed,
            Ending::Cancelled => Self::Cancelled,
            Ending::Overdue => Self::Overdue,
        }
    }
}

impl From<&JobInfo> for ShownJob {
    fn from(info: &JobInfo) -> Self {
        let settings = &info.settings;
        Self {
            job: info.name.to_string(),
            queue: settings.queue.to_string(),
            gather_to: settings.gather_to.as_ref().map(ToString::to_string),
            on_failure: settings.on_failure.into(),
            deadline_ms: settings.deadline_ms,
            retention_ms: settings.retention_ms,
            created_at: time::of_wall(info.created_at),
            items: info.items,
            dispatched: info.dispatched,
            next: info.next,
            done: info.done,
            failed: info.failed,
            stuck: info.is_stuck(),
            ended: info.ended.map(|ended| ended.how.into()),
            ended_at: info.ended.map(|ended| time::of_wall(ended.at)),
            gathered: info.gathered,
        }
    }
}

/// Jobs by name, those that have ended and are still kept included.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", params(Page),
    responses((status = 200, description = "One page of jobs", body = Jobs))
)]
pub(crate) async fn list_jobs(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let max = page.0.max()?;
    let after = page.0.after.as_deref().map(JobName::new).transpose()?;
    let jobs = match state.ask(Command::ListJobs { after, max }).await? {
        Outcome::Jobs(jobs) => jobs,
        other => unexpected(&other),
    };
    let full = jobs.len() == max as usize;
    let next = jobs.last().filter(|_| full).map(|last| last.name.to_string());
    Ok(json(&Jobs { jobs: jobs.iter().map(Into::into).collect(), next }))
}

/// A job as it is created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    /// Where its items are sent.
    queue: String,
    /// How many items it has; more may come if not said.
    #[serde(default)]
    #[schema(maximum = 1_000_000)]
    items: Option<u32>,
    /// Where one message is sent when it has ended, in the session named as the job.
    #[serde(default)]
    gather_to: Option<String>,
    /// That message; its id and correlation id are the job's name if not said.
    #[serde(default)]
    gather: NewMessage,
    #[serde(default)]
    on_failure: OnFailureName,
    /// It ends so long after its creation, whatever is missing.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    deadline_ms: Option<u64>,
    /// It is forgotten so long after its end; a day if not said.
    #[serde(default)]
    #[schema(maximum = 31_622_400_000_u64)]
    retention_ms: Option<u64>,
}

/// Creates a job; one that is there is left as it is.
#[utoipa::path(
    put, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize")),
    request_body = NewJob,
    responses(
        (status = 201, description = "The job was created", body = ShownJob),
        (status = 200, description = "The job was there already", body = ShownJob),
    )
)]
pub(crate) async fn create_job(
    caller: Caller,
    Path(name): Path<String>,
    Json(ask): Json<NewJob>,
) -> Told<Response> {
    let job = JobName::new(&name)?;
    let settings = JobSettings {
        queue: QueueName::new(&ask.queue)?,
        gather_to: ask.gather_to.as_deref().map(QueueName::new).transpose()?,
        on_failure: ask.on_failure.into(),
        deadline_ms: ask.deadline_ms,
        retention_ms: ask.retention_ms.unwrap_or(limits::JOB_RETENTION_MS_DEFAULT),
    };
    settings.check()?;
    let mut contents = Vec::new();
    if settings.gather_to.is_some() {
        let mut message = ask.gather.into_message()?;
        message.id.get_or_insert_with(|| name.clone());
        message.correlation_id.get_or_insert(name);
        contents.push(message::encode(&message));
    }
    let gather =
        contents.first().map(|content| NewContent { index: 0, bytes: content.len() as u32 });
    let (settings, items) = (Box::new(settings), ask.items);
    let command = Command::CreateJob { job: job.clone(), settings, items, gather };
    let status = match caller.ask_with(command, contents).await?.outcome {
        Outcome::JobCreated { existed: true } => StatusCode::OK,
        Outcome::JobCreated { existed: false } => StatusCode::CREATED,
        other => unexpected(&other),
    };
    Ok(json_with(status, &show(caller.state(), job, 0).await?))
}

async fn show(state: &State, job: JobName, wait_ms: u64) -> Told<ShownJob> {
    match state.ask(Command::AwaitJob { job, wait_ms }).await? {
        Outcome::Job(info) => Ok((&*info).into()),
        other => unexpected(&other),
    }
}

/// How long to wait for a job's end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// How long to wait for its end; not at all if not said.
    #[param(maximum = 60_000)]
    wait_ms: Option<u64>,
}

/// One job, at once or when it has ended.
#[utoipa::path(
    get, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize"), Wait),
    responses((status = 200, description = "The job", body = ShownJob))
)]
pub(crate) async fn show_job(
    Door(state): Door<State>,
    Path(job): Path<String>,
    wait: Query<Wait>,
) -> Told<Response> {
    let job = JobName::new(&job)?;
    let wait_ms = wait.0.wait_ms.unwrap_or(0);
    check_wait(wait_ms)?;
    let waiting = show(&state, job, wait_ms);
    Ok(json(&state.unless_stopped(waiting).await?))
}

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
pub(crate) fn failure_name(why: Failure) -> &'static str {
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

/// What is decided about a job's end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    how: EndName,
}

/// What can be decided about a job's end.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndName {
    /// It ends now; items nobody works on are taken out of their queue.
    Cancel,
    /// From now on failed items are gaps.
    AcceptGaps,
}

/// Ends a job, or lets it end with gaps.
#[utoipa::path(
    post, path = "/v1/jobs/{job}/end", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize")),
    request_body = End,
    responses((status = 200, description = "The job as it is then", body = ShownJob))
)]
pub(crate) async fn end_job(
    caller: Caller,
    Path(job): Path<String>,
    Json(ask): Json<End>,
) -> Told<Response> {
    let job = JobName::new(&job)?;
    let how = match ask.how {
        EndName::Cancel => EndJob::Cancel,
        EndName::AcceptGaps => EndJob::AcceptGaps,
    };
    caller.ask(Command::EndJob { job: job.clone(), how }).await?;
    Ok(json(&show(caller.state(), job, 0).await?))
}

/// Forgets a job that has ended, with its results, before its retention is over.
#[utoipa::path(
    delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize")),
    responses((status = 204, description = "The job is forgotten"))
)]
pub(crate) async fn forget_job(caller: Caller, Path(job): Path<String>) -> Told<StatusCode> {
    let command = Command::EndJob { job: JobName::new(&job)?, how: EndJob::Forget };
    caller.ask(command).await?;
    Ok(StatusCode::NO_CONTENT)
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
