//! Leases, members, and who holds what.

use bellwether::LeaseId;
use bellwether::core::command::LeaseKind;
use bellwether::core::outcome::{LeaseInfo, LeaseState, MemberInfo};
use serde_json::{Value, json};

use super::{span, time};

pub(crate) fn to_json(info: &LeaseInfo) -> Value {
    let waiting: Vec<String> = info.waiting.iter().map(ToString::to_string).collect();
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
        "waiting": waiting,
    })
}

pub(crate) fn member(info: &MemberInfo) -> Value {
    let leases = info.leases.iter();
    let leases: Vec<Value> =
        leases.map(|(name, term)| json!({ "name": name.as_str(), "term": term.0 })).collect();
    json!({
        "id": info.id.to_string(),
        "metadata": info.metadata,
        "joined_at": time(info.joined_at),
        "leases": leases,
    })
}

/// A lease's id, in the form that `--id` reads.
pub(crate) fn id(id: LeaseId) -> String {
    format!("{id:?}")
}

/// A lease's id: 32 hex digits, dashes as you like.
pub(crate) fn parse_id(text: &str) -> Result<LeaseId, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    number.map(LeaseId).ok_or_else(|| "an id has 32 hex digits; `lease acquire` printed it".into())
}

pub(crate) fn kind_name(kind: LeaseKind) -> &'static str {
    match kind {
        LeaseKind::Bound => "bound",
        LeaseKind::Standing => "standing",
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
