//! A sorted set of deadlines.
//!
//! ```text
//!   insert ──► at the end, or near it ──► row:  1 2 3 . 5 . 7    (. has been left)
//!                └── further ahead ─────► late: a tree
//! ```
//!
//! Most deadlines are as far away as the one before. So they come in order, or nearly, and mostly
//! go in order: a row is then much cheaper than a tree.
//!
//! 1. The first and the last place of the row are taken: what is first is never searched.
//! 2. At least half of the places are taken: what one forgotten deadline keeps is bounded.
//! 3. A value is in the row or in the tree, never in both.

use std::collections::{BTreeSet, VecDeque};

/// So near the end a value is put into its place in the row, and others make room for it: of
/// what becomes due in the same millisecond, or of a few that are due much later.
const NEAR: usize = 32;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines<T> {
    row: VecDeque<Place<T>>,
    /// Places of the row that have been left.
    left: usize,
    /// The place behind the one that was left last: whoever came next often goes next.
    next: usize,
    late: BTreeSet<T>,
}

/// A place that has been left keeps its value, so that the others are still found by theirs.
#[derive(Clone, Copy, Debug)]
struct Place<T> {
    value: T,
    is_taken: bool,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self { row: VecDeque::new(), left: 0, next: 0, late: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> Deadlines<T> {
    /// The first one.
    pub(crate) fn first(&self) -> Option<&T> {
        match (self.row.front(), self.late.first()) {
            (Some(place), Some(late)) => Some(late.min(&place.value)),
            (place, late) => place.map(|place| &place.value).or(late),
        }
    }

    /// Puts one in, unless it is there.
    pub(crate) fn insert(&mut self, value: T) {
        let place = Place { value, is_taken: true };
        if self.late.contains(&value) {
            return;
        }
        if self.row.back().is_none_or(|last| last.value < value) {
            self.row.push_back(place);
            return;
        }
        match self.find(&value) {
            Ok(i) => self.left -= usize::from(!std::mem::replace(&mut self.row[i], place).is_taken),
            Err(i) if self.row.len() - i <= NEAR => self.row.insert(i, place),
            Err(_) => {
                self.late.insert(value);
            }
        }
    }

    /// Takes one out, if it is there.
    pub(crate) fn remove(&mut self, value: &T) {
        let is_at = |i: &usize| self.row.get(*i).is_some_and(|place| place.value == *value);
        let found = [self.next, 0].into_iter().find(is_at).ok_or(0).or_else(|_| self.find(value));
        match found {
            Ok(i) if self.row[i].is_taken => {
                self.row[i].is_taken = false;
                self.left += 1;
                self.next = i + 1;
                self.tidy();
            }
            _ => {
                self.late.remove(value);
            }
        }
    }

    /// Takes out all that are not to be kept.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        self.row.retain(|place| place.is_taken && is_kept(&place.value));
        self.left = 0;
        self.late.retain(is_kept);
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let row = self.row.iter().filter(|place| place.is_taken).map(|place| &place.value);
        row.chain(&self.late)
    }

    fn find(&self, value: &T) -> Result<usize, usize> {
        self.row.binary_search_by(|place| place.value.cmp(value))
    }

    /// Some place has been left (rules 1 and 2).
    fn tidy(&mut self) {
        while self.row.pop_front_if(|place| !place.is_taken).is_some() {
            self.left -= 1;
            self.next = self.next.saturating_sub(1);
        }
        while self.row.pop_back_if(|place| !place.is_taken).is_some() {
            self.left -= 1;
        }
        if self.left > self.row.len() / 2 {
            self.row.retain(|place| place.is_taken);
            self.left = 0;
        }
        // What a burst left behind must not keep a burst's memory.
        if self.row.capacity() > 4 * self.row.len().max(NEAR) {
            self.row.shrink_to(2 * self.row.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// Against an ordered set: deadlines of three durations, of which some end early, in order or
    /// not, and one is set twice.
    #[test]
    fn behaves_like_an_ordered_set() {
        let mut deadlines = Deadlines::default();
        let mut model = BTreeSet::new();
        let mut chance = Chance::new(1);
        for step in 0..100_000u64 {
            let is_filling = (step / 5_000) % 2 == 0;
            match chance.below(8) {
                0..4 if is_filling => {
                    let away = [100, 100, 100, 100, 300, 9_000][chance.below(6) as usize];
                    let value = (step / 10 + away, chance.below(4));
                    deadlines.insert(value);
                    model.insert(value);
                }
                0..6 => {
                    let from = (step / 10 + chance.below(100), chance.below(4));
                    let value = model.range(from..).next().copied().unwrap_or(from);
                    deadlines.remove(&value);
                    model.remove(&value);
                }
                _ => {
                    if let Some(first) = model.pop_first() {
                        deadlines.remove(&first);
                    }
                }
            }
            assert_eq!(deadlines.first(), model.first());
            assert!(deadlines.left <= deadlines.row.len() / 2);
        }
        deadlines.retain(|(_, n)| *n != 2);
        model.retain(|(_, n)| *n != 2);
        while let Some(first) = model.pop_first() {
            assert_eq!(deadlines.first(), Some(&first));
            deadlines.remove(&first);
        }
        assert_eq!(deadlines.first(), None);
    }

    #[test]
    fn one_forgotten_deadline_does_not_keep_those_that_went() {
        let mut deadlines = Deadlines::default();
        deadlines.insert(0);
        for n in 1..100_000 {
            deadlines.insert(n);
            deadlines.remove(&n);
        }
        assert_eq!(deadlines.first(), Some(&0));
        assert!(deadlines.row.capacity() <= 4 * NEAR);
    }
}
