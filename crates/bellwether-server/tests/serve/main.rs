//! `bellwether serve`, as whoever starts, asks, measures and stops it sees it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod configuration;
mod doors;
mod hostile;
mod in_flight;
mod observing;
mod server;
mod space;
mod starting;
mod stopping;
mod virtual_time;
