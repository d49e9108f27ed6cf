//! What a queue does about deliveries that fail, and the outage it may be in, as JSON.

use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::name::QueueName;
use bellwether::core::outcome::{OutageInfo, Outcome};
use bellwether::core::settings::{Backoff, Failures, FailuresPatch, OutagePolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Path, json, maybe};
use super::problem::Told;
use super::state::{Door, State, unexpected};
use crate::time;

/// What a queue does about deliveries that fail. What is left out has its default.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FailureSettings {
    /// How long a message stays away that was abandoned without a delay; null is not at all.
    retry: Option<RetrySettings>,
    /// A message whose receiver crashed is handed out alone from then on, and after so many further
    /// crashes it is a dead letter. 0 suspects nobody; that is fixed at creation.
    #[schema(maximum = 1000)]
    crashes_max: u32,
    /// When the queue pauses itself; null is never.
    outage: Option<OutageSettings>,
}

/// How long a failed message stays away: doubled with each of its failures.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetrySettings {
    /// After the first failure.
    #[schema(minimum = 1, maximum = 604_800_000)]
    first_ms: u64,
    /// Never longer; not less than `first_ms`.
    #[schema(minimum = 1, maximum = 604_800_000)]
    max_ms: u64,
    /// Shortened by up to so many percent, so that what failed together does not come back together.
    #[serde(default)]
    #[schema(maximum = 100)]
    jitter_percent: u32,
}

/// When a queue takes failures for an outage of something that all its messages need.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutageSettings {
    /// So many different messages failed in a row, and none was completed in between.
    #[schema(minimum = 2, maximum = 1000)]
    failures: u32,
    /// How long nothing is handed out before one message is tried.
    #[schema(minimum = 1, maximum = 604_800_000)]
    pause_ms_min: u64,
    /// The pause is doubled with each try that fails, up to this one; not less than `pause_ms_min`.
    #[schema(minimum = 1, maximum = 604_800_000)]
    pause_ms_max: u64,
}

/// Changes to it: what is left out stays, null clears.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::option_option, reason = "outer: whether to change; inner: the setting itself")]
pub(crate) struct FailureChange {
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<RetrySettings>)]
    retry: Option<Option<RetrySettings>>,
    #[schema(maximum = 1000)]
    crashes_max: Option<u32>,
    #[serde(deserialize_with = "maybe")]
    #[schema(value_type = Option<OutageSettings>)]
    outage: Option<Option<OutageSettings>>,
}

impl Default for FailureSettings {
    fn default() -> Self {
        Failures::default().into()
    }
}

impl From<Failures> for FailureSettings {
    fn from(failures: Failures) -> Self {
        let Failures { retry, crashes_max, outage } = failures;
        let retry = retry.map(|Backoff { first_ms, max_ms, jitter_percent }| RetrySettings {
            first_ms,
            max_ms,
            jitter_percent,
        });
        let outage = outage.map(|OutagePolicy { failures, pause_ms_min, pause_ms_max }| {
            OutageSettings { failures, pause_ms_min, pause_ms_max }
        });
        Self { retry, crashes_max, outage }
    }
}

impl From<RetrySettings> for Backoff {
    fn from(retry: RetrySettings) -> Self {
        let RetrySettings { first_ms, max_ms, jitter_percent } = retry;
        Self { first_ms, max_ms, jitter_percent }
    }
}

impl From<OutageSettings> for OutagePolicy {
    fn from(outage: OutageSettings) -> Self {
        let OutageSettings { failures, pause_ms_min, pause_ms_max } = outage;
        Self { failures, pause_ms_min, pause_ms_max }
    }
}

impl From<FailureSettings> for Failures {
    fn from(failures: FailureSettings) -> Self {
        let FailureSettings { retry, crashes_max, outage } = failures;
        Self { retry: retry.map(Into::into), crashes_max, outage: outage.map(Into::into) }
    }
}

impl From<FailureChange> for FailuresPatch {
    fn from(change: FailureChange) -> Self {
        let FailureChange { retry, crashes_max, outage } = change;
        Self {
            retry: retry.map(|retry| retry.map(Into::into)),
            crashes_max,
            outage: outage.map(|outage| outage.map(Into::into)),
        }
    }
}

/// Whether a queue is in an outage.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct QueueOutage {
    /// Null if it is in none.
    outage: Option<ShownOutage>,
}

/// A queue takes its failures for an outage, and hands out nothing but one message at a time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ShownOutage {
    #[schema(format = DateTime)]
    since: String,
    /// So many different messages had failed in a row.
    failures: u32,
    /// The message that failed last; what it carries may tell why.
    last_failed: u64,
    /// Tries that failed since.
    tries: u32,
    /// When the next message is tried, from now; 0 if it is or may be.
    try_in_ms: u64,
    /// The message that is being tried.
    trying: Option<u64>,
}

fn shown(outage: Option<OutageInfo>) -> Response {
    let outage = outage.map(|outage| ShownOutage {
        since: time::of_wall(outage.since),
        failures: outage.failures,
        last_failed: outage.last_failed.0,
        tries: outage.tries,
        try_in_ms: outage.try_in_ms,
        trying: outage.trying.map(|sequence| sequence.0),
    });
    json(&QueueOutage { outage })
}

/// Whether the queue has paused itself because its messages fail in a row, and when it tries again.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/outage", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    responses((status = 200, description = "The outage, if there is one", body = QueueOutage))
)]
pub(crate) async fn show_outage(
    Door(state): Door<State>,
    Path(queue): Path<String>,
) -> Told<Response> {
    match state.ask(Command::DescribeOutage { queue: QueueName::new(&queue)? }).await? {
        Outcome::Outage(outage) => Ok(shown(outage)),
        other => unexpected(&other),
    }
}

/// Says that whatever was away is back: the queue hands out as ever. Tells the outage it was in.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/outage", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders")),
    responses((status = 200, description = "The outage that is over, if there was one", body = QueueOutage))
)]
pub(crate) async fn end_outage(caller: Caller, Path(queue): Path<String>) -> Told<Response> {
    let command = Command::EndOutage { queue: QueueName::new(&queue)? };
    match caller.ask(command).await?.outcome {
        Outcome::Outage(outage) => Ok(shown(outage)),
        other => unexpected(&other),
    }
}
