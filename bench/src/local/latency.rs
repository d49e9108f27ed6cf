//! One caller, one message at a time, next to the raw flush of the same size.

use std::time::Instant;

use bellwether::{Bellwether, QueueSettings};

use super::{Options, address, fresh};
use crate::raw::Raw;
use crate::report::{Report, median, percentile};

/// A frame around one message: header, changes, checksum.
const FRAME_BYTES: usize = 64;
const PER_PAIR: usize = 300;

pub(super) async fn run(options: &Options, report: &mut Report) {
    for body_bytes in [256, 1024] {
        let folder = fresh(options, "latency");
        let mut raw = Raw::new(&folder, body_bytes + FRAME_BYTES);
        let bw = Bellwether::open(address(&folder.join("store"))).await.expect("a store");
        let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
        let body = vec![0x42u8; body_bytes];
        let (mut ratios, mut raws, mut sends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.pairs {
            let mut floor = Vec::new();
            raw.run(PER_PAIR, &mut floor);
            let mut ours = Vec::new();
            for _ in 0..PER_PAIR {
                let start = Instant::now();
                queue.send(body.clone()).await.expect("sent");
                ours.push(start.elapsed());
            }
            let p50 = |times: &mut Vec<_>| percentile(times, 0.5).as_secs_f64();
            ratios.push(p50(&mut ours) / p50(&mut floor));
            raws.extend(floor);
            sends.extend(ours);
        }
        let ratio = median(&mut ratios);
        let show = |times: &mut [_]| {
            format!("p50 {:?}, p99 {:?}", percentile(times, 0.5), percentile(times, 0.99))
        };
        let what = format!("raw overwrite + fdatasync, {body_bytes} B");
        report.figure(&what, show(&mut raws), percentile(&mut raws, 0.5).as_micros() as u64);
        let what = format!("send, one caller, {body_bytes} B");
        report.figure(&what, show(&mut sends), percentile(&mut sends, 0.5).as_micros() as u64);
        let what = format!("send p50 / raw p50, {body_bytes} B");
        report.check(&what, format!("{ratio:.2}"), ratio, "<= 1.3", ratio <= 1.3);
        bw.close().await;
    }
}
