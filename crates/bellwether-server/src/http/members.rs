//! Members: who is here; joining, heartbeats, leaving.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::core::command::{Command, HeldSet};
use bellwether::core::limits;
use bellwether::core::outcome::{MemberHealth, Outcome};
use bellwether::{LeaseName, MemberId, Term};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, Query, json, json_with};
use super::id;
use super::keys::is_key;
use super::number::Number;
use super::problem::{Kind, Problem, Told};
use super::queues::Page;
use super::state::{Door, State, http_member, unexpected};
use crate::time;

/// One page of members.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Members {
    members: Vec<ShownMember>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One member: a process that takes part.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownMember {
    member: String,
    /// What it says of itself.
    metadata: String,
    #[schema(format = DateTime)]
    joined_at: String,
    /// How long it may be silent; null if for ever.
    ttl_ms: Option<u64>,
    /// How long ago it was last heard of.
    silent_ms: u64,
    /// What it holds.
    leases: Vec<ShownHold>,
    /// The leases it stands in line for.
    waits_for: Vec<String>,
}

/// A lease in somebody's hands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownHold {
    lease: String,
    #[schema(pattern = "^[0-9]+$")]
    term: String,
}

fn holds(list: &[(LeaseName, Term)]) -> Vec<ShownHold> {
    let hold = |(lease, term): &(LeaseName, Term)| ShownHold {
        lease: lease.to_string(),
        term: term.to_string(),
    };
    list.iter().map(hold).collect()
}

impl From<&MemberHealth> for ShownMember {
    fn from(health: &MemberHealth) -> Self {
        let info = &health.info;
        Self {
            member: info.id.to_string(),
            metadata: info.metadata.clone(),
            joined_at: time::of_wall(info.joined_at),
            ttl_ms: Some(health.ttl_ms).filter(|ms| *ms != limits::LEASE_MS_INFINITE),
            silent_ms: health.silent_ms,
            leases: holds(&info.leases),
            waits_for: health.waits_for.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A member's id, in the field or parameter of that name.
pub(crate) fn member_id(what: &'static str, text: &str) -> Told<MemberId> {
    id::parse(text)
        .map(MemberId)
        .ok_or_else(|| Problem::invalid(what, "a member's id is 32 hexadecimal digits"))
}

/// Members that are here, by id: when each was last heard of, what it holds, what it waits for.
#[utoipa::path(
    get, path = "/v1/members", tag = "members", params(Page),
    responses((status = 200, description = "One page of members", body = Members))
)]
pub(crate) async fn list_members(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let max = page.0.max()? as usize;
    let after = page.0.after.as_deref().map(|text| member_id("after", text)).transpose()?;
    let ask = Command::MemberHealth { after, max: u32::MAX };
    let mut members = match state.ask(ask).await? {
        Outcome::MemberHealth(members) => members,
        other => unexpected(&other),
    };
    // The members behind idempotency keys are this door's bookkeeping and no processes.
    members.retain(|member| !is_key(&member.info.metadata));
    let full = members.len() > max;
    members.truncate(max);
    let next = members.last().filter(|_| full).map(|last| last.info.id.to_string());
    Ok(json(&Members { members: members.iter().map(Into::into).collect(), next }))
}

/// What a member says of itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    /// Host, process, whatever helps to find it.
    #[serde(default)]
    #[schema(max_length = 4096)]
    metadata: String,
    /// How long it may be silent; any request that names it shows that it is here.
    #[schema(minimum = 100, maximum = 86_400_000)]
    ttl_ms: u64,
}

/// A member that has joined.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Joined {
    /// Its id, for the header `Bellwether-Member`.
    member: String,
    ttl_ms: u64,
}

/// Takes part as a new member, which can hold bound leases and locks of its own.
#[utoipa::path(
    post, path = "/v1/members", tag = "members", request_body = Join,
    responses((status = 201, description = "The member is here", body = Joined))
)]
pub(crate) async fn join(caller: Caller, Json(ask): Json<Join>) -> Told<Response> {
    if is_key(&ask.metadata) {
        return Err(Problem::invalid("metadata", "this is how idempotency keys name themselves"));
    }
    let ttl_ms_max = limits::LEASE_MS_MAX;
    if ask.ttl_ms > ttl_ms_max {
        let why = format!("{} is more than {ttl_ms_max} ms", ask.ttl_ms);
        return Err(Problem::invalid("ttl_ms", why).limit(ttl_ms_max));
    }
    let id = http_member(caller.new_id());
    match caller.state().join(id, &ask.metadata, ask.ttl_ms).await?.outcome {
        Outcome::Joined(slot) => {
            caller.state().remember(id, slot);
            let joined = Joined { member: id.to_string(), ttl_ms: ask.ttl_ms };
            Ok(json_with(StatusCode::CREATED, &joined))
        }
        other => unexpected(&other),
    }
}

/// The leases a member believes it holds.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Heartbeat {
    #[schema(max_items = 10_000)]
    held: Vec<BelievedHold>,
}

/// A lease believed to be held.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BelievedHold {
    lease: String,
    term: Number,
}

/// What a heartbeat brought to light.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Beat {
    /// Believed held but not: stop the work under these terms.
    lost: Vec<ShownHold>,
    /// Somebody asks the holder to step down from these.
    step_down: Vec<ShownHold>,
}

/// The member is here; the bound leases it names are renewed.
#[utoipa::path(
    post, path = "/v1/members/{member}/heartbeat", tag = "members",
    params(("member" = String, Path, description = "The member's id")),
    request_body = Heartbeat,
    responses((status = 200, description = "What it brought to light", body = Beat))
)]
pub(crate) async fn heartbeat(
    Door(state): Door<State>,
    Path(member): Path<String>,
    Json(ask): Json<Heartbeat>,
) -> Told<Response> {
    let slot = state.slot_of(member_id("member", &member)?).await?;
    let hold = |hold: &BelievedHold| Ok((LeaseName::new(&hold.lease)?, Term(hold.term.0)));
    let held: Told<Vec<(LeaseName, Term)>> = ask.held.iter().map(hold).collect();
    let command = Command::Heartbeat { held: HeldSet::List(held?) };
    match state.ask_as(slot, command, Vec::new()).await?.outcome {
        Outcome::Beat(beat) => {
            Ok(json(&Beat { lost: holds(&beat.lost), step_down: holds(&beat.step_down) }))
        }
        other => unexpected(&other),
    }
}

/// The member goes: its bound leases are free at once, its waits are withdrawn. One that is gone is
/// gone.
#[utoipa::path(
    delete, path = "/v1/members/{member}", tag = "members",
    params(("member" = String, Path, description = "The member's id")),
    responses((status = 204, description = "The member is gone"))
)]
pub(crate) async fn leave(
    Door(state): Door<State>,
    Path(member): Path<String>,
) -> Told<StatusCode> {
    let member = member_id("member", &member)?;
    let left = match state.slot_of(member).await {
        Ok(slot) => state.ask_as(slot, Command::Leave, Vec::new()).await.map(drop),
        Err(problem) => Err(problem),
    };
    state.forget(member);
    match left {
        // An id is never given twice: one that is gone has left, however often it is told to.
        Err(problem) if !problem.is(Kind::MemberGone) => Err(problem),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}
