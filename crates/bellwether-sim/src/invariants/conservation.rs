//! D8: what came into a queue is still there or left for a counted reason, and the counters know
//! of everything that was acknowledged.

use std::collections::BTreeMap;

use super::Invariant;
use super::volatile::Volatile;
use crate::history::{How, Key, Queue, Record, Token, What};

/// Acknowledged: in which record, and how many.
type Acknowledged<K> = BTreeMap<(Queue, K), (u64, u64)>;

#[derive(Debug, Default)]
pub(super) struct Check {
    sent: Acknowledged<Key>,
    completed: Acknowledged<Token>,
    volatile_sent: Volatile<(Queue, Key)>,
    volatile_completed: Volatile<(Queue, Token)>,
}

fn known<K>(acknowledged: &Acknowledged<K>, queue: Queue, as_of: u64) -> u64 {
    let of_queue = acknowledged.iter().filter(|((of, _), (at, _))| *of == queue && *at < as_of);
    of_queue.map(|(_, (_, count))| count).sum()
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D8 conservation"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for sent in self.volatile_sent.see(record) {
            self.sent.remove(&sent);
        }
        for completed in self.volatile_completed.see(record) {
            self.completed.remove(&completed);
        }
        match &record.what {
            What::Sent { key, queue, sequences, volatile, .. } => {
                if *volatile {
                    self.volatile_sent.note(record, (*queue, *key));
                }
                let count = sequences.iter().filter(|sequence| **sequence != 0).count() as u64;
                self.sent.entry((*queue, *key)).or_insert((record.index, count));
            }
            What::Settled { token, how: How::Complete, ok: true, volatile, .. } => {
                if *volatile {
                    self.volatile_completed.note(record, (token.spot.queue, *token));
                }
                self.completed.entry((token.spot.queue, *token)).or_insert((record.index, 1));
            }
            What::Counted { as_of, queue, counts, totals } => {
                let live = counts.ready
                    + counts.locked
                    + counts.scheduled
                    + counts.deferred
                    + counts.dead_letters;
                let left = totals.completed
                    + totals.expired
                    + totals.purged
                    + totals.cancelled
                    + totals.forwarded;
                if totals.sent != live + left {
                    return Err(format!(
                        "{queue:?}: {} came in, {live} are there, {left} left: {totals:?}",
                        totals.sent
                    ));
                }
                let sent = known(&self.sent, *queue, *as_of);
                let completed = known(&self.completed, *queue, *as_of);
                if totals.sent < sent || totals.completed < completed {
                    return Err(format!(
                        "{queue:?}: {sent} sends and {completed} completions were \
                         acknowledged, counted are {totals:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
