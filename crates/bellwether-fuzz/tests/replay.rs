//! The corpus, and what chance makes of it. The same every time, on every machine.
//!
//! ```text
//! BELLWETHER_FUZZ_RUNS=1000000 cargo test -p bellwether-fuzz       for longer
//! BELLWETHER_FUZZ_SEED=17 cargo test -p bellwether-fuzz            once, the input that failed
//! ```

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bellwether_fuzz::{Mutator, TARGETS, Target, allocation_max};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Of each target.
const RUNS: u64 = 12_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Runs a target; what is wrong, if anything is.
fn run(target: Target, input: &[u8]) -> Result<(), String> {
    let region = Region::new(ALLOCATOR);
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let allocated = region.change().bytes_allocated;
    if ended.is_err() {
        return Err("it panicked; the message stands above".into());
    }
    let max = allocation_max(input.len());
    if allocated > max {
        return Err(format!("it allocated {allocated} bytes, and may {max}"));
    }
    Ok(())
}

fn check(target: Target, input: &[u8], how_again: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    run(target, input).map_err(|why| format!("{}: {why}\ninput {text:?}\n{how_again}", target.name))
}

fn try_out(target: Target, runs: u64, only: Option<u64>) -> Result<(), String> {
    let corpus = target.corpus();
    for (at, input) in corpus.iter().enumerate() {
        check(target, input, &format!("it is file {at} of {}", target.folder().display()))?;
    }
    for seed in only.map_or(1..=runs, |seed| seed..=seed) {
        let input = Mutator::new(seed).input(&corpus);
        let again = format!("BELLWETHER_FUZZ_SEED={seed} cargo test -p bellwether-fuzz");
        check(target, &input, &again)?;
    }
    Ok(())
}

/// One after the other: what is allocated is counted for the whole process.
#[test]
fn the_corpus_and_its_mutations_do_no_harm() {
    let runs = number("BELLWETHER_FUZZ_RUNS").unwrap_or(RUNS);
    let only = number("BELLWETHER_FUZZ_SEED");
    let failed: Vec<_> =
        TARGETS.iter().filter_map(|target| try_out(*target, runs, only).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// libFuzzer's programs are files, which nobody is reminded of.
#[test]
fn every_target_can_be_run_for_longer() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut found: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
    found.sort();
    let mut wanted: Vec<_> = TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    wanted.sort();
    assert_eq!(found, wanted);
}
