//! Runs seeds and says what they were worth.

#![allow(clippy::print_stdout, reason = "a program for the command line")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::process::ExitCode;

use bellwether::Clock;
use bellwether_sim::{Outcome, Stats, run};
use clap::Parser;

/// Runs the simulated world of many seeds and stops at the first that breaks an invariant.
#[derive(Debug, Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this one.
    #[arg(long)]
    seed: Option<u64>,
    /// Say everything that happens.
    #[arg(long)]
    verbose: bool,
    /// Go on with further seeds for so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Do not stop at a failure, count them.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (from, count) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.from, args.minutes.map_or(args.seeds, |_| u64::MAX - args.from)),
    };
    let clock = Clock::System;
    let begun = clock.now().boot;
    let mut stats = Stats::default();
    let (mut seeds, mut failed) = (0_u64, 0_u64);
    let mut slowest = (0, 0);
    for seed in from..from + count {
        let began = clock.now().boot;
        let outcome = run(seed, args.verbose);
        slowest = slowest.max((began.ms_until(clock.now().boot), seed));
        seeds += 1;
        stats += outcome.stats;
        if outcome.failure.is_some() {
            failed += 1;
            tell(&outcome, args.keep_going);
            if !args.keep_going {
                break;
            }
        }
        let spent_ms = begun.ms_until(clock.now().boot);
        if args.minutes.is_some_and(|minutes| spent_ms >= minutes * 60_000) {
            break;
        }
    }
    let spent_ms = begun.ms_until(clock.now().boot).max(1);
    println!("seeds                        {seeds:>12}");
    println!("seeds that failed            {failed:>12}");
    for (label, count) in stats.lines() {
        println!("{label:<28} {count:>12}");
    }
    let hours = stats.simulated_ms as f64 / 3_600_000.0;
    let seconds = spent_ms as f64 / 1000.0;
    println!("simulated hours              {hours:>12.1}");
    println!("seconds                      {seconds:>12.1}");
    println!("slowest seed                 {:>12} ({:.1} s)", slowest.1, slowest.0 as f64 / 1000.0);
    println!("seeds per second             {:>12.1}", seeds as f64 / seconds);
    println!("simulated hours per second   {:>12.2}", hours / seconds);
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn tell(outcome: &Outcome, short: bool) {
    let Some(failure) = &outcome.failure else { return };
    if short {
        println!("seed {} broke: {}\n  {}", outcome.seed, failure.invariant, failure.how);
    } else {
        println!("seed {} broke: {failure}", outcome.seed);
    }
}
