//! A leader that is not dead and cannot be heard: nobody can tell the two apart, so it keeps its
//! lease until 105 % of the ttl have passed since the last heartbeat that counted.

use std::time::Duration;

use rustix::process::Signal;

use super::line::{Line, Said};
use super::proxy::Proxy;
use super::{Options, between, check, flushes, onlooker, until_in_line};
use crate::report::Report;

const TTL: Duration = Duration::from_millis(300);
const CANDIDATES: usize = 3;
/// Later than the ttl, which is later than the last heartbeat.
const BEYOND: Duration = Duration::from_millis(50);
/// Between two faults; not a multiple of what passes between two heartbeats.
const PAUSES_MS: [u64; 5] = [137, 151, 173, 199, 211];
const FLUSHES: usize = 20;

pub(super) async fn frozen(options: &Options, report: &mut Report) {
    let server = options.server("frozen");
    let mut raw = options.raw();
    let election = onlooker(&server, "frozen").await;
    let mut line = Line::new(Said::ours);
    for _ in 0..CANDIDATES {
        line.add_ours(server.socket(), "frozen", TTL);
    }
    let (mut leader, _) = line.leads();
    let (mut times, mut floor) = (Vec::new(), Vec::new());
    while times.len() < options.slow_runs {
        settle(&election, times.len()).await;
        raw.run(FLUSHES, &mut floor);
        let stopped = line.signal(leader, Signal::STOP);
        let (next, at) = line.leads();
        times.push(between(stopped, at));
        line.signal(leader, Signal::CONT);
        leader = next;
    }
    flushes(report, &mut floor);
    check(report, "frozen process, ttl 300 ms", &mut times, "ttl + 50 ms", TTL + BEYOND);
}

pub(super) async fn partition(options: &Options, report: &mut Report) {
    let server = options.server("partition");
    let mut raw = options.raw();
    let election = onlooker(&server, "partition").await;
    let mut line = Line::new(Said::ours);
    let mut proxies = Vec::new();
    for _ in 0..CANDIDATES {
        let proxy = Proxy::start(server.wire()).await;
        line.add_ours(proxy.address(), "partition", TTL);
        proxies.push(proxy);
    }
    let (mut leader, _) = line.leads();
    let (mut times, mut floor) = (Vec::new(), Vec::new());
    while times.len() < options.slow_runs {
        settle(&election, times.len()).await;
        raw.run(FLUSHES, &mut floor);
        let cut = proxies[leader].cut();
        let (next, at) = line.leads();
        times.push(between(cut, at));
        proxies[leader].mend();
        leader = next;
    }
    flushes(report, &mut floor);
    check(report, "partition, ttl 300 ms", &mut times, "ttl + 50 ms", TTL + BEYOND);
}

/// Until whoever was away has come back and stands in line, and some more.
async fn settle(election: &bellwether::Election, run: usize) {
    until_in_line(election, CANDIDATES - 1).await;
    tokio::time::sleep(Duration::from_millis(PAUSES_MS[run % PAUSES_MS.len()])).await;
}
