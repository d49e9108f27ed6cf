//! D6: a request that was answered and is asked again under its number gets the same answer, also
//! after a crash, until its member says it has heard it.

use std::collections::BTreeMap;

use super::Invariant;
use super::volatile::Volatile;
use crate::history::{Key, Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    /// The first answers, and the records in which they were applied.
    said: BTreeMap<Key, (u64, u64)>,
    heard_below: BTreeMap<u32, u64>,
    volatile: Volatile<Key>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D6 complete_is_idempotent_by_request"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for key in self.volatile.see(record) {
            self.said.remove(&key);
        }
        match &record.what {
            What::Applied { slot, answered_below } => {
                let heard = self.heard_below.entry(*slot).or_default();
                *heard = (*heard).max(*answered_below);
            }
            What::Answered { key, kept: true, ok, digest, durable, as_of, .. }
                if key.number != 0 =>
            {
                let heard = self.heard_below.get(&key.slot).copied().unwrap_or(0);
                if key.number < heard {
                    return Ok(());
                }
                match self.said.get(key) {
                    // A relaxed queue's answer overtakes the refusal of an earlier copy.
                    Some((first, applied)) if first != digest && applied < as_of => {
                        let again = if *ok { "another answer" } else { "a refusal" };
                        return Err(format!("{key:?} was answered and got {again} when repeated"));
                    }
                    None if *ok => {
                        self.said.insert(*key, (*digest, *as_of));
                        if !durable {
                            self.volatile.note(record, *key);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}
