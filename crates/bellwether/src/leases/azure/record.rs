//! What is written down in a blob's metadata of the newest term, and what is seen of a blob.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::outcome::LeaseState;
use bellwether_core::time::WallTime;
use hyper::HeaderMap;

const TERM: &str = "x-ms-meta-term";
const ID: &str = "x-ms-meta-id";
const HOLDER: &str = "x-ms-meta-holder";
const TTL: &str = "x-ms-meta-ttl";
const SINCE: &str = "x-ms-meta-since";
const SAYS: &str = "x-ms-meta-says";
const ASKED: &str = "x-ms-meta-asked";
const NEXT: &str = "x-ms-meta-next";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
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
    /// The holder gave it back for this one.
    pub(super) next: Option<MemberId>,
}

impl Record {
    /// As headers, sorted by nothing.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            (TERM, self.term.to_string()),
            (ID, format!("{:032x}", self.id.0)),
            (HOLDER, self.holder.to_string()),
            (TTL, self.ttl_ms.to_string()),
            (SINCE, self.since.0.to_string()),
        ];
        // A header must not be empty, and says nothing but ASCII.
        if !self.says.is_empty() {
            headers.push((SAYS, STANDARD.encode(&self.says)));
        }
        if self.asked {
            headers.push((ASKED, "1".into()));
        }
        if let Some(next) = self.next {
            headers.push((NEXT, next.to_string()));
        }
        headers
    }

    fn read(headers: &HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let hex = |name| text(name).and_then(|text| u128::from_str_radix(text, 16).ok());
        let number = |name| text(name).and_then(|text| text.parse().ok());
        let says = text(SAYS).and_then(|text| STANDARD.decode(text).ok());
        Some(Self {
            term: Term(number(TERM)?),
            id: LeaseId(hex(ID)?),
            holder: MemberId(hex(HOLDER)?),
            ttl_ms: number(TTL)?,
            since: WallTime(number(SINCE)?),
            says: says.and_then(|says| String::from_utf8(says).ok()).unwrap_or_default(),
            asked: text(ASKED).is_some(),
            next: hex(NEXT).map(MemberId),
        })
    }
}

/// A blob as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Changes with whatever is written to the blob; leasing it is no writing.
    pub(super) etag: String,
    pub(super) state: LeaseState,
    /// `None` if nobody ever led.
    pub(super) record: Option<Record>,
}

impl Seen {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let state = match text("x-ms-lease-state") {
            Some("leased") => LeaseState::Leased,
            Some("breaking") => LeaseState::Breaking,
            Some("broken") => LeaseState::Broken,
            Some("expired") => LeaseState::Expired,
            _ => LeaseState::Available,
        };
        let etag = text("etag").unwrap_or_default().to_owned();
        Self { etag, state, record: Record::read(headers) }
    }

    /// Whether somebody has it.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, LeaseState::Leased | LeaseState::Breaking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let record = Record {
            term: Term(7),
            id: LeaseId(5),
            holder: MemberId(9),
            ttl_ms: 15_000,
            since: WallTime(1),
            says: "zone=a, Grüße".into(),
            asked: true,
            next: Some(MemberId(3)),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in record.headers() {
            headers.insert(name, value.parse().unwrap());
        }
        headers.insert("x-ms-lease-state", "leased".parse().unwrap());
        let seen = Seen::read(&headers);
        assert_eq!(seen.record, Some(record));
        assert!(seen.is_held());
        headers.remove(TERM);
        assert_eq!(Seen::read(&headers).record, None, "a blob of somebody else's");
    }
}
