//! L8: a queue's numbers only grow, and a number that was told once never means another message.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::history::{Body, Key, Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    highest: BTreeMap<u8, u64>,
    means: BTreeMap<(u8, u64), u64>,
    said: BTreeSet<Key>,
}

impl Check {
    fn means(&mut self, queue: u8, sequence: u64, body: &Body) -> Result<(), String> {
        let Body::Of(id) = body else { return Ok(()) };
        let first = *self.means.entry((queue, sequence)).or_insert(*id);
        if first == *id {
            Ok(())
        } else {
            Err(format!("number {sequence} of queue {queue} was message {first} and is {id}"))
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L8 sequence_numbers_grow"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        match &record.what {
            What::Sent { key, queue, ids, sequences, .. } => {
                let again = !self.said.insert(*key);
                for (id, sequence) in ids.iter().zip(sequences).filter(|(_, s)| **s != 0) {
                    let highest = self.highest.entry(*queue).or_default();
                    if !again && *sequence <= *highest {
                        return Err(format!("queue {queue}: {sequence} came after {highest}"));
                    }
                    *highest = (*highest).max(*sequence);
                    self.means(*queue, *sequence, &Body::Of(*id))?;
                }
                Ok(())
            }
            What::Delivered(delivery) => {
                let spot = delivery.token.spot;
                self.means(spot.queue, spot.sequence, &delivery.body)
            }
            What::Audited { messages, .. } => messages
                .iter()
                .try_for_each(|seen| self.means(seen.spot.queue, seen.spot.sequence, &seen.body)),
            _ => Ok(()),
        }
    }
}
