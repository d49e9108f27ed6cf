//! A map by numbers that the other side chooses.
//!
//! They mostly count up, so mixing them once is enough; but with a number of our own that nobody
//! else knows, or somebody could choose them so that all of them meet in one place.

use std::collections::HashMap;
use std::hash::BuildHasher;

use bellwether_core::fixed::Mix;

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
