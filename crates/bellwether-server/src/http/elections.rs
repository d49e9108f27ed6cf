//! Elections: who leads, who waits, asking the leader to step down, who led before.
//!
//! An election is how a lease finds its next holder, so every lease is here, too.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::LeaseName;
use bellwether::core::command::Command;
use bellwether::core::limits;
use bellwether::core::outcome::{HolderInfo, LeaseInfo, LeftAs, Outcome, TermInfo};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Caller;
use super::extract::{Json, Path, Query, json};
use super::leases::{LeaseKindName, describe, page_of_leases};
use super::members::member_id;
use super::problem::{Kind, Problem, Told};
use super::queues::{Page, page_max};
use super::state::{Door, State, unexpected};
use crate::ending::{self, EndedByName, LeftAsName, ReasonName};
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
    /// Who leads; null if nobody does. Of several the one that has led longest.
    leader: Option<Leader>,
    /// Everybody who leads, the oldest term first.
    leaders: Vec<Leader>,
    /// How many may lead at once, as it was last granted.
    slots: u32,
    /// The newest term: the leader's, or the last one there was.
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// Somebody asked the leader to step down.
    step_down_asked: bool,
    /// Nobody is elected until it is resumed.
    paused: bool,
    /// The member that shall lead next, as somebody wished.
    successor: Option<String>,
    /// Members in line, the next one first: the successor that was named, then by priority, then by
    /// age.
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

impl From<HolderInfo> for Leader {
    fn from(info: HolderInfo) -> Self {
        Self {
            member: info.holder.map(|member| member.to_string()),
            metadata: info.metadata,
            term: info.term.to_string(),
            since: time::of_wall(info.granted_at),
            remaining_ms: Some(info.remaining_ms).filter(|ms| *ms != u64::MAX),
        }
    }
}

impl From<&LeaseInfo> for ShownElection {
    fn from(info: &LeaseInfo) -> Self {
        Self {
            election: info.name.to_string(),
            leader: info.holders().next().map(Into::into),
            leaders: info.holders().map(Into::into).collect(),
            slots: info.slots,
            term: info.term.to_string(),
            step_down_asked: info.step_down_asked,
            paused: info.paused,
            successor: info.successor.map(|member| member.to_string()),
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

/// To whom leadership shall pass.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOver {
    /// A member that waits in line.
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    to: String,
}

/// Asks the leader to step down in favour of a member that waits in line. Whenever its term ends,
/// that member is granted the lease before the others, if it still waits then.
#[utoipa::path(
    post, path = "/v1/elections/{election}/hand-over", tag = "elections",
    params(("election" = String, Path, description = "The election's name", max_length = 260, example = "leader")),
    request_body = HandOver,
    responses((status = 202, description = "The leader is asked"))
)]
pub(crate) async fn hand_over(
    caller: Caller,
    Path(election): Path<String>,
    Json(ask): Json<HandOver>,
) -> Told<StatusCode> {
    let (lease, to) = (LeaseName::new(&election)?, member_id("to", &ask.to)?);
    caller.ask(Command::HandOver { lease, to }).await?;
    caller.state().observed().nudge();
    Ok(StatusCode::ACCEPTED)
}

/// How to pause.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Pause {
    /// Whoever leads is not even asked to step down.
    keep_leader: bool,
}

/// Elects nobody until it is resumed, also after a restart. Candidates wait in line or are refused;
/// whoever leads is asked to step down. An election may be paused before anybody stands for it.
#[utoipa::path(
    post, path = "/v1/elections/{election}/pause", tag = "elections",
    params(("election" = String, Path, description = "The election's name", max_length = 260, example = "leader")),
    request_body = Pause,
    responses((status = 204, description = "The election is paused"))
)]
pub(crate) async fn pause(
    caller: Caller,
    Path(election): Path<String>,
    Json(ask): Json<Pause>,
) -> Told<StatusCode> {
    let lease = LeaseName::new(&election)?;
    caller.ask(Command::PauseLease { lease, keep_leader: ask.keep_leader }).await?;
    caller.state().observed().nudge();
    Ok(StatusCode::NO_CONTENT)
}

/// Ends a pause: whoever is first in line leads at once. An election that is not paused stays as it
/// is.
#[utoipa::path(
    post, path = "/v1/elections/{election}/resume", tag = "elections",
    params(("election" = String, Path, description = "The election's name", max_length = 260, example = "leader")),
    responses((status = 204, description = "The election is open"))
)]
pub(crate) async fn resume(caller: Caller, Path(election): Path<String>) -> Told<StatusCode> {
    caller.ask(Command::ResumeLease { lease: LeaseName::new(&election)? }).await?;
    caller.state().observed().nudge();
    Ok(StatusCode::NO_CONTENT)
}

/// About whom.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LeaderAsked {
    /// Only if this member leads.
    #[param(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    member: Option<String>,
    /// Only if the leader says exactly this of itself: a host and port, for example.
    #[param(max_length = 4096)]
    metadata: Option<String>,
}

/// Whether somebody leads, or one in particular: for load balancers, which look at the status.
///
/// Without parameters: 200 and the leader if somebody leads, else 503. With `member` or `metadata`: 200
/// if the leader is that one, or one of several is, else 503. An election that nobody ever stood for has no leader.
#[utoipa::path(
    get, path = "/v1/elections/{election}/leader", tag = "elections",
    params(
        ("election" = String, Path, description = "The election's name", max_length = 260, example = "leader"),
        LeaderAsked,
    ),
    responses((status = 200, description = "The leader", body = Leader))
)]
pub(crate) async fn show_leader(
    Door(state): Door<State>,
    Path(election): Path<String>,
    ask: Query<LeaderAsked>,
) -> Told<Response> {
    let LeaderAsked { member, metadata } = ask.0;
    let member = member.as_deref().map(|text| member_id("member", text)).transpose()?;
    let bytes_max = limits::METADATA_BYTES_MAX;
    if metadata.as_ref().is_some_and(|metadata| metadata.len() > bytes_max) {
        return Err(Problem::invalid("metadata", format_args!("at most {bytes_max} bytes")));
    }
    let lease = LeaseName::new(&election)?;
    let found = match state.ask(Command::DescribeLease { lease }).await? {
        Outcome::Lease(found) => found,
        other => unexpected(&other),
    };
    let mut leaders = found.iter().flat_map(|info| info.holders()).peekable();
    let no = |detail: String| Problem::new(Kind::NotLeader, detail);
    let term = leaders.peek().map(|leader| leader.term);
    let term = term.ok_or_else(|| no(format!("nobody leads {election:?}")))?;
    let wanted = leaders.find(|leader| {
        member.is_none_or(|member| leader.holder == Some(member))
            && metadata.as_ref().is_none_or(|metadata| *metadata == leader.metadata)
    });
    let leader =
        wanted.ok_or_else(|| no(format!("somebody else leads {election:?}, under term {term}")))?;
    Ok(json(&Leader::from(leader)))
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
    /// When it ended; null if it stands, or if that was not written down.
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// What ended it; null likewise.
    ended_by: Option<EndedByName>,
    /// Why its holder gave it back, if it said so.
    reason: Option<ReasonName>,
    /// The exit code of work that failed, if it had one.
    exit_code: Option<u32>,
}

impl From<&TermInfo> for ShownTerm {
    fn from(info: &TermInfo) -> Self {
        let (ended_at, ended_by) = match info.left_as {
            LeftAs::Ended { at, by } => (Some(time::of_wall(at)), Some(by.into())),
            LeftAs::Held | LeftAs::Released | LeftAs::Broken => (None, None),
        };
        Self {
            term: info.term.to_string(),
            kind: info.kind.into(),
            granted_at: time::of_wall(info.granted_at),
            holder: info.holder.map(|member| member.to_string()),
            metadata: info.metadata.clone(),
            left_as: info.left_as.into(),
            ended_at,
            ended_by,
            reason: ending::reason_of(info.left_as),
            exit_code: ending::exit_code_of(info.left_as),
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
