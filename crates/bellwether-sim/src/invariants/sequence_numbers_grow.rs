//! L8: a queue's numbers only grow, and a number that was told once never means another message.

use std::collections::BTreeMap;

use super::Invariant;
use super::volatile::Volatile;
use crate::history::{Body, Key, Queue, Record, What};

#[derive(Debug, Default)]
pub(super) struct Check {
    highest: BTreeMap<Queue, u64>,
    means: BTreeMap<(Queue, u64), u64>,
    /// By request: the highest number that was told before it was first applied.
    told_before: BTreeMap<(Queue, Key), u64>,
    volatile: Volatile<(Queue, u64)>,
}

impl Check {
    fn means(&mut self, queue: Queue, sequence: u64, body: &Body) -> Result<(), String> {
        let Body::Of(id) = body else { return Ok(()) };
        let first = *self.means.entry((queue, sequence)).or_insert(*id);
        if first == *id {
            Ok(())
        } else {
            Err(format!("number {sequence} of {queue:?} was message {first} and is {id}"))
        }
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "L8 sequence_numbers_grow"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for (queue, sequence) in self.volatile.see(record) {
            // Nobody has received it, so it may be given out again.
            self.means.remove(&(queue, sequence));
            let before = |told: &mut u64| *told = (*told).min(sequence - 1);
            self.highest.get_mut(&queue).map(before);
            self.told_before.values_mut().for_each(before);
        }
        match &record.what {
            What::SendApplied { key, queue, .. } => {
                let highest = self.highest.get(queue).copied().unwrap_or(0);
                self.told_before.entry((*queue, *key)).or_insert(highest);
                Ok(())
            }
            What::Sent { key, queue, ids, sequences, volatile, .. } => {
                let before = self.told_before.get(&(*queue, *key)).copied().unwrap_or(0);
                for (id, sequence) in ids.iter().zip(sequences).filter(|(_, s)| **s != 0) {
                    let highest = self.highest.entry(*queue).or_default();
                    if *sequence <= before {
                        return Err(format!("{queue:?}: {sequence} came after {before}"));
                    }
                    *highest = (*highest).max(*sequence);
                    self.means(*queue, *sequence, &Body::Of(*id))?;
                    if *volatile {
                        self.volatile.note(record, (*queue, *sequence));
                    }
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
