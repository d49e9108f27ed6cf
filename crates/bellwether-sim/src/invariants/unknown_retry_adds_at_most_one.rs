//! D3: a refused send put nothing into the queue; a send retried under its request number put one
//! copy there at most; so did sends that share a message id within the duplicate window.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::volatile::Volatile;
use crate::history::{Body, Key, Queue, Record, What};
use crate::plan::Plan;

#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    applied: u32,
    refused: u32,
    refused_as_of: u64,
}

/// A send that was applied, once or several times: which copy was decided is not known.
#[derive(Debug)]
struct Applied {
    hashes: Vec<u64>,
    first_wall_ms: u64,
    last_wall_ms: u64,
}

#[derive(Debug)]
pub(super) struct Check {
    /// By message: the numbers its copies had when they were sent.
    origins: BTreeMap<u64, BTreeSet<u64>>,
    /// By message: copies of its send that were applied, that were refused, and when the last of
    /// these was applied.
    copies: BTreeMap<u64, Copies>,
    /// By queue and hash of a message id: who was accepted last, and when at the earliest, by the
    /// wall clock.
    accepted: BTreeMap<(Queue, u64), (Key, u64)>,
    applied: BTreeMap<Key, Applied>,
    /// Only of queues that look for duplicates, by a wall clock that does not jump.
    windows: Vec<Option<u64>>,
    volatile: Volatile<(Key, Vec<u64>)>,
}

impl Check {
    pub(super) fn new(plan: &Plan) -> Self {
        let steady = plan.faults.wall_ms.is_none();
        Self {
            origins: BTreeMap::new(),
            copies: BTreeMap::new(),
            accepted: BTreeMap::new(),
            applied: BTreeMap::new(),
            volatile: Volatile::default(),
            windows: plan
                .queues
                .iter()
                .map(|queue| queue.settings.duplicate_window_ms.filter(|_| steady))
                .collect(),
        }
    }

    fn copy(&mut self, body: &Body, origin: u64) -> Result<(), String> {
        let Body::Of(id) = body else { return Ok(()) };
        let copies = self.copies.get(id).copied().unwrap_or_default();
        if copies.refused > 0 && copies.refused == copies.applied {
            return Err(format!("message {id} is there although its send was refused"));
        }
        let origins = self.origins.entry(*id).or_default();
        origins.insert(origin);
        if origins.len() > 1 {
            return Err(format!("message {id} is there more than once: numbers {origins:?}"));
        }
        Ok(())
    }

    fn accept(&mut self, key: Key, queue: Queue, sequences: &[u64]) -> Result<(), String> {
        let Some(window) = self.windows[usize::from(queue)] else { return Ok(()) };
        let Some(applied) = self.applied.get(&key) else { return Ok(()) };
        let hashes = applied.hashes.iter().zip(sequences).filter(|(h, s)| **h != 0 && **s != 0);
        for (hash, _) in hashes {
            let earlier = self.accepted.insert((queue, *hash), (key, applied.first_wall_ms));
            if let Some((other, at)) = earlier.filter(|(other, _)| *other != key)
                && applied.first_wall_ms >= at
                && applied.last_wall_ms < at + window
            {
                return Err(format!("id {hash:x} was accepted twice: {other:?}, {key:?}"));
            }
        }
        Ok(())
    }
}

impl Invariant for Check {
    fn name(&self) -> &'static str {
        "D3 unknown_retry_adds_at_most_one"
    }

    fn see(&mut self, record: &Record) -> Result<(), String> {
        for (key, ids) in self.volatile.see(record) {
            self.accepted.retain(|_, (by, _)| *by != key);
            self.origins.retain(|id, _| !ids.contains(id));
        }
        match &record.what {
            What::SendApplied { key, ids, hashes, wall_ms, .. } => {
                for id in ids {
                    self.copies.entry(*id).or_default().applied += 1;
                }
                let applied = self.applied.entry(*key).or_insert_with(|| Applied {
                    hashes: hashes.clone(),
                    first_wall_ms: *wall_ms,
                    last_wall_ms: *wall_ms,
                });
                applied.last_wall_ms = *wall_ms;
                Ok(())
            }
            What::SendRefused { ids, as_of, .. } => {
                for id in ids {
                    let copies = self.copies.entry(*id).or_default();
                    copies.refused += 1;
                    copies.refused_as_of = copies.refused_as_of.max(*as_of);
                }
                Ok(())
            }
            What::Sent { key, queue, ids, sequences, as_of, volatile, .. } => {
                if *volatile {
                    self.volatile.note(record, (*key, ids.clone()));
                }
                // Refusals are not kept: a late copy of a refused request is a request again. But
                // nobody is refused whose request was accepted before.
                let refused = |id: &u64| self.copies.get(id).map_or(0, |c| c.refused_as_of);
                if let Some(id) = ids.iter().find(|id| refused(id) > *as_of) {
                    return Err(format!("message {id} was accepted and a copy was refused"));
                }
                for (id, sequence) in ids.iter().zip(sequences).filter(|(_, s)| **s != 0) {
                    self.copy(&Body::Of(*id), *sequence)?;
                }
                self.accept(*key, *queue, sequences)
            }
            What::Delivered(delivery) => self.copy(&delivery.body, delivery.origin),
            What::Audited { messages, .. } => {
                messages.iter().try_for_each(|seen| self.copy(&seen.body, seen.origin))
            }
            _ => Ok(()),
        }
    }
}
