//! A map by numbers that the other side chooses.
//!
//! They mostly count up, so mixing them once is enough; but with a number of our own that nobody
//! else knows, or somebody could choose them so that all of them meet in one place.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use crate::chance::random_u64;

/// See the module.
pub(crate) type Numbered<T> = HashMap<u64, T, Mixing>;

/// Makes the hashers of one map.
#[derive(Clone, Debug)]
pub(crate) struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Self {
        Self(random_u64())
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

/// Mixes one number in.
#[derive(Debug)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
