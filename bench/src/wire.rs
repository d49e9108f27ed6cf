//! The server, reached over its doors on the loopback, part by part.
//!
//! Server, load and whatever is compared share the machine's cores. Each part has a server of its
//! own, so that none finds what another has left.

mod active;
mod backup;
mod crowd;
mod cycles;
mod echo;
mod features;
mod http;
mod idle;
mod latency;
mod redis;
mod startup;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::machine;
use crate::report::Report;
use crate::server::Server;
pub(crate) use crowd::crowd;
pub(crate) use echo::echo;

/// The body of every message.
const BODY_BYTES: usize = 256;
/// A frame around one message: header, changes, checksum.
const FRAME_BYTES: usize = 64;

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Where the stores are made; on the disk to be measured.
    #[arg(long, default_value = "bench-data")]
    folder: PathBuf,
    /// Pairs per comparison; the median of their ratios counts.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// The server to measure: `cargo build --release` makes it.
    #[arg(long, default_value = "target/release/bellwether")]
    program: PathBuf,
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One caller of the wire, one call at a time, beside the raw flush and the loopback.
    Latency,
    /// Full cycles over the wire, next to Redis.
    Cycles,
    /// The same in batches, over eight connections.
    Batches,
    /// Full cycles with every feature of a queue, next to cycles without any.
    Features,
    /// How long others wait beside a tenant that sends a thousand times as much.
    Fairness,
    /// Full cycles over HTTP, 64 connections that are kept alive.
    Http,
    /// What 10 000 connections cost that do nothing.
    Crowd,
    /// What a server costs that nobody asks for anything.
    Idle,
    /// From the start of the program to its being ready.
    Startup,
    /// What a backup costs those who work meanwhile.
    Backup,
}

pub(crate) async fn run(options: Options) {
    std::fs::create_dir_all(&options.folder).expect("a folder for the stores");
    let mut report = Report::default();
    machine::describe(&mut report, &options.folder);
    report.fact("pairs", options.pairs);
    for part in Part::value_variants() {
        if !options.only.is_empty() && !options.only.contains(part) {
            continue;
        }
        match part {
            Part::Latency => latency::run(&options, &mut report).await,
            Part::Cycles => cycles::against_redis(&options, &mut report).await,
            Part::Batches => cycles::batches(&options, &mut report).await,
            Part::Features => features::run(&options, &mut report).await,
            Part::Fairness => features::fairness(&options, &mut report).await,
            Part::Http => http::run(&options, &mut report),
            Part::Crowd => crowd::run(&options, &mut report).await,
            Part::Idle => idle::run(&options, &mut report).await,
            Part::Startup => startup::run(&options, &mut report),
            Part::Backup => backup::run(&options, &mut report).await,
        }
    }
    // Left-overs of a run that was stopped would be measured by the next one.
    let _ = std::fs::remove_dir_all(&options.folder);
    if !report.print(options.json) {
        std::process::exit(1);
    }
}

impl Options {
    /// A server on an empty store, with these flags beside.
    fn server(&self, name: &str, flags: &[&str]) -> Server {
        Server::start(&self.program, &self.folder, name, flags)
    }
}
