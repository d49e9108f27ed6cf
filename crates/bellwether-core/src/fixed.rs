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

#[derive(Clone, Debug, Default)]
struct Mix(u64);

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
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}
