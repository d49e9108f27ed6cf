//! A server that nobody asks for anything.

use std::time::Duration;

use super::Options;
use super::active::Active;
use crate::machine::{self, Work};
use crate::report::Report;

const MINUTE: u32 = 60;
/// Until what the last callers left behind is done: marks, and threads that nobody needs any more.
const REST: Duration = Duration::from_secs(15);
const CPU_MS_MAX: f64 = 10.0;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("idle", &[]);
    let fresh = machine::resident_bytes_of(server.pid()) as f64 / 1e6;
    report.figure("resident memory of a server just started", format!("{fresh:.1} MB"), fresh);
    // One that has never worked has nothing that could keep it awake.
    let active = Active::connect(&server).await;
    active.sends().await;
    active.close().await;
    tokio::time::sleep(REST).await;
    let rested = machine::resident_bytes_of(server.pid()) as f64 / 1e6;
    report.figure(
        "resident memory of one that has worked and rests",
        format!("{rested:.1} MB"),
        rested,
    );
    let mut work = Work::of(server.pid());
    for _ in 0..MINUTE {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Often, so that nearly all is seen of a thread that ends.
        work.look();
    }
    let wakes = work.wakes();
    report.figure("an idle minute, threads woken", wakes.to_string(), wakes);
    let cpu_ms = work.cpu().as_secs_f64() * 1e3;
    let (figure, met) = (format!("{cpu_ms:.2} ms"), cpu_ms <= CPU_MS_MAX);
    report.check("an idle minute, processor time", figure, cpu_ms, "<= 10 ms", met);
}
