//! Leader election and competing consumers, together, on one durable log.
//!
//! Of many equal instances exactly one leads, and the old one can do no more harm; work is posted
//! to a queue and shared by any number of consumers, and nothing that was acknowledged is lost.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::{Bellwether, Verdict};
//! use tokio_util::sync::CancellationToken;
//!
//! let bw = Bellwether::open("memory:").await?; // or "file:./data"
//! let shutdown = CancellationToken::new();
//!
//! // Competing consumers: any number of pumps, here or elsewhere, share the queue.
//! let orders = bw.create_queue("orders", Default::default()).await?;
//! orders.send("two coffees").await?;
//! let stop = shutdown.clone();
//! let pump = orders.pump().concurrency(10).run(
//!     move |work| {
//!         println!("making {:?}", work.text());
//!         stop.cancel();
//!         async { Verdict::Complete }
//!     },
//!     shutdown.clone(),
//! );
//!
//! // Leader election: the work runs in one place at a time, and carries its term.
//! let elector = bw.election("chores")?.lead(|leading| async move {
//!     println!("leading under term {}", leading.term());
//!     leading.cancelled().await;
//! });
//! let (pumped, led) = tokio::join!(pump, elector.run(shutdown.cancelled()));
//! pumped.and(led)
//! # }
//! ```
//!
//! | where to look | for |
//! |---|---|
//! | [`Bellwether`], [`Open`] | opening a store: `memory:`, `file:PATH`, or that of a server |
//! | [`Queue`], [`Message`], [`Delivery`], [`Session`] | sending, receiving, settling |
//! | [`Pump`] | running a handler over a queue |
//! | [`Job`] | work fanned out as messages and gathered again |
//! | [`Schedule`] | recurring rules that send messages |
//! | [`Election`], [`Leadership`], [`Lease`] | leading, and fencing what a leader writes |
//! | [`Shards`] | leading a fair part of many |
//! | [`Elections`] | leading on an engine that runs already |
//! | `guardian` (with any such engine) | giving back what a dead leader held, long before its time is over |
//! | [`fencing`] | resources that refuse a deposed leader's late write: files, PostgreSQL, etcd, Redis, HTTP |
//! | `fleet` (a feature) | electing a leader among members that have no store at all |
//! | [`VirtualClock`] | moving time in your own tests |
//! | [`Stats`] | how a store is, for whoever measures it |
//! | [`Exported`] | carrying messages with their past from store to store |
//! | [`backup`] | a copy of the whole store while it goes on, and a new store out of it |
//! | [`Error`], [`Refusal`] | what can go wrong, and who must act |
//!
//! A lease has a *term* and a message has a *delivery number*. Both only grow, and whoever shows
//! an old one is refused.

pub mod backup;
mod chance;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod credential;
pub mod delivery;
mod elections;
pub mod elector;
pub mod engine;
pub mod error;
#[cfg(feature = "etcd-gateway")]
mod etcd;
pub mod export;
pub mod fencing;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "guardian")]
pub mod guardian;
mod handle;
pub mod job;
pub mod journal;
pub mod lease;
mod leases;
pub mod message;
mod open;
mod presence;
pub mod pump;
pub mod queue;
mod renewer;
pub mod schedule;
pub mod session;
pub mod shards;
pub mod stats;
#[cfg(feature = "tls")]
pub mod tls;
pub mod wire;

pub use bellwether_core as core;
pub use bellwether_core::error::{LeaseRefusal, Refusal};
pub use bellwether_core::name::{LeaseId, LeaseName, MemberId, SequenceNumber, Term};
pub use bellwether_core::settings::{Durability, QueueSettings, SettingsPatch, Status};
pub use clock::{Clock, Stopwatch, VirtualClock};
pub use credential::{CREDENTIAL_BYTES_MAX, Credential};
pub use delivery::{Delivery, Received};
pub use elections::Elections;
pub use elector::{
    Deposed, Election, Elector, Fence, Leader, Leadership, LeadershipGuard, LossReason, Overrun,
    View,
};
pub use error::Error;
pub use export::Exported;
pub use handle::Bellwether;
pub use job::{Gathered, Item, Job};
pub use lease::{Grant, Lease, Ttl};
pub use leases::Facts as EngineFacts;
pub use message::Message;
pub use open::Open;
pub use pump::{Pump, PumpHandle, Verdict, Work};
pub use queue::Queue;
pub use schedule::Schedule;
pub use session::Session;
pub use shards::Shards;
pub use stats::{Health, Stats};

/// The programs in the README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
