//! Benchmarks: the product alone and next to others, on the machine at hand.
//!
//! Absolute figures belong to a machine and a moment. Every comparison is made of interleaved
//! pairs, so that whatever else the machine does hits both alike; the median of the ratios counts.

mod child;
mod failover;
mod local;
mod machine;
mod raw;
mod report;
mod server;
/// Those that the library's own tests run on.
#[path = "../../crates/bellwether/tests/support/servers/mod.rs"]
mod servers;
mod sqlite;
mod wire;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// For both sides of every comparison. What is received on one thread was sent on another, which
/// the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks of Bellwether.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The embedded store: latency, throughput, depth, memory, start-up, disk.
    Local(local::Options),
    /// The server: latency, throughput, next to Redis; HTTP; idle connections; rest; start; backup.
    Wire(wire::Options),
    /// From a leader that is gone to the next one at work: faults, load, scale; next to etcd and others.
    Failover(failover::Options),
    /// A process that contends for an election (used by `failover`).
    #[command(hide = true)]
    Candidate { address: String, election: String, ttl_ms: u64, stall_ms: u64 },
    /// A process that is many members with many elections each (used by `failover`).
    #[command(hide = true)]
    Members { address: String, members: usize, each: usize, prefix: String },
    /// A process that keeps one core busy (used by `failover`).
    #[command(hide = true)]
    Burn,
    /// A process that fills a store and works on it until it is killed (used by `local`).
    #[command(hide = true)]
    Load { folder: PathBuf, waiting: u64 },
    /// A process that fills a store and says what memory that took (used by `local`).
    #[command(hide = true)]
    Grow { folder: PathBuf, waiting: u64 },
    /// A process that opens a store and says how long that took (used by `local`).
    #[command(hide = true)]
    Open { folder: PathBuf },
    /// A process that holds connections and does nothing (used by `wire`).
    #[command(hide = true)]
    Crowd { address: String, count: u64 },
    /// A process that answers at once (used by `wire`).
    #[command(hide = true)]
    Echo,
    /// A process that does some cycles, to be counted (used by `local`).
    #[command(hide = true)]
    Count {
        engine: child::Engine,
        folder: PathBuf,
        waiting: u64,
        cycles: u64,
        #[arg(default_value_t = 64)]
        callers: u64,
    },
}

fn main() {
    // `failover` starts this program as the guardian of its candidates.
    if std::env::args().nth(1).as_deref() == Some(bellwether::guardian::ARGUMENT) {
        return bellwether::guardian::run().expect("a guardian");
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    match Arguments::parse().command {
        Command::Local(options) => runtime.block_on(local::run(options)),
        Command::Wire(options) => runtime.block_on(wire::run(options)),
        Command::Failover(options) => runtime.block_on(failover::run(options)),
        Command::Candidate { address, election, ttl_ms, stall_ms } => {
            runtime.block_on(failover::candidate(&address, &election, ttl_ms, stall_ms));
        }
        Command::Members { address, members, each, prefix } => {
            runtime.block_on(failover::members(&address, members, each, &prefix));
        }
        Command::Burn => failover::burn(),
        Command::Load { folder, waiting } => runtime.block_on(child::load(&folder, waiting)),
        Command::Grow { folder, waiting } => runtime.block_on(child::grow(&folder, waiting)),
        Command::Open { folder } => runtime.block_on(child::open(&folder)),
        Command::Crowd { address, count } => runtime.block_on(wire::crowd(&address, count)),
        Command::Echo => runtime.block_on(wire::echo()),
        Command::Count { engine, folder, waiting, cycles, callers } => {
            runtime.block_on(child::count(engine, &folder, waiting, cycles, callers));
        }
    }
}
