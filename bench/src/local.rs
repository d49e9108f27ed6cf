//! The embedded store, scenario by scenario.

mod cycles;
mod depth;
mod instructions;
mod latency;
mod passage;
mod startup;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::machine;
use crate::report::Report;
pub(crate) use cycles::{cycle, cycle_batches, cycle_of, cycles, round};

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only these: latency, cycles, instructions, batches, depth, startup, passage.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the stores are made; on the disk to be measured.
    #[arg(long, default_value = "bench-data")]
    folder: PathBuf,
    /// Pairs per comparison; the median of their ratios counts.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Messages waiting in the deepest queue.
    #[arg(long, default_value_t = 10_000_000)]
    deep: u64,
}

pub(crate) async fn run(options: Options) {
    std::fs::create_dir_all(&options.folder).expect("a folder for the stores");
    let mut report = Report::default();
    machine::describe(&mut report, &options.folder);
    report.fact("allocator", "mimalloc");
    report.fact("pairs", options.pairs);
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    if wanted("latency") {
        latency::run(&options, &mut report).await;
    }
    if wanted("cycles") {
        cycles::against_sqlite(&options, &mut report).await;
    }
    if wanted("instructions") {
        instructions::run(&options, &mut report);
    }
    if wanted("batches") {
        cycles::batches(&options, &mut report).await;
    }
    if wanted("depth") {
        depth::run(&options, &mut report).await;
    }
    if wanted("startup") {
        startup::run(&options, &mut report);
    }
    if wanted("passage") {
        passage::run(&options, &mut report).await;
    }
    // Left-overs of a run that was stopped would be measured by the next one.
    let _ = std::fs::remove_dir_all(&options.folder);
    if !report.print(options.json) {
        std::process::exit(1);
    }
}

/// An empty folder of this name.
fn fresh(options: &Options, name: &str) -> PathBuf {
    let folder = options.folder.join(name);
    // It is not there at the first run.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn address(folder: &Path) -> String {
    format!("file:{}", folder.display())
}
