//! What may have become of every message, for the invariants that look for missing ones.

use std::collections::{BTreeMap, BTreeSet};

use super::volatile::Volatile;
use crate::history::{Body, How, Key, Queue, Record, Seen, Token, What};

#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "some of it is only told to people")]
pub(super) struct Fate {
    /// The request that sent it.
    pub(super) key: Key,
    /// The record in which it was acknowledged.
    pub(super) acknowledged: Option<u64>,
    /// Something was applied that may have ended it.
    pub(super) may_be_gone: bool,
    expires_wall_ms: u64,
    queue: Queue,
}

impl Fate {
    pub(super) fn may_be_gone(&self, record: &Record) -> bool {
        self.may_be_gone || self.expires_wall_ms <= record.wall_ms_max
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) by_id: BTreeMap<u64, Fate>,
    /// By queue and number; a number never means another message (L8).
    by_number: BTreeMap<(Queue, u64), u64>,
    /// By request: messages it may have removed without naming them.
    removed: BTreeMap<Key, u64>,
    volatile: Volatile<u64>,
}

impl Fates {
    pub(super) fn see(&mut self, record: &Record) {
        for id in self.volatile.see(record) {
            self.end(Some(id));
        }
        match &record.what {
            What::SendApplied { key, queue, ids, expires_wall_ms, .. } => {
                for id in ids {
                    let fate = self.by_id.entry(*id).or_insert(Fate {
                        key: *key,
                        acknowledged: None,
                        may_be_gone: false,
                        expires_wall_ms: *expires_wall_ms,
                        queue: *queue,
                    });
                    fate.queue = *queue;
                    // Which copy was decided is not known, and wall clocks are put back.
                    fate.expires_wall_ms = fate.expires_wall_ms.min(*expires_wall_ms);
                }
            }
            What::Sent { queue, ids, sequences, volatile, .. } => {
                for (id, sequence) in ids.iter().zip(sequences).filter(|(_, s)| **s != 0) {
                    if *volatile {
                        self.volatile.note(record, *id);
                    }
                    self.by_number.insert((*queue, *sequence), *id);
                    if let Some(fate) = self.by_id.get_mut(id) {
                        fate.acknowledged.get_or_insert(record.index);
                    }
                }
            }
            What::DeleteApplied { queue } => {
                let in_it = self.by_id.values_mut().filter(|fate| fate.queue == *queue);
                in_it.for_each(|fate| fate.may_be_gone = true);
            }
            What::CancelApplied { queue, sequences } => {
                for sequence in sequences {
                    let id = self.by_number.get(&(*queue, *sequence)).copied();
                    self.end(id);
                }
            }
            What::Audited { messages, .. } => {
                for seen in messages {
                    if let Body::Of(id) = seen.body {
                        self.by_number.insert((seen.spot.queue, seen.spot.sequence), id);
                    }
                }
            }
            What::Delivered(delivery) => {
                if let Body::Of(id) = delivery.body {
                    let spot = delivery.token.spot;
                    self.by_number.insert((spot.queue, spot.sequence), id);
                }
            }
            What::SettleApplied { token, how: How::Complete } => {
                let id = self.id_of(*token);
                self.end(id);
            }
            What::RemoveApplied { key, max, remembered } => {
                let removed = self.removed.entry(*key).or_default();
                *removed = if *remembered { *max } else { *removed + max };
            }
            What::Removed { key, max, count, known, .. } => {
                // What could not be read, as a call to the disk was made to fail just then, may be known
                // by its number; if not, it counts among those that nobody named.
                let ids: Vec<u64> = known
                    .iter()
                    .filter_map(|(spot, body)| match body {
                        Body::Of(id) => Some(*id),
                        _ => self.by_number.get(&(spot.queue, spot.sequence)).copied(),
                    })
                    .collect();
                if let Some(removed) = self.removed.get_mut(key) {
                    *removed = removed.saturating_sub(max - (count - ids.len() as u64));
                }
                for id in ids {
                    self.end(Some(id));
                }
            }
            _ => {}
        }
    }

    /// How many messages may be missing that nobody named.
    pub(super) fn unnamed(&self) -> usize {
        self.removed.values().sum::<u64>() as usize
    }

    pub(super) fn id_of(&self, token: Token) -> Option<u64> {
        self.by_number.get(&(token.spot.queue, token.spot.sequence)).copied()
    }

    fn end(&mut self, id: Option<u64>) {
        if let Some(fate) = id.and_then(|id| self.by_id.get_mut(&id)) {
            fate.may_be_gone = true;
        }
    }
}

/// The messages that were seen; `None` if some could not be told, because a call to the disk was
/// made to fail just then.
pub(super) fn ids_of(messages: &[Seen]) -> Option<BTreeSet<u64>> {
    let id = |seen: &Seen| if let Body::Of(id) = seen.body { Some(id) } else { None };
    messages.iter().map(id).collect()
}
