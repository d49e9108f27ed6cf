//! `bellwether scale`, with real processes: workers come with messages and go without, hosts share them,
//! and nobody who has something to do is sent away.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

mod deciding;
#[path = "../lead/fleet.rs"]
mod fleet;
mod hosts;
mod stopping;
mod world;
