//! `bellwether lead`, with real processes: commands that end, hang, fork and hide, leaders that are
//! killed and frozen, a server that is cut off. Every command writes down that it is alive, and nobody
//! may do so beside another, or after a later term has begun.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

#[path = "../../../bellwether/tests/support/certificates.rs"]
mod certificates;
mod dying;
mod ending;
mod fleet;
mod losing;
mod running;
mod slots;
mod stopping;
