//! What a key of the bucket says of its election.

use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::time::WallTime;
use serde_json::{Value, json};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Zero in the entry that is the grant: its own sequence number is the term.
    pub(super) term: Term,
    /// The id it was granted under.
    pub(super) id: LeaseId,
    pub(super) holder: MemberId,
    pub(super) ttl_ms: u64,
    pub(super) since: WallTime,
    /// What the holder says of itself.
    pub(super) says: String,
    /// Somebody asked the holder to step down.
    pub(super) asked: bool,
    /// It was given back.
    pub(super) free: bool,
    /// For this one.
    pub(super) next: Option<MemberId>,
}

impl Record {
    pub(super) fn write(&self) -> Vec<u8> {
        let hex = |number: u128| format!("{number:032x}");
        let value = json!({
            "term": self.term.0,
            "id": hex(self.id.0),
            "holder": hex(self.holder.0),
            "ttl_ms": self.ttl_ms,
            "since": self.since.0,
            "says": self.says,
            "asked": self.asked,
            "free": self.free,
            "next": self.next.map(|next| hex(next.0)),
        });
        value.to_string().into_bytes()
    }

    /// Of an entry with this sequence number. `None` if it is not one of ours: whoever deletes the
    /// key leaves such an entry.
    pub(super) fn read(bytes: &[u8], sequence: u64) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let number = |name: &str| value[name].as_u64();
        let hex =
            |name: &str| value[name].as_str().and_then(|text| u128::from_str_radix(text, 16).ok());
        let term = number("term")?;
        Some(Self {
            term: Term(if term == 0 { sequence } else { term }),
            id: LeaseId(hex("id")?),
            holder: MemberId(hex("holder")?),
            ttl_ms: number("ttl_ms")?,
            since: WallTime(number("since")?),
            says: value["says"].as_str()?.to_owned(),
            asked: value["asked"].as_bool()?,
            free: value["free"].as_bool()?,
            next: hex("next").map(MemberId),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_grant_is_its_term() {
        let mut record = Record {
            term: Term(0),
            id: LeaseId(5),
            holder: MemberId(9),
            ttl_ms: 2_000,
            since: WallTime(1),
            says: "zone=a\0".into(),
            asked: true,
            free: false,
            next: Some(MemberId(3)),
        };
        let read = Record::read(&record.write(), 77).unwrap();
        record.term = Term(77);
        assert_eq!(read, record);
        assert_eq!(Record::read(&record.write(), 80), Some(record), "a renewal keeps the term");
        assert_eq!(Record::read(b"", 81), None);
    }
}
