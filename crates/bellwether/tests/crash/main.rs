//! Crashes of the real program and of the disk below it.
//!
//! [`kills`] ends a child process (`child.rs`, a program of its own) again and again and compares what it said with what it left.
//! [`io_errors`] lets every call to the disk fail once, [`reading`] those that read a message again
//! and again, [`full_disk`] leaves no room.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod driver;
mod frames;
mod full_disk;
mod io_errors;
mod kills;
mod ledger_of_facts;
mod opening;
mod reading;
mod reclaim;
mod store;
