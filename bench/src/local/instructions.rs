//! Instructions per cycle, counted by valgrind: nearly the same on every run, whatever else the
//! machine does, as long as nothing spins. They say nothing of waiting, for the disk or for memory.

use std::process::Command;

use super::{Options, fresh};
use crate::child::Engine;
use crate::report::{Report, rate};

const CYCLES: u64 = 12_800;
const WAITING: u64 = 100_000;

pub(super) fn run(options: &Options, report: &mut Report) {
    let ours = per_cycle(options, Engine::Bellwether, 0);
    let (Some(ours), Some(theirs), Some(deep)) = (
        ours,
        per_cycle(options, Engine::Sqlite, 0),
        per_cycle(options, Engine::Bellwether, WAITING),
    ) else {
        report.figure("instructions", "not counted: there is no valgrind here".into(), 0);
        return;
    };
    let show = |count: f64| rate(count).trim_end_matches("/s").to_owned();
    report.figure("instructions per full cycle, 64 callers, 256 B", show(ours), ours);
    report.figure("instructions per full cycle, SQLite", show(theirs), theirs);
    let what = format!("instructions per full cycle, {WAITING} waiting");
    report.figure(&what, show(deep), deep);
    report.figure("instructions, SQLite to ours", format!("{:.2}", theirs / ours), theirs / ours);
    let what = format!("instructions, {WAITING} waiting to none");
    report.figure(&what, format!("{:.2}", deep / ours), deep / ours);
}

/// The difference between a long and a short run, so that opening and filling do not count.
fn per_cycle(options: &Options, engine: Engine, waiting: u64) -> Option<f64> {
    let short = count(options, engine, waiting, CYCLES)?;
    let long = count(options, engine, waiting, 2 * CYCLES)?;
    Some((long as f64 - short as f64) / CYCLES as f64)
}

fn count(options: &Options, engine: Engine, waiting: u64, cycles: u64) -> Option<u64> {
    let folder = fresh(options, "instructions");
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["count", &engine.to_string(), &folder.display().to_string()])
        .args([waiting.to_string(), cycles.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the counted process ends well: {text}");
    // `==17== I   refs:      1,234,567`
    let line = text.lines().find(|line| line.contains("refs:")).expect("a count");
    let digits: String =
        line.rsplit(':').next().unwrap_or("").chars().filter(char::is_ascii_digit).collect();
    Some(digits.parse().expect("a number"))
}
