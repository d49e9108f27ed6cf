//! A leader's process that is killed: the kernel tells the server, over whose Unix socket it came.

use std::time::Duration;

use rustix::process::Signal;

use super::line::{Line, Said};
use super::{Options, between, check, flushes, onlooker, until_in_line};
use crate::report::Report;

const TTL: Duration = Duration::from_secs(2);
/// So many processes are started before the first one is killed, and are then killed in a row.
const POOL: usize = 51;
/// Until those in line have waited for longer than half of the ttl.
const REST: Duration = Duration::from_millis(1100);
const PAUSE: Duration = Duration::from_millis(8);
const FLUSHES: usize = 50;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("kill");
    let mut raw = options.raw();
    let (mut times, mut floor) = (Vec::new(), Vec::new());
    for pool in 0.. {
        let name = format!("kill {pool}");
        let election = onlooker(&server, &name).await;
        let count = POOL.min(options.runs - times.len() + 1);
        let mut line = Line::new(Said::ours);
        for _ in 0..count {
            line.add_ours(server.socket(), &name, TTL);
        }
        let (mut leader, _) = line.leads();
        until_in_line(&election, count - 1).await;
        tokio::time::sleep(REST).await;
        raw.run(FLUSHES, &mut floor);
        for _ in 1..count {
            let killed = line.signal(leader, Signal::KILL);
            let (next, at) = line.leads();
            times.push(between(killed, at));
            line.remove(leader);
            leader = next;
            tokio::time::sleep(PAUSE).await;
        }
        if times.len() >= options.runs {
            break;
        }
    }
    let flush = flushes(report, &mut floor);
    let (target, max) = ("10 ms + a flush", Duration::from_millis(10) + flush);
    check(report, "kill -9 of the leader, the Unix socket", &mut times, target, max);
}
