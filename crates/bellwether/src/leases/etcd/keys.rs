//! The keys, and what etcd says of them.
//!
//! ```text
//!   bellwether/holder/NAME⇥ID   who leads; gone with its etcd lease; its create revision is the term
//!   bellwether/line/NAME⇥ID     who waits, the oldest first; gone with its etcd lease
//!   bellwether/word/NAME⇥ID     somebody asks that holder to step down; gone with it
//!   bellwether/last/NAME        what the newest grant was; stays
//! ```
//!
//! A tab ends the name: no name contains one, so no name's keys are within another's.

use bellwether_core::name::{LeaseId, LeaseName, MemberId};
use bellwether_core::time::WallTime;
use serde_json::{Value, json};

use crate::etcd::{base64, bytes};

/// Everything of ours.
pub(super) const ALL: &str = "bellwether/";

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Holder,
    Line,
    Word,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Line => "line",
            Self::Word => "word",
        }
    }
}

/// All of a lease's keys of a kind begin so.
pub(super) fn prefix(kind: Kind, lease: &LeaseName) -> String {
    format!("{ALL}{}/{lease}\t", kind.text())
}

pub(super) fn key(kind: Kind, lease: &LeaseName, id: LeaseId) -> String {
    format!("{}{id:?}", prefix(kind, lease))
}

pub(super) fn last(lease: &LeaseName) -> String {
    format!("{ALL}last/{lease}")
}

/// Where the keys with this prefix end.
pub(super) fn end(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    // Our prefixes end in a tab or a slash, which have a successor.
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    base64(end)
}

/// Reads one key, or all that begin so, the oldest first.
pub(super) fn range(key: &str) -> Value {
    json!({ "request_range": { "key": base64(key) } })
}

pub(super) fn range_of(prefix: &str) -> Value {
    json!({ "request_range": {
        "key": base64(prefix), "range_end": end(prefix),
        "sort_target": "CREATE", "sort_order": "ASCEND",
    } })
}

pub(super) fn put(key: &str, value: &Value, lease: i64) -> Value {
    let put = json!({ "key": base64(key), "value": base64(value.to_string()), "lease": lease.to_string() });
    json!({ "request_put": put })
}

pub(super) fn delete(key: &str) -> Value {
    json!({ "request_delete_range": { "key": base64(key) } })
}

/// That there is no such key: a create revision of zero.
pub(super) fn absent(key: &str) -> Value {
    json!({ "key": base64(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
}

pub(super) fn none_of(prefix: &str) -> Value {
    let mut compare = absent(prefix);
    compare["range_end"] = json!(end(prefix));
    compare
}

pub(super) fn created_at(key: &str, revision: u64) -> Value {
    json!({
        "key": base64(key), "target": "CREATE", "result": "EQUAL",
        "create_revision": revision.to_string(),
    })
}

/// 64-bit numbers are text, and zeroes left out.
pub(super) fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).or(value.as_u64()).unwrap_or_default()
}

/// One who leads, waits, or led last.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) created: u64,
    pub(super) modified: u64,
    /// The etcd lease it lives as long as.
    pub(super) lease: i64,
    pub(super) value: Value,
}

impl Entry {
    fn read(kv: &Value) -> Option<Self> {
        let value = bytes(&kv["value"])?;
        Some(Self {
            key: String::from_utf8(bytes(&kv["key"])?).ok()?,
            created: number(&kv["create_revision"]),
            modified: number(&kv["mod_revision"]),
            lease: number(&kv["lease"]).cast_signed(),
            value: serde_json::from_slice(&value).unwrap_or_default(),
        })
    }

    pub(super) fn id(&self) -> Option<LeaseId> {
        let (_, id) = self.key.rsplit_once('\t')?;
        u128::from_str_radix(id, 16).ok().map(LeaseId)
    }

    pub(super) fn member(&self) -> Option<MemberId> {
        u128::from_str_radix(self.value["member"].as_str()?, 16).ok().map(MemberId)
    }

    pub(super) fn metadata(&self) -> String {
        self.value["metadata"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.value["ttl_ms"].as_u64().unwrap_or_default()
    }

    pub(super) fn granted_at(&self) -> WallTime {
        WallTime(self.value["granted_at"].as_u64().unwrap_or_default())
    }
}

/// What a range found, as the `n`-th answer of a transaction.
pub(super) fn found(answer: &Value, n: usize) -> Vec<Entry> {
    let kvs = answer["responses"][n]["response_range"]["kvs"].as_array();
    kvs.into_iter().flatten().filter_map(Entry::read).collect()
}
