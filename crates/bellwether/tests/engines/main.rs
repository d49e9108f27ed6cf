//! The conformance suite on every engine: one file an engine, the list of cases is the library's.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../support/certificates.rs"]
mod certificates;
mod file;
mod memory;
mod proxy;
mod remote;
mod server;
mod snapshots;
