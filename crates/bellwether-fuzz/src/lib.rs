//! Bytes from others: one target for each decoder.
//!
//! ```text
//!   seeds (real encodings) ─► corpus/ (committed) ─┬─► tests: replay, and mutations by seed   stable
//!                                                  └─► ../../fuzz: libFuzzer, for as long as  nightly
//!                                                      you like
//! ```
//!
//! A target takes any bytes. It must not panic; what it decodes must encode to bytes that decode to
//! the same value; and it must allocate no more than a small multiple of what it was given
//! ([`allocation_max`]): a length is a claim, not a fact.

#![allow(clippy::unwrap_used, reason = "this crate is a test")]

mod mutate;
pub mod seeds;
mod targets;

use std::path::PathBuf;

pub use mutate::Mutator;
pub use targets::TARGETS;

/// A decoder and what it must keep.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Panics if something is not kept.
    pub run: fn(&[u8]),
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Self {
        let found = TARGETS.iter().find(|target| target.name == name);
        *found.unwrap_or_else(|| panic!("there is no target {name:?}"))
    }

    /// Where its corpus lies.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// Its corpus, in the order of the names, and what is written today: encodings of yesterday are
    /// read for ever, and those of tomorrow are tried before anybody has committed them.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(self.folder()).unwrap();
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        let kept = paths.iter().map(|path| std::fs::read(path).unwrap());
        kept.chain(seeds::of(self.name).into_iter().map(|(_, seed)| seed)).collect()
    }
}

/// How many bytes a target may allocate, all in all, for an input of so many bytes. Decoded, encoded
/// and decoded again, and elements are larger in memory than in bytes.
pub fn allocation_max(input_bytes: usize) -> usize {
    256 * input_bytes + (64 << 10)
}
