//! Who may ask what: the real program, which asks for credentials at every door.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod http;
mod keys;
mod lifetimes;
mod limits;
mod members;
mod secrets;
mod server;
mod wire;
