//! A leader whose work shows no progress: it is cancelled when its limit is over, ends, and is
//! followed.

use std::time::Duration;

use super::line::{Line, Said};
use super::{Options, check, flushes, onlooker, until_in_line};
use crate::report::Report;

const TTL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_millis(300);
const CANDIDATES: usize = 3;
const FLUSHES: usize = 20;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("stalled");
    let mut raw = options.raw();
    let election = onlooker(&server, "stalled").await;
    let mut line = Line::new(Said::ours);
    for _ in 0..CANDIDATES {
        line.add_stalling(server.socket(), "stalled", TTL, LIMIT);
    }
    let (mut leader, _) = line.leads();
    let (mut times, mut floor) = (Vec::new(), Vec::new());
    while times.len() < options.slow_runs {
        until_in_line(&election, CANDIDATES - 1).await;
        raw.run(FLUSHES, &mut floor);
        line.tell(leader, "stall");
        let (time, next) = line.passes();
        times.push(time);
        leader = next;
    }
    flushes(report, &mut floor);
    let what = "stalled work, from the end of its limit";
    check(report, what, &mut times, "10 ms", Duration::from_millis(10));
}
