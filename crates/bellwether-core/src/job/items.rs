//! The items of one job, as small as they can be kept.

use std::collections::BTreeMap;

use crate::content::ContentId;
use crate::table::Table;

use super::{Failure, ItemState, Which};

/// The items of one job. What is done and left no result is one bit.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pending: Table<ContentId>,
    failed: Table<(ContentId, Failure)>,
    results: Table<ContentId>,
    /// Words of 64 items.
    done: BTreeMap<u32, u64>,
    done_count: u32,
    next: u32,
    /// One more than the highest index.
    end: u32,
}

impl Items {
    pub(crate) fn get(&self, index: u32) -> Option<ItemState> {
        let key = u64::from(index);
        if self.is_done(index) {
            let result = self.results.get(key).copied().unwrap_or_default();
            return Some(ItemState::Done { result });
        }
        if let Some(content) = self.pending.get(key) {
            return Some(ItemState::Pending { content: *content });
        }
        let (content, why) = *self.failed.get(key)?;
        Some(ItemState::Failed { content, why })
    }

    pub(crate) fn set(&mut self, index: u32, state: ItemState) {
        let key = u64::from(index);
        self.pending.remove(key);
        self.failed.remove(key);
        self.results.remove(key);
        let (word, bit) = (index / 64, 1 << (index % 64));
        if let Some(bits) = self.done.get_mut(&word)
            && *bits & bit != 0
        {
            *bits &= !bit;
            self.done_count -= 1;
        }
        match state {
            ItemState::Pending { content } => drop(self.pending.insert(key, content)),
            ItemState::Failed { content, why } => drop(self.failed.insert(key, (content, why))),
            ItemState::Done { result } => {
                *self.done.entry(word).or_default() |= bit;
                self.done_count += 1;
                if result.0 != 0 {
                    self.results.insert(key, result);
                }
            }
        }
        self.end = self.end.max(index + 1);
        while self.next < self.end && self.get(self.next).is_some() {
            self.next += 1;
        }
    }

    fn is_done(&self, index: u32) -> bool {
        self.done.get(&(index / 64)).is_some_and(|bits| bits & (1 << (index % 64)) != 0)
    }

    pub(crate) fn done(&self) -> u32 {
        self.done_count
    }

    pub(crate) fn failed(&self) -> u32 {
        self.failed.len() as u32
    }

    pub(crate) fn known(&self) -> u32 {
        self.done_count + (self.failed.len() + self.pending.len()) as u32
    }

    /// The first index that was never sent.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// One more than the highest index that was sent.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// What they take up in memory, in records: see [`limits::ITEM_MEMORY_BYTES`].
    pub(crate) fn entries(&self) -> u64 {
        let words = self.done.len();
        (self.pending.len() + self.failed.len() + self.results.len() + words) as u64
    }

    /// Those whose message waits or is worked on, from an index on.
    pub(crate) fn pending(&self, from: u32) -> impl Iterator<Item = (u32, ContentId)> {
        self.pending.range(from.into()).map(|(index, content)| (index as u32, *content))
    }

    /// Those that have failed, from an index on.
    pub(crate) fn failures(&self, from: u32) -> impl Iterator<Item = (u32, ContentId, Failure)> {
        let failed = self.failed.range(from.into());
        failed.map(|(index, (content, why))| (index as u32, *content, *why))
    }

    /// Results, from an index on.
    pub(crate) fn results(&self, from: u32) -> impl Iterator<Item = (u32, ContentId)> {
        self.results.range(from.into()).map(|(index, result)| (index as u32, *result))
    }

    /// Words of items that are done, from an index on: the first index of each, and its bits.
    pub(crate) fn done_words(&self, from: u32) -> impl Iterator<Item = (u32, u64)> {
        self.done.range(from / 64..).map(move |(word, bits)| {
            let first = word * 64;
            (first, bits & (u64::MAX << from.saturating_sub(first)))
        })
    }

    /// Takes the next result away, if there is one.
    pub(crate) fn take_result(&mut self) -> Option<ContentId> {
        let index = self.results.range(0).next()?.0;
        self.results.remove(index)
    }

    /// All that are asked for, from an index on.
    pub(crate) fn list(
        &self,
        from: u32,
        which: Which,
    ) -> Box<dyn Iterator<Item = (u32, ItemState)> + '_> {
        let with_state = move |index| Some((index, self.get(index)?));
        match which {
            Which::All => Box::new((from..self.end).filter_map(with_state)),
            Which::Pending => {
                Box::new(self.pending(from).filter_map(move |(index, _)| with_state(index)))
            }
            Which::Failed => {
                Box::new(self.failures(from).filter_map(move |(index, ..)| with_state(index)))
            }
            Which::Done => {
                let runs = self.done_words(from).flat_map(|(first, bits)| runs(first, bits));
                let indexes = runs.flat_map(|(first, count)| first..first + count);
                Box::new(indexes.filter_map(with_state))
            }
        }
    }
}

/// The runs of set bits in a word that begins at `first`.
pub(crate) fn runs(first: u32, mut bits: u64) -> impl Iterator<Item = (u32, u32)> {
    let mut at = first;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let gap = bits.trailing_zeros();
        bits >>= gap;
        let count = bits.trailing_ones();
        bits = bits.checked_shr(count).unwrap_or(0);
        let run = (at + gap, count);
        at += gap + count;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_in_runs() {
        let told = |bits| runs(64, bits).collect::<Vec<_>>();
        assert_eq!(told(0), []);
        assert_eq!(told(u64::MAX), [(64, 64)]);
        assert_eq!(told(0b1011), [(64, 2), (67, 1)]);
        assert_eq!(told(1 << 63), [(127, 1)]);
        assert_eq!(told((1 << 63) | 1), [(64, 1), (127, 1)]);
    }

    #[test]
    fn items_are_counted_as_they_stand() {
        let mut items = Items::default();
        let pending = |content| ItemState::Pending { content: ContentId(content) };
        for index in [0, 1, 3] {
            items.set(index, pending(10 + u64::from(index)));
        }
        assert_eq!((items.known(), items.next(), items.end()), (3, 2, 4));
        let done = ItemState::Done { result: ContentId(99) };
        for _ in 0..2 {
            // Set, not added: a replay may say it twice.
            items.set(1, done);
        }
        let failed = ItemState::Failed { content: ContentId(0), why: Failure::Expired };
        items.set(0, failed);
        items.set(2, pending(20));
        assert_eq!((items.known(), items.done(), items.failed(), items.next()), (4, 1, 1, 4));
        assert_eq!((items.get(0), items.get(1), items.get(9)), (Some(failed), Some(done), None));
        items.set(0, pending(30));
        assert_eq!((items.failed(), items.pending(0).count()), (0, 3));
        // From the middle of a word on, whatever stands before it.
        for index in [3, 4, 6] {
            items.set(index, ItemState::Done { result: ContentId(0) });
        }
        let told = |from| {
            let words = items.done_words(from).flat_map(|(first, bits)| runs(first, bits));
            words.collect::<Vec<_>>()
        };
        assert_eq!((told(0), told(4)), (vec![(1, 1), (3, 2), (6, 1)], vec![(4, 1), (6, 1)]));
        assert_eq!(items.list(4, Which::Done).map(|(index, _)| index).collect::<Vec<_>>(), [4, 6]);
        assert_eq!(items.take_result(), Some(ContentId(99)));
        assert_eq!(items.take_result(), None);
    }
}
