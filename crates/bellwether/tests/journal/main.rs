//! The file journal: its promises, one file each.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod basics;
mod bit_flips;
mod crash_states;
mod full_disk;
mod golden;
mod io_errors;
mod real_disk;
mod world;
