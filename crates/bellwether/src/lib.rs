//! The library.
pub mod journal;
