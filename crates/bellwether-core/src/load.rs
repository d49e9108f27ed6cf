//! How much there is to do, and what those who scale tell each other.

use crate::name::MemberId;
use crate::outcome::{Counts, Totals};

/// How much there is to do in a queue, and who is at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// What is in it.
    pub counts: Counts,
    /// What has passed through it.
    pub totals: Totals,
    /// How long the oldest message that waits for a receiver has been in the queue.
    pub oldest_ms: Option<u64>,
    /// Its status forbids receiving.
    pub is_paused: bool,
    /// Who has messages of it, of the first [`crate::limits::LOAD_MESSAGES_MAX`] in the queue.
    pub busy: Vec<Busy>,
}

/// A member with messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Who.
    pub member: MemberId,
    /// How many it has not settled.
    pub deliveries: u32,
}

/// What one member tells those it shares an election with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who.
    pub member: MemberId,
    /// What.
    pub text: String,
    /// How long ago.
    pub age_ms: u64,
}
