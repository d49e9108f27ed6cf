//! A hash map that hashes the same in every run.
//!
//! The rules must not depend on the order of an unordered map, so this one cannot be iterated.
//! Its keys are already hashes or numbers, so mixing them once is enough.

use std::hash::{BuildHasherDefault, Hash, Hasher};

#[allow(clippy::disallowed_types, reason = "wrapped so that nobody can iterate it")]
type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mix>>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct FixedMap<K, V>(Map<K, V>);

impl<K, V> Default for FixedMap<K, V> {
    fn default() -> Self {
        Self(Map::default())
    }
}

impl<K: Hash + Eq, V> FixedMap<K, V> {
    /// The value under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Puts a value under `key`; returns the one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes the value under `key` away.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }
}

/// Mixes numbers. Every bit of a number reaches every part of the result: with a beginning that
/// nobody else knows, nobody can choose numbers that meet in one place.
#[derive(Clone, Debug, Default)]
pub struct Mix(pub u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_only_above_or_only_below_do_not_meet() {
        for shift in [0, 16, 32, 48] {
            let mut places: Vec<u64> = (0..1024u64)
                .map(|number| {
                    let mut mix = Mix(0x1234_5678_9abc_def1);
                    mix.write_u64(number << shift);
                    mix.finish() % 4096
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() > 700, "{shift}: 1024 numbers in {} places", places.len());
        }
    }
}
