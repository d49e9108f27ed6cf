//! Contents: what the journal keeps and memory does not.
//!
//! A content is an opaque run of bytes (a message's id text, properties and body; changed
//! properties; a session's state) with an id, a count of the messages that refer to it and one
//! place in the journal. The rules know its length and nothing else of it.

/// Number of a content; only grows, never reused. Zero is no content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub u64);

/// Where a content lies in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The journal's unit.
    pub unit: u64,
    /// The first byte in the unit.
    pub offset: u32,
    /// How many bytes.
    pub len: u32,
}
