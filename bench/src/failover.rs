//! From a leader that is gone to the next one at work, fault by fault, next to what others take.
//!
//! ```text
//!   the fault ──────────► the next leader's first trusted act
//!      │ on the clock that counts since boot, which all processes of a machine share
//! ```
//!
//! Leaders are processes of their own ([`candidate`]), as they are elsewhere; whoever waits has waited
//! for longer than its ask is worth, as those in line mostly have, so its grant is confirmed first.

mod calm;
mod candidate;
mod cut;
mod guarded;
mod kill;
mod line;
mod peers;
mod polite;
mod proxy;
mod scale;
mod stalled;

use std::path::PathBuf;
use std::time::Duration;

use bellwether::{Bellwether, Election};
use clap::{Args, ValueEnum};
use rustix::time::{ClockId, clock_gettime};

use crate::machine;
use crate::raw::Raw;
use crate::report::{Report, p50_us, percentile, spread};
use crate::server::Server;
pub(crate) use calm::burn;
pub(crate) use candidate::candidate;
pub(crate) use scale::members;

/// What a grant writes, roughly: the lease, why the term before it ended, a frame around both.
const GRANT_BYTES: usize = 320;

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
    /// Runs of what takes milliseconds: `polite`, each way, and `kill`.
    #[arg(long, default_value_t = 1000)]
    runs: usize,
    /// Runs of what takes as long as a lease or a limit: `stalled`, `frozen`, `partition`; of each
    /// engine with a guardian, too.
    #[arg(long, default_value_t = 100)]
    slow_runs: usize,
    /// Runs of each peer that takes a session's time to notice a death; the others do ten times as many.
    #[arg(long, default_value_t = 20)]
    peer_runs: usize,
    /// Minutes under load in which nobody may be deposed.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Elections that a hundred members hold together.
    #[arg(long, default_value_t = 100_000)]
    elections: usize,
    /// Microsoft's emulator: `tools/lease-servers azurite` installs it.
    #[arg(long, default_value = "target/tools/azurite/node_modules/.bin/azurite-blob")]
    azurite: PathBuf,
    /// Where Python finds kazoo: `tools/lease-servers kazoo` makes it.
    #[arg(long, default_value = "target/tools/kazoo/bin/python")]
    python: PathBuf,
    /// The server to measure: `cargo build --release` makes it.
    #[arg(long, default_value = "target/release/bellwether")]
    program: PathBuf,
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// A leader that steps down, over the Unix socket and over TCP.
    Polite,
    /// A leader's process that is killed, proved by the kernel.
    Kill,
    /// A leader whose work shows no progress and can be cancelled.
    Stalled,
    /// A leader's process that is stopped.
    Frozen,
    /// A leader whose packets get lost.
    Partition,
    /// A leader on a busy machine, which must stay in office.
    Calm,
    /// A leader's process that is killed, on etcd, PostgreSQL and Azurite, with a guardian beside it.
    Guarded,
    /// The same with etcd, ZooKeeper and PostgreSQL and the clients that people use.
    Peers,
    /// What a hundred thousand elections of a hundred members cost, and one member that dies.
    Scale,
}

pub(crate) async fn run(options: Options) {
    std::fs::create_dir_all(&options.folder).expect("a folder for the stores");
    let mut report = Report::default();
    machine::describe(&mut report, &options.folder);
    for part in Part::value_variants() {
        if !options.only.is_empty() && !options.only.contains(part) {
            continue;
        }
        match part {
            Part::Polite => polite::run(&options, &mut report).await,
            Part::Kill => kill::run(&options, &mut report).await,
            Part::Stalled => stalled::run(&options, &mut report).await,
            Part::Frozen => cut::frozen(&options, &mut report).await,
            Part::Partition => cut::partition(&options, &mut report).await,
            Part::Calm => calm::run(&options, &mut report).await,
            Part::Guarded => guarded::run(&options, &mut report).await,
            Part::Peers => peers::run(&options, &mut report).await,
            Part::Scale => scale::run(&options, &mut report).await,
        }
    }
    // Left-overs of a run that was stopped would be measured by the next one.
    let _ = std::fs::remove_dir_all(&options.folder);
    if !report.print(options.json) {
        std::process::exit(1);
    }
}

impl Options {
    fn server(&self, name: &str) -> Server {
        Server::start(&self.program, &self.folder, name, &[])
    }

    fn raw(&self) -> Raw {
        Raw::new(&self.folder, GRANT_BYTES)
    }
}

/// Nanoseconds since boot, the same for every process of this machine.
fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// From one moment to another, on that clock.
fn between(from_ns: u64, to_ns: u64) -> Duration {
    Duration::from_nanos(to_ns.saturating_sub(from_ns))
}

/// Somebody who looks on at an election.
async fn onlooker(server: &Server, name: &str) -> Election {
    let store = Bellwether::open(server.socket()).await.expect("a connection");
    store.election(name).expect("a name")
}

/// Until somebody leads and so many wait in line.
async fn until_in_line(election: &Election, waiting: usize) {
    loop {
        let info = election.info().await.expect("the election");
        if info.is_some_and(|info| info.holder.is_some() && info.waiting.len() >= waiting) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The raw flush of this part; its p99.
fn flushes(report: &mut Report, flushes: &mut [Duration]) -> Duration {
    report.figure("raw overwrite + fdatasync", spread(flushes), p50_us(flushes));
    percentile(flushes, 0.99)
}

/// Checks the p99 of some times.
fn check(report: &mut Report, what: &str, times: &mut [Duration], target: &str, max: Duration) {
    let what = format!("{what}, {} runs", times.len());
    let p99 = percentile(times, 0.99);
    let target = format!("p99 <= {target} ({max:.1?})");
    report.check(&what, spread(times), p99.as_micros() as u64, &target, p99 <= max);
}
