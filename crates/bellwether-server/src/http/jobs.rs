//! Jobs: work fanned out as messages and gathered again.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::core::command::{Command, NewContent};
use bellwether::core::job::{EndJob, Ending, JobInfo, JobSettings, OnFailure};
use bellwether::core::limits;
use bellwether::core::name::{JobName, QueueName};
use bellwether::core::outcome::Outcome;
use bellwether::message;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::message::NewMessage;
use super::messages::check_wait;
use super::problem::Told;
use super::queues::Page;
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

/// A job that is there now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CreatedJob {
    job: String,
    /// It was there before.
    existed: bool,
}

/// Creates a job; one that is there is left as it is.
#[utoipa::path(
    put, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's name", max_length = 260, example = "resize")),
    request_body = NewJob,
    responses(
        (status = 201, description = "The job was created", body = CreatedJob),
        (status = 200, description = "The job was there already", body = CreatedJob),
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
    let existed = match caller.ask_with(command, contents).await?.outcome {
        Outcome::JobCreated { existed } => existed,
        other => unexpected(&other),
    };
    // No more than that: whoever may create it may not be allowed to look at it.
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json_with(status, &CreatedJob { job: job.to_string(), existed }))
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
