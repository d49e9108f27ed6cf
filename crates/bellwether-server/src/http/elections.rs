//! Elections: who leads, who waits, asking the leader to step down, what was seen to happen.
//!
//! An election is how a lease finds its next holder, so every lease is here, too.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::LeaseName;
use bellwether::core::command::Command;
use bellwether::core::outcome::{LeaseInfo, LeaseState};
use bellwether::core::right::{Needs, Of, Right};
use bellwether_core::time::WallTime;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Path, Query, json};
use super::leases::{LeaseStateName, describe, page_of_leases};
use super::problem::Told;
use super::queues::{Page, page_max};
use super::state::{Door, State};
use crate::time;

/// One page of elections.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Elections {
    elections: Vec<ShownElection>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One election.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownElection {
    election: String,
    /// Who leads; null if nobody does.
    leader: Option<Leader>,
    /// The newest term: the leader's, or the last one there was.
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// Somebody asked the leader to step down.
    step_down_asked: bool,
    /// Members in line, the next one first.
    waiting: Vec<String>,
}

/// Who leads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Leader {
    /// The member that holds the lease.
    member: Option<String>,
    /// What it says of itself.
    metadata: String,
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// When its term began.
    #[schema(format = DateTime)]
    since: String,
    /// How long it leads if it is not heard of again; null if for ever.
    remaining_ms: Option<u64>,
}

impl From<&LeaseInfo> for ShownElection {
    fn from(info: &LeaseInfo) -> Self {
        let leads = matches!(info.state, LeaseState::Leased | LeaseState::Breaking);
        Self {
            election: info.name.to_string(),
            leader: leads.then(|| Leader {
                member: info.holder.map(|member| member.to_string()),
                metadata: info.metadata.clone(),
                term: info.term.to_string(),
                since: time::of_wall(info.granted_at),
                remaining_ms: Some(info.remaining_ms).filter(|ms| *ms != u64::MAX),
            }),
            term: info.term.to_string(),
            step_down_asked: info.step_down_asked,
            waiting: info.waiting.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Elections by name.
#[utoipa::path(
    get, path = "/v1/elections", tag = "elections", params(Page),
    responses((status = 200, description = "One page of elections", body = Elections))
)]
pub(crate) async fn list_elections(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let (leases, next) = page_of_leases(&state, &page.0).await?;
    Ok(json(&Elections { elections: leases.iter().map(Into::into).collect(), next }))
}

/// Who leads, since when, who waits.
#[utoipa::path(
    get, path = "/v1/elections/{election}", tag = "elections",
    params(("election" = String, Path, description = "The election's name", max_length = 260, example = "leader")),
    responses((status = 200, description = "The election", body = ShownElection))
)]
pub(crate) async fn show_election(
    Door(state): Door<State>,
    Path(election): Path<String>,
) -> Told<Response> {
    let info = describe(&state, LeaseName::new(&election)?).await?;
    Ok(json(&ShownElection::from(&info)))
}

/// Asks the leader to step down. The leader decides: it stops its work first, then gives way.
#[utoipa::path(
    post, path = "/v1/elections/{election}/step-down", tag = "elections",
    params(("election" = String, Path, description = "The election's name", max_length = 260, example = "leader")),
    responses((status = 202, description = "The leader is asked"))
)]
pub(crate) async fn ask_step_down(
    caller: Caller,
    Path(election): Path<String>,
) -> Told<StatusCode> {
    caller.ask(Command::AskStepDown { lease: LeaseName::new(&election)? }).await?;
    caller.state().observed().nudge();
    Ok(StatusCode::ACCEPTED)
}

/// What was seen of an election, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    history: Vec<HistoryEntry>,
}

/// The election as it was seen at one moment.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HistoryEntry {
    /// When the server looked.
    #[schema(format = DateTime)]
    seen_at: String,
    #[serde(skip)]
    lease: String,
    state: LeaseStateName,
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// When that term began.
    #[schema(format = DateTime)]
    granted_at: String,
    /// The member that held it, if one did.
    holder: Option<String>,
    /// What the holder said of itself.
    metadata: String,
    /// Somebody had asked the holder to step down.
    step_down_asked: bool,
    /// More than one thing happened since it was last looked at: this is what came of it.
    coalesced: bool,
}

impl HistoryEntry {
    pub(crate) fn new(now: WallTime, before: Option<u64>, info: &LeaseInfo) -> Self {
        Self {
            seen_at: time::of_wall(now),
            lease: info.name.to_string(),
            state: info.state.into(),
            term: info.term.to_string(),
            granted_at: time::of_wall(info.granted_at),
            holder: info.holder.map(|member| member.to_string()),
            metadata: info.metadata.clone(),
            step_down_asked: info.step_down_asked,
            // Every version counts twice, before its end and after.
            coalesced: before.is_some_and(|before| info.version / 2 > before / 2 + 1),
        }
    }

    pub(crate) fn lease(&self) -> &str {
        &self.lease
    }
}

/// How much of the history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryAsked {
    /// At most so many entries; 100 if not said.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
}

/// What this server has seen of an election since it was started, newest first.
///
/// A log in memory: the last 10,000 changes of all leases together. It is looked at about once a
/// second, so what happened in between may be one entry.
#[utoipa::path(
    get, path = "/v1/elections/{election}/history", tag = "elections",
    params(
        ("election" = String, Path, description = "The election's name", max_length = 260, example = "leader"),
        HistoryAsked,
    ),
    responses((status = 200, description = "What was seen", body = History))
)]
pub(crate) async fn election_history(
    Door(state): Door<State>,
    Path(election): Path<String>,
    ask: Query<HistoryAsked>,
) -> Told<Response> {
    let lease = LeaseName::new(&election)?;
    state.check(&Needs::one("history", Right::Listen, Of::Lease(&lease)))?;
    let history = state.observed().history(lease.as_str(), page_max(ask.0.max)? as usize);
    Ok(json(&History { history }))
}
