//! A message's rank: what decides when its turn comes among the others of its queue.

use crate::error::Refusal;
use crate::limits;
use crate::name::Key;

/// Priority and fairness key of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// From 0 to [`limits::PRIORITY_MAX`]; the highest is given out first.
    pub priority: u8,
    /// Whose it is: keys take turns, so that none waits behind another's crowd.
    pub key: Option<Key>,
}

impl Default for Rank {
    fn default() -> Self {
        Self { priority: limits::PRIORITY_USUAL, key: None }
    }
}

impl Rank {
    /// Whether it is the rank of a message that names none.
    pub fn is_usual(&self) -> bool {
        self.priority == limits::PRIORITY_USUAL && self.key.is_none()
    }

    /// Checks the priority; a key was checked when it was made.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.priority <= limits::PRIORITY_MAX {
            return Ok(());
        }
        let why = format!("{} is not between 0 and {}", self.priority, limits::PRIORITY_MAX);
        Err(Refusal::InvalidValue { what: "priority", why })
    }
}
