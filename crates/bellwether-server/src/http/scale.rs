//! How many workers a queue should have, and how those who scale it decided.

use axum::response::Response;
use bellwether::core::command::Command;
use bellwether::core::name::{LeaseName, QueueName};
use bellwether::core::outcome::{Load, Outcome, Report};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::{Path, Query, json};
use super::problem::Told;
use super::state::{Door, State, unexpected};
use crate::cli::scale::{HostReport, Plan, election_of, newest};
use crate::scale::Targets;

/// How many workers a queue should have, and why.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Scale {
    queue: String,
    /// So many there should be.
    wanted: u32,
    /// Why, in a word.
    why: &'static str,
    /// The same in a sentence.
    decision: String,
    /// Messages that wait for a receiver.
    ready: u64,
    /// Messages that receivers have.
    locked: u64,
    /// How long the oldest of those that wait has waited; null if none does.
    oldest_ms: Option<u64>,
    /// Nobody may receive.
    paused: bool,
    /// How many members have messages.
    busy: usize,
    /// How fast it went since this was asked before.
    pace: ShownPace,
    /// Those who run `bellwether scale` for this queue.
    hosts: Vec<HostReport>,
    /// What their leader has planned, with its last hundred decisions; null if nobody has.
    plan: Option<Plan>,
}

/// How fast it went, over at most the window that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownPace {
    over_ms: u64,
    arrived: u64,
    completed: u64,
    /// Until nothing waits, with the workers that there are; null if that cannot be said.
    drained_in_ms: Option<u64>,
}

/// How many workers a queue should have for the targets given, and how those who scale it decided.
///
/// `wanted` is for whoever scales by itself, such as KEDA's metrics-api scaler.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/scale", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name", max_length = 260, example = "orders"),
        Targets,
    ),
    responses((status = 200, description = "How many, and why", body = Scale))
)]
pub(crate) async fn show_scale(
    Door(state): Door<State>,
    Path(queue): Path<String>,
    Query(targets): Query<Targets>,
) -> Told<Response> {
    let queue = QueueName::new(&queue)?;
    let policy = targets.policy();
    policy.check()?;
    let load = read_load(&state, &queue).await?;
    let now = state.bellwether().clock().now().boot;
    let (decision, pace) = state.scales().decide(now, &queue, &policy, &load, targets.workers);
    let running = targets.workers.unwrap_or(decision.from);
    let drained_in_ms = Some(pace.drained_in_ms(load.counts.ready, running));
    let mut hosts = reports(&state, &queue).await?;
    let plan = newest(&hosts).cloned();
    for host in &mut hosts {
        host.plan = None;
    }
    Ok(json(&Scale {
        queue: queue.to_string(),
        wanted: decision.wanted,
        why: decision.why.name(),
        decision: decision.to_string(),
        ready: load.counts.ready,
        locked: load.counts.locked,
        oldest_ms: load.oldest_ms,
        paused: load.is_paused,
        busy: load.busy.len(),
        pace: ShownPace {
            over_ms: pace.over_ms(),
            arrived: pace.arrived(),
            completed: pace.completed(),
            drained_in_ms: drained_in_ms.filter(|ms| *ms != u64::MAX),
        },
        hosts,
        plan,
    }))
}

/// What there is to do in a queue, as far as whoever asks may know.
pub(crate) async fn read_load(state: &State, queue: &QueueName) -> Told<Load> {
    match state.ask(Command::ReadLoad { queue: queue.clone() }).await? {
        Outcome::Load(load) => Ok(*load),
        other => unexpected(&other),
    }
}

/// Who may look at the queue may know how it is scaled.
async fn reports(state: &State, queue: &QueueName) -> Told<Vec<HostReport>> {
    // A queue whose name leaves no room for the election's is not scaled under that.
    let Ok(lease) = LeaseName::new(&election_of(queue.as_str())) else { return Ok(Vec::new()) };
    match state.own().ask(Command::ListReports { lease }).await? {
        Outcome::Reports(reports) => {
            let parse = |report: &Report| serde_json::from_str(&report.text).ok();
            Ok(reports.iter().filter_map(parse).collect())
        }
        other => unexpected(&other),
    }
}
