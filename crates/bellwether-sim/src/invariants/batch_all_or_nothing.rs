//! D7: of the messages of one send all are there or none, whatever happened in between.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::fates::{Fates, ids_of};
use crate::history::{Key, Queue, Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    fates: Fates,
    batches: BTreeMap<Key, Vec<u64>>,
    /// Message ids, and by whom they were sent first.
    hashes: BTreeMap<(Queue, u64), Key>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D7 batch_all_or_nothing"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        self.fates.see(record);
        match &record.what {
            What::SendApplied { key, queue, ids, hashes, .. } => {
                let mut seen = BTreeSet::new();
                let mut duplicates = false;
                for hash in hashes.iter().filter(|hash| **hash != 0) {
                    let first = *self.hashes.entry((*queue, *hash)).or_insert(*key);
                    duplicates |= first != *key || !seen.insert(*hash);
                }
                // Duplicates are dropped one by one; such a batch need not be whole.
                if ids.len() > 1 && !duplicates {
                    self.batches.entry(*key).or_insert_with(|| ids.clone());
                }
            }
            What::Audited { messages, .. } => {
                let Some(there) = ids_of(messages) else { return Ok(()) };
                let mut unnamed = self.fates.unnamed();
                for (key, ids) in &self.batches {
                    let missing = ids.iter().find(|id| {
                        !there.contains(id) && !self.fates.by_id[id].may_be_gone(record)
                    });
                    let present = ids.iter().find(|id| there.contains(id));
                    if let (Some(missing), Some(present)) = (missing, present) {
                        if unnamed > 0 {
                            unnamed -= 1;
                            continue;
                        }
                        return Err(format!("of {key:?} {present} is there and {missing} is not"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
