//! One caller, one call at a time, beside the raw flush and the bare loopback.

use std::time::Instant;

use super::echo::Echo;
use super::{BODY_BYTES, FRAME_BYTES, Options};
use crate::raw::Raw;
use crate::report::{Report, median, p50_us, percentile, spread};

const PER_PAIR: usize = 300;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let (server, echo) = (options.server("latency", &[]), Echo::start());
    let (bw, queue) = server.queue().await;
    let mut raw = Raw::new(&options.folder, BODY_BYTES + FRAME_BYTES);
    let body = vec![0x42u8; BODY_BYTES];
    let (mut over, mut raws, mut trips, mut sends, mut looks) =
        (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..options.pairs {
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        raw.run(PER_PAIR, &mut floor);
        echo.round_trips(PER_PAIR, &mut trips);
        for _ in 0..PER_PAIR {
            let start = Instant::now();
            queue.send(body.clone()).await.expect("sent");
            ours.push(start.elapsed());
            let start = Instant::now();
            queue.info().await.expect("shown");
            looks.push(start.elapsed());
        }
        let p50 = |times: &mut Vec<_>| percentile(times, 0.5).as_secs_f64();
        over.push((p50(&mut ours) - p50(&mut floor)) * 1e6);
        raws.extend(floor);
        sends.extend(ours);
    }
    report.figure("raw overwrite + fdatasync", spread(&mut raws), p50_us(&mut raws));
    report.figure("loopback round trip", spread(&mut trips), p50_us(&mut trips));
    report.figure("a look at a queue, over the wire", spread(&mut looks), p50_us(&mut looks));
    report.figure("send, one caller, over the wire", spread(&mut sends), p50_us(&mut sends));
    let over = median(&mut over);
    report.check(
        "send p50 beyond raw p50",
        format!("{over:.0} us"),
        over,
        "<= 150 us",
        over <= 150.0,
    );
    bw.close().await;
}
