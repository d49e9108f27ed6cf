//! A member's presence: one heartbeat renews everything it holds.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Presence {}
