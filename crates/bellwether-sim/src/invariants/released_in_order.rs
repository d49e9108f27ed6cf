//! T18: a lease that is released goes to the named successor if it waits, else to the first in line
//! that is present. Whoever was heard within its time is.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::{Record, Waiter, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    /// When members were last heard, in this life.
    heard_ms: BTreeMap<u32, u64>,
}

impl Check {
    fn is_present(&self, waiter: &Waiter, at_ms: u64) -> bool {
        self.heard_ms.get(&waiter.slot).is_some_and(|heard| heard + waiter.ttl_ms > at_ms)
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "T18 released_in_order"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Opened { .. } => self.heard_ms.clear(),
            What::Applied { slot, .. } => drop(self.heard_ms.insert(*slot, record.at_ms)),
            What::Passed { election, successor, line, to } => {
                let named = line.iter().find(|waiter| Some(waiter.slot) == *successor);
                for waiter in named.into_iter().chain(line) {
                    if Some(waiter.slot) == *to {
                        return Ok(());
                    }
                    if self.is_present(waiter, record.at_ms) {
                        let slot = waiter.slot;
                        return Err(format!("election {election} is {to:?}'s, not {slot}'s"));
                    }
                }
                if let Some(to) = to {
                    return Err(format!("election {election} is {to}'s, who did not wait"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
