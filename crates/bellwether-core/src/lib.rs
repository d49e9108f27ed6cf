//! The rules of Bellwether: queues, sessions, leases and members as a pure state machine.
//!
//! No clock, no chance, no thread, no file, no socket: time comes in as an argument, decisions go
//! out as values. The same state and the same input give the same output, in production, in a
//! test and in the simulator.
//!
//! ```text
//!   Ledger     apply(now, Request)  ──► Answer + Change       all queues, leases and members
//!   Candidacy  step(now, Event)     ──► Action                one member's view of an election
//!   Flow       step(now, Event)     ──► Action                one pump's view of its deliveries
//!   Fleet      step(now, Event)     ──► Action                one member's view of a fleet without a store
//! ```
//!
//! A message, from send to complete:
//!
//! ```text
//!   Send ─► Change::Message ─► durable ─► visible ─► Receive ─► Change::Standing(Locked n, until)
//!                                                       ▲                 │
//!                                            n + 1      └── lock ran out ─┤
//!                                                                         ├─ Complete(n) ─► gone
//!                                                                         └─ Complete(n−1) ► LockLost
//! ```
//!
//! A lease, from acquire to hand-over:
//!
//! ```text
//!   Acquire ─► term 7 ─► heartbeats renew ─► Release(7) ─► whoever waits first ─► term 8
//!                             └── silence for 105 % of the ttl ──────────────────────▲
//! ```
//!
//! Reading order: [`command`], [`outcome`] and [`change`] are the vocabulary; [`message`] and
//! [`lease`] are one life each; [`ledger`] puts them together; [`candidacy`] and [`flow`] are the
//! two machines on the other side; [`fleet`] elects without any store, by [`lowest`], [`bully`] or
//! [`ring`]; [`limits`] holds every maximum; [`codec`] is what it all looks
//! like in bytes.

pub mod backup;
pub mod bully;
pub mod calendar;
pub mod candidacy;
pub mod chance;
pub mod change;
pub mod codec;
pub mod command;
pub mod content;
mod contents;
mod deadlines;
pub mod error;
pub mod fence;
pub mod few;
pub mod fixed;
pub mod fleet;
pub mod flow;
pub mod job;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod lowest;
pub mod member;
pub mod message;
pub mod name;
pub mod outcome;
mod queue;
mod ready;
pub mod right;
pub mod ring;
pub mod schedule;
mod session;
pub mod settings;
pub mod shards;
pub mod stats;
pub mod table;
pub mod time;
