//! Faults on real processes: candidates, a server or another engine, and what happens to them.
//!
//! ```text
//!   who makes the faults ──► candidates ─┬─ history ─┐
//!   (one file a kind)    ──► server      └─ fenced ──┴─► the check of `bellwether election chaos`
//! ```
//!
//! Every candidate is a process of its own, leads when it can, writes to a fenced file while it does,
//! and for a while after. One fault after the other is made on them; after each somebody must lead
//! again, and in the end the whole history must be right (`bellwether_server::drill`).
//!
//! `FAULTS` says how many in all, `FAULTS_SEED` what they are drawn from; a failure says how to run it
//! again, and keeps its history. Processes have a will of their own, so a seed gives the same faults and
//! not the same run.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

mod clocks;
mod etcd;
mod freezes;
mod guise;
mod kills;
mod line;
mod network;
mod partitions;
mod pooler;
mod run;
#[path = "../../../bellwether/tests/support/servers/mod.rs"]
mod servers;
mod wall;
mod world;
