//! The election part of the conformance suite on every lease engine: one file an engine, the list
//! of cases is the library's.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[cfg(feature = "azure-blob")]
mod azure;
#[cfg(any(feature = "azure-blob", feature = "nats", feature = "zookeeper"))]
#[path = "../support/servers/direct.rs"]
mod direct;
mod etcd;
mod folder;
#[cfg(feature = "nats")]
mod nats;
mod older;
mod own;
mod postgres;
#[path = "../support/servers/mod.rs"]
mod servers;
#[cfg(feature = "zookeeper")]
mod zookeeper;
