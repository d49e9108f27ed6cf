//! What a shard is opened with.

use bellwether_core::ledger::Ledger;
use bellwether_core::limits;

/// What a shard is opened with.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// Memory for messages and remembered ids; senders are refused beyond.
    pub memory_bytes_max: u64,
    /// Memory for contents, beside the journal.
    pub body_cache_bytes_max: usize,
    /// Deliveries that one member may have unsettled at a time.
    pub unsettled_per_member_max: u32,
    /// Sessions of one queue.
    pub sessions_per_queue_max: u32,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            memory_bytes_max: 4 << 30,
            body_cache_bytes_max: 8 << 20,
            unsettled_per_member_max: limits::UNSETTLED_PER_MEMBER_MAX,
            sessions_per_queue_max: limits::SESSIONS_PER_QUEUE_MAX,
        }
    }
}

impl ShardOptions {
    /// A ledger with these limits.
    pub(super) fn ledger(&self) -> Ledger {
        let Self { memory_bytes_max, unsettled_per_member_max, sessions_per_queue_max, .. } = *self;
        Ledger::new(memory_bytes_max).limited(unsettled_per_member_max, sessions_per_queue_max)
    }
}
