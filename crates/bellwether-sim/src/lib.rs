//! The world: members, their network, one server and its disk, simulated in one thread from a
//! seed. The same seed is the same run.
//!
//! ```text
//!   members: electors, pumps, producers ──► network ──► server: Shard on FileJournal on SimDisk
//!        ▲  clocks that drift, pauses, deaths    │ lost, doubled, late       │ kills, power cuts,
//!        └────────────────────────────────────── ┴ ◄─────────────────────────┘ failed calls, full
//! ```
//!
//! The rules, the shard, the journal, the candidacy and the flow are the product's own; only the
//! disk, the network, the clocks and the order of threads are ours. Faults happen for a while, then
//! everything must get well again. Everything that happens is history, and every invariant
//! (`invariants/`) looks at all of it.

mod bodies;
mod boundary;
mod bus;
mod clock;
mod dice;
mod history;
mod invariants;
mod member;
mod network;
mod plan;
mod resource;
mod server;
mod stats;
mod world;

use std::panic::AssertUnwindSafe;

pub use stats::Stats;

use plan::Plan;
use world::World;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Two runs of one seed have the same.
    pub digest: u64,
    /// How much happened.
    pub stats: Stats,
    /// What went wrong.
    pub failure: Option<Failure>,
}

/// What went wrong, in which seed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Which invariant.
    pub invariant: String,
    /// How.
    pub how: String,
    /// The last things that happened.
    pub last: Vec<String>,
}

/// The whole report, with the one command that replays it.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, invariant, how, last } = self;
        writeln!(f, "{invariant}\n  {how}\nthe last things that happened:")?;
        last.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "replay: cargo run --release -p bellwether-sim -- --seed {seed} --verbose")
    }
}

/// Runs the world of one seed.
pub fn run(seed: u64, verbose: bool) -> Outcome {
    let mut world = World::new(Plan::of(seed), verbose);
    if verbose {
        eprintln!("{:#?}", world.bus.plan);
    }
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let history = &world.bus.history;
    let violation = match ended {
        Ok(()) => history.violation.as_ref().map(|v| (v.invariant.to_owned(), v.how.clone())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Some(("panic".to_owned(), text.unwrap_or_default()))
        }
    };
    let failure =
        violation.map(|(invariant, how)| Failure { seed, invariant, how, last: history.last(40) });
    Outcome { seed, digest: history.digest(), stats: world.bus.stats, failure }
}
