//! Leases: list, show, acquire, renew, change, release, break.

use axum::http::StatusCode;
use axum::response::Response;
use bellwether::core::command::{Acquire, Command, LeaseKind};
use bellwether::core::limits;
use bellwether::core::outcome::{HolderInfo, LeaseInfo, LeaseState, Outcome};
use bellwether::{LeaseId, LeaseName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::Caller;
use super::extract::{Json, Path, Query, json};
use super::id;
use super::members::member_id;
use super::messages::check_wait;
use super::problem::{Kind, Problem, Told};
use super::queues::Page;
use super::state::{Door, State, unexpected};
use crate::ending::ReasonName;
use crate::time;

/// One page of leases.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Leases {
    leases: Vec<ShownLease>,
    /// Ask for the next page with `after` set to this; there is none if it is null.
    next: Option<String>,
}

/// One lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ShownLease {
    lease: String,
    state: LeaseStateName,
    /// The newest term: the fencing token; only grows. Of several who hold it the oldest's.
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// The id it is held under, if it is.
    id: Option<String>,
    /// The member that holds it, if one does.
    holder: Option<String>,
    /// What the holder says of itself.
    metadata: String,
    /// Its duration; null if it never ends.
    ttl_ms: Option<u64>,
    /// How long it still holds; null if it never ends.
    remaining_ms: Option<u64>,
    /// When the newest term began.
    #[schema(format = DateTime)]
    granted_at: String,
    /// Grows with every visible change.
    #[schema(pattern = "^[0-9]+$")]
    version: String,
    /// Somebody asked the holder to step down.
    step_down_asked: bool,
    /// Nobody is granted it until it is resumed.
    paused: bool,
    /// The member that shall have it next, as somebody wished.
    successor: Option<String>,
    /// Members in line, the next one first.
    waiting: Vec<String>,
    /// How many may hold it at once, as it was last granted.
    slots: u32,
    /// Everybody who holds it, the oldest term first; the first of them is shown above.
    holders: Vec<ShownHolder>,
}

/// One of those who hold a lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ShownHolder {
    /// The member, if one is known.
    holder: Option<String>,
    /// Its fencing token.
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// The id it holds the lease under.
    id: Option<String>,
    state: LeaseStateName,
    /// What it says of itself.
    metadata: String,
    /// How long it still holds the lease; null if for ever.
    remaining_ms: Option<u64>,
    /// When its term began.
    #[schema(format = DateTime)]
    granted_at: String,
    /// Somebody asked it to step down.
    step_down_asked: bool,
}

/// The five states a lease can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaseStateName {
    /// Nobody holds it.
    Available,
    /// Somebody does.
    Leased,
    /// The time ran out; nobody has taken it since.
    Expired,
    /// It ends soon and cannot be renewed.
    Breaking,
    /// It was broken; nobody has taken it since.
    Broken,
}

impl From<LeaseState> for LeaseStateName {
    fn from(state: LeaseState) -> Self {
        match state {
            LeaseState::Available => Self::Available,
            LeaseState::Leased => Self::Leased,
            LeaseState::Expired => Self::Expired,
            LeaseState::Breaking => Self::Breaking,
            LeaseState::Broken => Self::Broken,
        }
    }
}

/// A duration, unless it is for ever.
fn finite(ms: u64) -> Option<u64> {
    (ms != limits::LEASE_MS_INFINITE).then_some(ms)
}

impl From<&LeaseInfo> for ShownLease {
    fn from(info: &LeaseInfo) -> Self {
        Self {
            lease: info.name.to_string(),
            state: info.state.into(),
            term: info.term.to_string(),
            id: info.id.map(|lease| id::text(lease.0)),
            holder: info.holder.map(|member| member.to_string()),
            metadata: info.metadata.clone(),
            ttl_ms: finite(info.ttl_ms),
            remaining_ms: finite(info.remaining_ms),
            granted_at: time::of_wall(info.granted_at),
            version: info.version.to_string(),
            step_down_asked: info.step_down_asked,
            paused: info.paused,
            successor: info.successor.map(|member| member.to_string()),
            waiting: info.waiting.iter().map(ToString::to_string).collect(),
            slots: info.slots,
            holders: info.holders().map(Into::into).collect(),
        }
    }
}

impl From<HolderInfo> for ShownHolder {
    fn from(info: HolderInfo) -> Self {
        Self {
            holder: info.holder.map(|member| member.to_string()),
            term: info.term.to_string(),
            id: info.id.map(|lease| id::text(lease.0)),
            state: info.state.into(),
            metadata: info.metadata,
            remaining_ms: finite(info.remaining_ms),
            granted_at: time::of_wall(info.granted_at),
            step_down_asked: info.step_down_asked,
        }
    }
}

/// One page of leases, as the ledger shows them, and where the next one begins.
pub(crate) async fn page_of_leases(
    state: &State,
    page: &Page,
) -> Told<(Vec<LeaseInfo>, Option<String>)> {
    let max = page.max()?;
    let after = page.after.as_deref().map(LeaseName::new).transpose()?;
    let leases = match state.ask(Command::ListLeases { after, max }).await? {
        Outcome::Leases(leases) => leases,
        other => unexpected(&other),
    };
    let full = leases.len() == max as usize;
    let next = leases.last().filter(|_| full).map(|last| last.name.to_string());
    Ok((leases, next))
}

/// The lease, or the problem that nobody ever asked for it.
pub(crate) async fn describe(state: &State, lease: LeaseName) -> Told<LeaseInfo> {
    let found = match state.ask(Command::DescribeLease { lease: lease.clone() }).await? {
        Outcome::Lease(found) => found,
        other => unexpected(&other),
    };
    found.map(|info| *info).ok_or_else(|| {
        let detail = format!("nobody ever asked for lease {lease:?}; acquire it first");
        Problem::new(Kind::LeaseNotFound, detail)
    })
}

/// Leases by name.
#[utoipa::path(
    get, path = "/v1/leases", tag = "leases", params(Page),
    responses((status = 200, description = "One page of leases", body = Leases))
)]
pub(crate) async fn list_leases(Door(state): Door<State>, page: Query<Page>) -> Told<Response> {
    let (leases, next) = page_of_leases(&state, &page.0).await?;
    Ok(json(&Leases { leases: leases.iter().map(Into::into).collect(), next }))
}

/// One lease: who holds it, since when, who waits.
#[utoipa::path(
    get, path = "/v1/leases/{lease}", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    responses((status = 200, description = "The lease", body = ShownLease))
)]
pub(crate) async fn show_lease(
    Door(state): Door<State>,
    Path(lease): Path<String>,
) -> Told<Response> {
    let info = describe(&state, LeaseName::new(&lease)?).await?;
    Ok(json(&ShownLease::from(&info)))
}

/// A wish for a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireAsked {
    /// The id proposed: 32 hexadecimal digits or a UUID. Propose one: the same again, after an
    /// answer that was lost, is the same grant again. Without one, one is made up.
    #[serde(default)]
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    id: Option<String>,
    /// For how long; null for ever.
    #[schema(minimum = 100, maximum = 86_400_000)]
    #[serde(deserialize_with = "Option::deserialize")]
    ttl_ms: Option<u64>,
    #[serde(default)]
    kind: LeaseKindName,
    /// What the holder says of itself.
    #[serde(default)]
    #[schema(max_length = 4096)]
    metadata: String,
    /// How long to wait in line; not at all if not said.
    #[serde(default)]
    #[schema(maximum = 60_000)]
    wait_ms: u64,
    /// Higher is first in line.
    #[serde(default)]
    priority: i32,
    /// How many may hold it at once; one if not said, and more only of a bound lease. All who hold it
    /// ask with the same number.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1024)]
    slots: u32,
}

fn one() -> u32 {
    1
}

/// The kinds of lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaseKindName {
    /// Kept by its own renewals.
    #[default]
    Standing,
    /// Kept by its member's heartbeat; needs the header `Bellwether-Member`.
    Bound,
    /// Bound, and released when its member's last connection is closed; only over the native wire, for
    /// members have no connection here.
    Connected,
}

impl From<LeaseKind> for LeaseKindName {
    fn from(kind: LeaseKind) -> Self {
        match kind {
            LeaseKind::Standing => Self::Standing,
            LeaseKind::Bound => Self::Bound,
            LeaseKind::Connected => Self::Connected,
        }
    }
}

/// A lease that was granted, renewed or changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Granted {
    lease: String,
    /// Shown with every later action on it.
    id: String,
    /// The fencing token; only grows.
    #[schema(pattern = "^[0-9]+$")]
    term: String,
    /// How long it lasts without a renewal; null if it never ends.
    ttl_ms: Option<u64>,
    /// For so long it may be acted on, counted from *before the request was sent*; null if it never
    /// ends, zero after a change of id, which starts no time anew.
    trust_ms: Option<u64>,
}

fn granted(lease: &LeaseName, id: LeaseId, is_new: bool, outcome: &Outcome) -> Response {
    let Outcome::Granted { term, ttl_ms } = outcome else { unexpected(outcome) };
    let trust_ms = finite(*ttl_ms).map(|ms| ms * limits::LEASE_TRUST_PERCENT / 100);
    json(&Granted {
        lease: lease.to_string(),
        id: id::text(id.0),
        term: term.to_string(),
        ttl_ms: finite(*ttl_ms),
        trust_ms: if is_new { trust_ms } else { Some(0) },
    })
}

fn lease_id(name: &'static str, text: &str) -> Told<LeaseId> {
    id::parse(text)
        .map(LeaseId)
        .ok_or_else(|| Problem::invalid(name, "a lease's id is 32 hexadecimal digits, or a UUID"))
}

/// Takes the lease if nobody has it, or waits in line for it.
#[utoipa::path(
    post, path = "/v1/leases/{lease}/acquire", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    request_body = AcquireAsked,
    responses((status = 200, description = "The lease is granted", body = Granted))
)]
pub(crate) async fn acquire_lease(
    caller: Caller,
    Path(lease): Path<String>,
    Json(ask): Json<AcquireAsked>,
) -> Told<Response> {
    check_wait(ask.wait_ms)?;
    let lease = LeaseName::new(&lease)?;
    let proposed = ask.id.as_deref().map(|text| lease_id("id", text)).transpose()?;
    let kind = match ask.kind {
        LeaseKindName::Standing => LeaseKind::Standing,
        LeaseKindName::Bound if caller.is_named() => LeaseKind::Bound,
        LeaseKindName::Connected => {
            let why = "a member that comes by HTTP has no connection that could be closed; ask for a \
                       bound lease, or over the native wire";
            return Err(Problem::invalid("kind", why));
        }
        LeaseKindName::Bound => {
            let why = "a bound lease belongs to a member; join, and name it in Bellwether-Member";
            return Err(Problem::invalid("kind", why));
        }
    };
    let id = proposed.unwrap_or_else(|| LeaseId(caller.new_id()));
    let command = Command::Acquire(Acquire {
        lease: lease.clone(),
        id,
        kind,
        // The longest duration is still a duration, and refused as too long.
        ttl_ms: ask
            .ttl_ms
            .map_or(limits::LEASE_MS_INFINITE, |ms| ms.min(limits::LEASE_MS_INFINITE - 1)),
        metadata: ask.metadata,
        wait_ms: ask.wait_ms,
        priority: ask.priority,
        slots: ask.slots,
    });
    // Under an id that the caller knows it can ask again; a grant under one that nobody knows is
    // given back if the caller leaves before it hears of it.
    let state = caller.state();
    let reply = if proposed.is_some() || caller.is_keyed() {
        state.unless_stopped(caller.ask_for_good(command)).await?
    } else {
        state.unless_stopped(state.ask_as(caller.member(), command, Vec::new())).await?
    };
    state.observed().nudge();
    Ok(granted(&lease, id, true, &reply.outcome))
}

/// The id a lease is held under.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseHold {
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    id: String,
}

/// Starts the lease's time anew; its duration stays.
#[utoipa::path(
    post, path = "/v1/leases/{lease}/renew", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    request_body = LeaseHold,
    responses((status = 200, description = "The lease is renewed", body = Granted))
)]
pub(crate) async fn renew_lease(
    caller: Caller,
    Path(lease): Path<String>,
    Json(hold): Json<LeaseHold>,
) -> Told<Response> {
    let (lease, id) = (LeaseName::new(&lease)?, lease_id("id", &hold.id)?);
    let command = Command::RenewLease { lease: lease.clone(), id };
    Ok(granted(&lease, id, true, &caller.ask(command).await?.outcome))
}

/// Another id for a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeId {
    /// Under which id it is held.
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    id: String,
    /// Under which it will be.
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    to: String,
}

/// Gives the lease another id and a new term; neither its duration nor its time changes.
#[utoipa::path(
    post, path = "/v1/leases/{lease}/change", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    request_body = ChangeId,
    responses((status = 200, description = "The lease has another id", body = Granted))
)]
pub(crate) async fn change_lease(
    caller: Caller,
    Path(lease): Path<String>,
    Json(change): Json<ChangeId>,
) -> Told<Response> {
    let lease = LeaseName::new(&lease)?;
    let (id, to) = (lease_id("id", &change.id)?, lease_id("to", &change.to)?);
    let command = Command::ChangeLease { lease: lease.clone(), id, to };
    let reply = caller.ask(command).await?;
    caller.state().observed().nudge();
    Ok(granted(&lease, to, false, &reply.outcome))
}

/// A lease to be given back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// Under which id it is held.
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    id: String,
    /// The member that shall have it next, if it waits for it.
    #[serde(default)]
    #[schema(pattern = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$")]
    successor: Option<String>,
    /// Why, for those who will ask why leadership changed.
    #[serde(default)]
    reason: Option<ReasonName>,
}

/// Gives the lease back: whoever is next in line has it at once.
#[utoipa::path(
    post, path = "/v1/leases/{lease}/release", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    request_body = Release,
    responses((status = 204, description = "The lease is given back"))
)]
pub(crate) async fn release_lease(
    caller: Caller,
    Path(lease): Path<String>,
    Json(release): Json<Release>,
) -> Told<StatusCode> {
    let (lease, id) = (LeaseName::new(&lease)?, lease_id("id", &release.id)?);
    let successor = release.successor.as_deref();
    let successor = successor.map(|text| member_id("successor", text)).transpose()?;
    let command = match release.reason {
        Some(reason) => Command::StepDown { lease, id, successor, reason: reason.into() },
        None => Command::ReleaseLease { lease, id, successor },
    };
    caller.ask(command).await?;
    caller.state().observed().nudge();
    Ok(StatusCode::NO_CONTENT)
}

/// How to break a lease.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Break {
    /// After how long at most; what is left of it if not said.
    #[schema(maximum = 86_400_000)]
    period_ms: Option<u64>,
}

/// A lease that is broken, or will be.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BreakingLease {
    /// Until nobody holds it.
    remaining_ms: Option<u64>,
}

/// Takes the lease from its holder, whoever that is. Nobody tells the holder: prefer asking it to
/// step down.
#[utoipa::path(
    post, path = "/v1/leases/{lease}/break", tag = "leases",
    params(("lease" = String, Path, description = "The lease's name", max_length = 260, example = "leader")),
    request_body = Break,
    responses((status = 200, description = "The lease is broken, or will be", body = BreakingLease))
)]
pub(crate) async fn break_lease(
    caller: Caller,
    Path(lease): Path<String>,
    Json(ask): Json<Break>,
) -> Told<Response> {
    let lease = LeaseName::new(&lease)?;
    let command = Command::BreakLease { lease, period_ms: ask.period_ms };
    let reply = caller.ask(command).await?;
    caller.state().observed().nudge();
    match reply.outcome {
        Outcome::Breaking { remaining_ms } => {
            Ok(json(&BreakingLease { remaining_ms: finite(remaining_ms) }))
        }
        other => unexpected(&other),
    }
}
