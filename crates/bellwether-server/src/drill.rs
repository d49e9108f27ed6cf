//! A drill: faults that are made on purpose, what processes saw of them, and whether that was right.
//!
//! ```text
//!   candidates ─┬─ history, a JSON line an event ─┐
//!   who makes   │  (leads, trusts, stops, writes, ├─► check ─► what must never have happened
//!   the faults ─┘   freezes, kills)               │
//!   the fenced file: what it accepted, in order ──┘
//! ```
//!
//! The history is written by the processes themselves, on the boot clock of the machine they share;
//! the file by whoever it let in. The check only reads: it knows nothing of how either came about.

mod check;
mod event;

pub use check::{Rules, Tally, Violation, check};
pub use event::{Accepted, Event, History, Op, Phase, Recorder, Tail};
