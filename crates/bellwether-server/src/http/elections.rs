//! Elections: who leads, who waits, asking the leader to step down, who led before.
//!
//! An election is how a lease finds its next holder, so every lease is here, too.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::LeaseName;
use bellwether::core::command::Command;
use bellwether::core::outcome::{LeaseInfo, LeaseState, LeftAs, Outcome, TermInfo};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Path, Query, json};
use super::leases::{LeaseKindName, describe, page_of_leases};
use super::problem::Told;
use super::queues::{Page, page_max};
use super::state::{Door, State, unexpected};
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

/// The last terms of an election, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    history: Vec<ShownTerm>,
}

/// One term, as it was left.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownTerm {
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    kind: LeaseKindName,
    /// When it began.
    #[schema(format = DateTime)]
    granted_at: String,
    /// The member it was granted to, if it is known.
    holder: Option<String>,
    /// What the holder said of itself.
    metadata: String,
    left_as: LeftAsName,
}

/// What became of a term.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftAsName {
    /// It stands, or its time ran out.
    Held,
    /// Its holder gave it back, or said goodbye.
    Released,
    /// It was taken away.
    Broken,
}

impl From<&TermInfo> for ShownTerm {
    fn from(info: &TermInfo) -> Self {
        Self {
            term: info.term.to_string(),
            kind: info.kind.into(),
            granted_at: time::of_wall(info.granted_at),
            holder: info.holder.map(|member| member.to_string()),
            metadata: info.metadata.clone(),
            left_as: match info.left_as {
                LeftAs::Held => LeftAsName::Held,
                LeftAs::Released => LeftAsName::Released,
                LeftAs::Broken => LeftAsName::Broken,
            },
        }
    }
}

/// How much history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryAsked {
    /// At most so many terms; 100 if not said.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
}

/// Who led when: the last terms of an election, newest first.
///
/// A store remembers the last 4096 grants of all its elections and leases, of each the last hundred.
/// When it is opened it reads them from its journal, as far as that still goes.
#[utoipa::path(
    get, path = "/v1/elections/{election}/history", tag = "elections",
    params(
        ("election" = String, Path, description = "The election's name", max_length = 260, example = "leader"),
        HistoryAsked,
    ),
    responses((status = 200, description = "The terms", body = History))
)]
pub(crate) async fn election_history(
    Door(state): Door<State>,
    Path(election): Path<String>,
    ask: Query<HistoryAsked>,
) -> Told<Response> {
    let (lease, max) = (LeaseName::new(&election)?, page_max(ask.0.max)?);
    let terms = match state.ask(Command::LeaseHistory { lease, max }).await? {
        Outcome::Terms(terms) => terms,
        other => unexpected(&other),
    };
    Ok(json(&History { history: terms.iter().map(Into::into).collect() }))
}
