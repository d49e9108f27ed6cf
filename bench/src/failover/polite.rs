//! A leader that steps down: stop, release, and the next one is told.

use std::time::Duration;

use super::line::{Line, Said};
use super::{Options, check, flushes, onlooker, until_in_line};
use crate::report::Report;

const TTL: Duration = Duration::from_millis(500);
/// So many, with such a pause between two hand-overs: whoever is next has waited for longer than half
/// of the ttl.
const CANDIDATES: usize = 12;
const PAUSE: Duration = Duration::from_millis(25);
const FLUSHES: usize = 2;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("polite");
    let mut raw = options.raw();
    for (way, address) in [("the Unix socket", server.socket()), ("TCP", server.wire())] {
        let election = onlooker(&server, way).await;
        let mut line = Line::new(Said::ours);
        for _ in 0..CANDIDATES {
            line.add_ours(address, way, TTL);
        }
        let (mut leader, _) = line.leads();
        until_in_line(&election, CANDIDATES - 1).await;
        let (mut times, mut floor) = (Vec::new(), Vec::new());
        while times.len() < options.runs {
            raw.run(FLUSHES, &mut floor);
            tokio::time::sleep(PAUSE).await;
            line.tell(leader, "release");
            let (time, next) = line.passes();
            times.push(time);
            leader = next;
        }
        let flush = flushes(report, &mut floor);
        let what = format!("polite hand-over, {way}");
        check(report, &what, &mut times, "2 flushes + 2 ms", 2 * flush + Duration::from_millis(2));
    }
}
