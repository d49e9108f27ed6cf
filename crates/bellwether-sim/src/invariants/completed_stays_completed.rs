//! D4: a message whose completion was acknowledged is never delivered again, nor seen.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::fates::Fates;
use super::volatile::Volatile;
use crate::history::{Body, How, Record, Token, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    fates: Fates,
    /// By message: the record in which its completion was acknowledged.
    completed: BTreeMap<u64, u64>,
    volatile: Volatile<u64>,
    /// Deliveries whose completion may have been answered before they were told again.
    overtakes: BTreeSet<Token>,
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D4 completed_stays_completed"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        self.fates.see(record);
        for id in self.volatile.see(record) {
            self.completed.remove(&id);
        }
        match &record.what {
            What::Settled { token, how: How::Complete, ok: true, volatile, .. } => {
                if let Some(id) = self.fates.id_of(*token) {
                    self.completed.entry(id).or_insert(record.index);
                    if *volatile {
                        self.overtakes.insert(*token);
                        self.volatile.note(record, id);
                    }
                }
                Ok(())
            }
            What::Removed { known, volatile, .. } => {
                for (_, body) in known {
                    let Body::Of(id) = body else { continue };
                    if let Some(index) = self.completed.insert(*id, record.index) {
                        return Err(format!("message {id} was completed in record {index}"));
                    }
                    if *volatile {
                        self.volatile.note(record, *id);
                    }
                }
                Ok(())
            }
            What::Delivered(delivery) => {
                let Body::Of(id) = delivery.body else { return Ok(()) };
                // Told again before it was completed, it may be said after a relaxed queue's answer.
                let told_late = self.overtakes.contains(&delivery.token);
                match self.completed.get(&id).filter(|_| !told_late) {
                    Some(index) => Err(format!("message {id} was completed in record {index}")),
                    None => Ok(()),
                }
            }
            What::Audited { as_of, messages } => {
                for seen in messages {
                    let Body::Of(id) = seen.body else { continue };
                    if let Some(index) = self.completed.get(&id).filter(|at| **at < *as_of) {
                        return Err(format!("message {id}, completed in record {index}, is there"));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
