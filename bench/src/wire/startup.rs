//! From the start of the program to its being ready, on an empty store.

use super::Options;
use crate::report::{Report, percentile, spread};

const READY_MS_MAX: f64 = 100.0;

pub(super) fn run(options: &Options, report: &mut Report) {
    let starts = (0..options.pairs).map(|_| options.server("startup", &[]).ready_after());
    let mut starts: Vec<_> = starts.collect();
    let middle_ms = percentile(&mut starts, 0.5).as_secs_f64() * 1e3;
    let (what, met) = ("start to ready, empty store", middle_ms < READY_MS_MAX);
    report.check(what, spread(&mut starts), middle_ms, "< 100 ms", met);
}
