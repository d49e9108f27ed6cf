//! The fencing kit against the real things: a deposed leader's late write is refused by each.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod docs;
mod etcd;
mod file;
mod http;
mod once;
mod postgres;
mod redis;
#[path = "../support/servers/mod.rs"]
mod servers;

use bellwether::{Fence, LeaseName, Term};

/// What a name may hold that some format could trip over.
const ELECTION: &str = "bill/ing \"north\" {1}% ü";

fn fence(term: u64) -> Fence {
    Fence { election: LeaseName::new(ELECTION).unwrap(), term: Term(term) }
}
