//! Asking under a term.

use bellwether::{Bellwether, Fence};
use clap::Args;

/// The term under which is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct UnderFence {
    /// Only while this term of this election is held, as in import/1767225600000.
    #[arg(long, value_name = "ELECTION/TERM")]
    fence: Option<Fence>,
}

impl UnderFence {
    /// The store whose queues are asked under it, if it was given.
    pub(crate) fn of(&self, store: &Bellwether) -> Bellwether {
        self.fence.as_ref().map_or_else(|| store.clone(), |fence| store.with_fence(fence))
    }
}
