//! `bellwether work`, with real processes: commands that end in every way, hang, fork and are cut off.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

mod ending;
mod given;
mod shop;
mod stopping;
