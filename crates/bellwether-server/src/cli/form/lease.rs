//! Leases, members, and who holds what.

use bellwether::core::command::LeaseKind;
use bellwether::core::outcome::{HolderInfo, LeaseInfo, LeaseState, MemberHealth};
use bellwether::{LeaseId, LeaseName, MemberId};
use serde_json::{Value, json};

use super::{span, time};

pub(crate) fn to_json(info: &LeaseInfo) -> Value {
    let waiting: Vec<String> = info.waiting.iter().map(ToString::to_string).collect();
    let holders: Vec<Value> = info.holders().map(|info| holder(&info)).collect();
    json!({
        "name": info.name.as_str(),
        "kind": kind_name(info.kind),
        "state": state_name(info.state),
        "term": info.term.0,
        "id": info.id.map(id),
        "holder": info.holder.map(|member| member.to_string()),
        "metadata": info.metadata,
        "ttl_ms": span(info.ttl_ms),
        "remaining_ms": span(info.remaining_ms),
        "granted_at": time(info.granted_at),
        "step_down_asked": info.step_down_asked,
        "paused": info.paused,
        "successor": info.successor.map(|member| member.to_string()),
        "waiting": waiting,
        "slots": info.slots,
        "holders": holders,
    })
}

fn holder(info: &HolderInfo) -> Value {
    json!({
        "holder": info.holder.map(|member| member.to_string()),
        "term": info.term.0,
        "id": info.id.map(id),
        "state": state_name(info.state),
        "metadata": info.metadata,
        "remaining_ms": span(info.remaining_ms),
        "granted_at": time(info.granted_at),
        "step_down_asked": info.step_down_asked,
    })
}

pub(crate) fn member(health: &MemberHealth) -> Value {
    let info = &health.info;
    let waits_for: Vec<&str> = health.waits_for.iter().map(LeaseName::as_str).collect();
    let leases = info.leases.iter();
    let leases: Vec<Value> =
        leases.map(|(name, term)| json!({ "name": name.as_str(), "term": term.0 })).collect();
    json!({
        "id": info.id.to_string(),
        "metadata": info.metadata,
        "joined_at": time(info.joined_at),
        "ttl_ms": span(health.ttl_ms),
        "silent_ms": health.silent_ms,
        "leases": leases,
        "waits_for": waits_for,
    })
}

/// A lease's id, in the form that `--id` reads.
pub(crate) fn id(id: LeaseId) -> String {
    format!("{id:?}")
}

/// A lease's id: 32 hex digits, dashes as you like.
pub(crate) fn parse_id(text: &str) -> Result<LeaseId, String> {
    let id = parse_hex(text).map(LeaseId);
    id.ok_or_else(|| "an id has 32 hex digits; `lease acquire` printed it".into())
}

/// A member's id: 32 hex digits, dashes as you like.
pub(crate) fn parse_member(text: &str) -> Result<MemberId, String> {
    let id = parse_hex(text).map(MemberId);
    id.ok_or_else(|| "a member's id has 32 hex digits; `member list` shows them".into())
}

fn parse_hex(text: &str) -> Option<u128> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten()
}

pub(crate) fn kind_name(kind: LeaseKind) -> &'static str {
    match kind {
        LeaseKind::Bound => "bound",
        LeaseKind::Standing => "standing",
        LeaseKind::Connected => "connected",
    }
}

pub(crate) fn state_name(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}
