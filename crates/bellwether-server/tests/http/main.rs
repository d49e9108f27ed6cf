//! The HTTP door, spoken to from outside: the real program, a real socket.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod changes;
mod cloud_events;
mod docs;
mod exactly_once;
mod fences;
mod jobs;
mod leases;
mod messages;
mod problems;
mod queues;
mod schedules;
mod server;
mod sessions;
