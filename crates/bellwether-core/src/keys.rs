//! Keys and marks of one queue.
//!
//! ```text
//!   message.mark ──► a session's lane                         most messages: no rank of their own
//!            └─ high bit set ──► Mark: session, key, priority, shared by all that have the same
//!                                        └──► Entry: the key's name, its limits, who holds what
//! ```
//!
//! 1. A mark is there while a message has it; a key while a mark has it, or while it has taken
//!    tokens that have not come back: else a key whose messages come one by one would always find
//!    a full bucket.
//! 2. A key rests while it is over a limit. Whether it does is known at every moment and never
//!    searched for.

use std::collections::BTreeMap;

use crate::bucket::Bucket;
use crate::fixed::FixedMap;
use crate::limits;
use crate::name::Key;
use crate::rank::Rank;
use crate::ready::LaneId;
use crate::settings::{Order, Rate};
use crate::time::BootTime;

/// The queue's number for a key; zero is none.
pub(crate) type KeyId = u32;

/// Set in the mark of a message that has a rank of its own. Without it a mark is a session's lane.
const RANKED: u32 = 1 << 31;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    marks: Vec<Mark>,
    free_marks: Vec<u32>,
    mark_of: FixedMap<u128, u32>,
    /// The key with number n stands at n - 1.
    entries: Vec<Option<Entry>>,
    free: Vec<KeyId>,
    by_name: BTreeMap<Key, KeyId>,
}

/// What messages have in common.
#[derive(Clone, Copy, Debug)]
struct Mark {
    session: LaneId,
    key: KeyId,
    priority: u8,
    messages: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    name: Key,
    weight: u32,
    marks: u32,
    in_flight: u32,
    bucket: Option<Bucket>,
    /// It has no token until then. Of those that have one again at the same moment the one comes
    /// first whose last message had the smallest number.
    rests: Option<Rest>,
    /// Somebody will look whether it can be forgotten.
    is_watched: bool,
}

/// When a key is looked at again, and the number of the message it last took a token for.
pub(crate) type Rest = (BootTime, u64);

impl Mark {
    fn code(self) -> u128 {
        u128::from(self.session) << 64 | u128::from(self.key) << 8 | u128::from(self.priority)
    }
}

impl Keys {
    /// The mark of a message in the lane of its session.
    pub(crate) fn mark(&mut self, session: LaneId, rank: &Rank, order: &Order) -> u32 {
        debug_assert!(session < RANKED, "so many sessions there never were");
        if rank.is_usual() {
            return session;
        }
        let key = rank.key.as_ref().map_or(0, |name| self.key(name, order));
        let mark = Mark { session, key, priority: rank.priority, messages: 0 };
        if let Some(index) = self.mark_of.get(&mark.code()) {
            return RANKED | *index;
        }
        if let Some(entry) = self.entry_mut(key) {
            entry.marks += 1;
        }
        let index = self.free_marks.pop().unwrap_or(self.marks.len() as u32);
        match self.marks.get_mut(index as usize) {
            Some(place) => *place = mark,
            None => self.marks.push(mark),
        }
        self.mark_of.insert(mark.code(), index);
        RANKED | index
    }

    fn key(&mut self, name: &Key, order: &Order) -> KeyId {
        if let Some(key) = self.by_name.get(name) {
            return *key;
        }
        let weight = order.weight(name);
        let entry = Entry {
            name: name.clone(),
            weight,
            marks: 0,
            in_flight: 0,
            bucket: None,
            rests: None,
            is_watched: false,
        };
        let key = if let Some(key) = self.free.pop() {
            self.entries[key as usize - 1] = Some(entry);
            key
        } else {
            self.entries.push(Some(entry));
            self.entries.len() as KeyId
        };
        self.by_name.insert(name.clone(), key);
        key
    }

    /// Session, key and priority of a mark.
    #[inline]
    pub(crate) fn read(&self, mark: u32) -> (LaneId, KeyId, u8) {
        if mark & RANKED == 0 {
            return (mark, 0, limits::PRIORITY_USUAL);
        }
        let Mark { session, key, priority, .. } = self.marks[(mark & !RANKED) as usize];
        (session, key, priority)
    }

    /// The session's lane of a mark.
    #[inline]
    pub(crate) fn session(&self, mark: u32) -> LaneId {
        if mark & RANKED == 0 { mark } else { self.read(mark).0 }
    }

    /// Whether a mark says more than a session.
    #[inline]
    pub(crate) fn is_ranked(mark: u32) -> bool {
        mark & RANKED != 0
    }

    /// The rank a mark stands for.
    pub(crate) fn rank(&self, mark: u32) -> Rank {
        let (_, key, priority) = self.read(mark);
        Rank { priority, key: self.entry(key).map(|entry| entry.name.clone()) }
    }

    /// A message has the mark.
    pub(crate) fn hold(&mut self, mark: u32) {
        if mark & RANKED != 0 {
            self.marks[(mark & !RANKED) as usize].messages += 1;
        }
    }

    /// A message with the mark is gone. Returns its key if nobody needs that any more but for
    /// tokens it has taken.
    pub(crate) fn let_go(&mut self, mark: u32) -> Option<KeyId> {
        if mark & RANKED == 0 {
            return None;
        }
        let index = mark & !RANKED;
        self.marks[index as usize].messages -= 1;
        if self.marks[index as usize].messages > 0 { None } else { self.drop_mark(index) }
    }

    fn drop_mark(&mut self, index: u32) -> Option<KeyId> {
        let mark = self.marks[index as usize];
        self.mark_of.remove(&mark.code());
        self.free_marks.push(index);
        let entry = self.entry_mut(mark.key)?;
        entry.marks -= 1;
        if entry.marks > 0 {
            return None;
        }
        if entry.bucket.is_some() {
            return Some(mark.key);
        }
        self.drop_key(mark.key);
        None
    }

    fn drop_key(&mut self, key: KeyId) {
        if let Some(entry) = self.entries[key as usize - 1].take() {
            self.by_name.remove(&entry.name);
            self.free.push(key);
        }
    }

    /// Forgets what no message has: a replay does not count.
    pub(crate) fn forget_unused(&mut self) {
        for index in 0..self.marks.len() as u32 {
            let mark = self.marks[index as usize];
            if mark.messages == 0 && self.mark_of.get(&mark.code()) == Some(&index) {
                self.drop_mark(index);
            }
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether a key is known.
    pub(crate) fn contains(&self, name: &Key) -> bool {
        self.by_name.contains_key(name)
    }

    fn entry(&self, key: KeyId) -> Option<&Entry> {
        self.entries.get((key as usize).checked_sub(1)?)?.as_ref()
    }

    fn entry_mut(&mut self, key: KeyId) -> Option<&mut Entry> {
        self.entries.get_mut((key as usize).checked_sub(1)?)?.as_mut()
    }

    /// How many messages a key is given in one turn.
    pub(crate) fn weight(&self, key: KeyId) -> u32 {
        self.entry(key).map_or(1, |entry| entry.weight)
    }

    /// Deliveries of a key that receivers hold.
    pub(crate) fn in_flight(&self, key: KeyId) -> u32 {
        self.entry(key).map_or(0, |entry| entry.in_flight)
    }

    /// Until when a key has no token.
    pub(crate) fn rests_until(&self, key: KeyId) -> Option<BootTime> {
        Some(self.entry(key)?.rests?.0)
    }

    /// Whether a key is over a limit (rule 2).
    pub(crate) fn rests(&self, key: KeyId, order: &Order) -> bool {
        self.entry(key).is_some_and(|entry| {
            entry.rests.is_some()
                || order.key_in_flight_max.is_some_and(|max| entry.in_flight >= max)
        })
    }

    /// A receiver has got a message of a key, or has it no more. True if that changes whether the
    /// key rests.
    pub(crate) fn count_in_flight(&mut self, key: KeyId, is_more: bool, order: &Order) -> bool {
        let before = self.rests(key, order);
        let Some(entry) = self.entry_mut(key) else { return false };
        if is_more {
            entry.in_flight += 1;
        } else {
            entry.in_flight -= 1;
        }
        self.rests(key, order) != before
    }

    /// A message of a key was handed out: takes a token. Returns when the key has one again, if it
    /// has none left.
    pub(crate) fn charge(
        &mut self,
        key: KeyId,
        rate: Rate,
        sequence: u64,
        now: BootTime,
    ) -> Option<Rest> {
        let entry = self.entry_mut(key)?;
        let bucket = entry.bucket.get_or_insert_with(|| Bucket::new(rate, now));
        bucket.take(rate, now);
        entry.rests = bucket.next(rate, now).map(|until| (until, sequence));
        entry.rests
    }

    /// A moment of a key has come. True if it had no token until then, and has one now.
    pub(crate) fn wake(&mut self, key: KeyId, rest: Rest) -> bool {
        let Some(entry) = self.entry_mut(key) else { return false };
        entry.is_watched &= rest.1 != 0;
        entry.rests.take_if(|rests| *rests == rest).is_some()
    }

    /// Forgets a key that no message has; or says when to look again, because not all of its
    /// tokens have come back and nobody looks yet.
    pub(crate) fn forget(&mut self, key: KeyId, rate: Option<Rate>, now: BootTime) -> Option<Rest> {
        let entry = self.entry_mut(key)?;
        if entry.marks > 0 || entry.rests.is_some() || entry.is_watched {
            return None;
        }
        let full = rate.zip(entry.bucket.as_mut()).and_then(|(rate, b)| b.full_at(rate, now));
        entry.is_watched = full.is_some();
        if full.is_none() {
            self.drop_key(key);
        }
        full.map(|full| (full, 0))
    }

    /// The queue's settings are others: buckets are new, weights are looked up again.
    pub(crate) fn reset(&mut self, order: &Order) {
        for key in 1..=self.entries.len() as KeyId {
            let Some(entry) = self.entry_mut(key) else { continue };
            entry.bucket = None;
            entry.rests = None;
            entry.weight = order.weight(&entry.name);
            if entry.marks == 0 {
                self.drop_key(key);
            }
        }
    }
}
