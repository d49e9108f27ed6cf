//! `bellwether serve` with TLS, as its clients, its operator and strangers see it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../../bellwether/tests/support/certificates.rs"]
mod certificates;
mod clients;
mod expiring;
mod foreign;
mod handbook;
mod renewing;
mod rules;
#[path = "../serve/server.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod server;
mod starting;
mod strangers;
mod world;
