//! D7: of the messages of one send all are there or none, whatever happened in between.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::fates::Fates;
use crate::history::{Body, Key, Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    fates: Fates,
    batches: BTreeMap<Key, Vec<u64>>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D7 batch_all_or_nothing"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        self.fates.see(record);
        match &record.what {
            What::SendApplied { key, ids, .. } if ids.len() > 1 => {
                self.batches.entry(*key).or_insert_with(|| ids.clone());
            }
            // Duplicates are dropped one by one; such a batch is not whole by right.
            What::Sent { key, sequences, .. } if sequences.contains(&0) => {
                self.batches.insert(*key, Vec::new());
            }
            What::Audited { messages, .. } => {
                let there: BTreeSet<u64> = messages
                    .iter()
                    .filter_map(|seen| if let Body::Of(id) = seen.body { Some(id) } else { None })
                    .collect();
                for (key, ids) in &self.batches {
                    let missing = ids.iter().find(|id| {
                        !there.contains(id) && !self.fates.by_id[id].may_be_gone(record)
                    });
                    let present = ids.iter().find(|id| there.contains(id));
                    if let (Some(missing), Some(present)) = (missing, present) {
                        return Err(format!("of {key:?} {present} is there and {missing} is not"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
