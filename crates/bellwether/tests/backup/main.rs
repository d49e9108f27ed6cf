//! Backups of stores that go on, and stores out of them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod damage;
mod folder;
mod load;
mod numbers;
mod steps;
mod whole;
