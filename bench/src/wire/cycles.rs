//! Full cycles over the wire: 64 callers on one connection, next to Redis Streams in the same run;
//! and in batches.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::redis::Redis;
use super::{BODY_BYTES, Options};
use crate::local::{cycle_batches, cycles, round};
use crate::report::{Report, median, rate};
use crate::server::fresh;

pub(super) async fn against_redis(options: &Options, report: &mut Report) {
    const CALLERS: usize = 64;
    let server = options.server("cycles", &[]);
    let (bw, queue) = server.queue().await;
    for (fsync, target) in [("always", 2.5), ("everysec", 1.3)] {
        let redis = Redis::start(&fresh(&options.folder, "redis"), fsync).await;
        let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.pairs {
            let our = round(CALLERS, |until| cycles(queue.clone(), BODY_BYTES, until)).await;
            let their = round(CALLERS, |until| redis.clone().cycles(BODY_BYTES, until)).await;
            ratios.push(our / their);
            ours.push(our);
            theirs.push(their);
        }
        let what = "full cycles, 64 callers on one connection";
        let (our, their) = (median(&mut ours), median(&mut theirs));
        report.figure(what, rate(our), our);
        report.figure(&format!("{what}, Redis, appendfsync {fsync}"), rate(their), their);
        let (ratio, text) = (median(&mut ratios), format!(">= {target}"));
        let what = format!("{what}, to Redis {fsync}");
        report.check(&what, format!("{ratio:.2}"), ratio, &text, ratio >= target);
    }
    bw.close().await;
}

pub(super) async fn batches(options: &Options, report: &mut Report) {
    const CONNECTIONS: usize = 8;
    let server = options.server("batches", &[]);
    let (bw, _) = server.queue().await;
    let mut handles = vec![bw];
    for _ in 1..CONNECTIONS {
        handles.push(server.connect().await);
    }
    let body = Bytes::from(vec![0x42u8; BODY_BYTES]);
    let mut rates = Vec::new();
    for _ in 0..options.pairs {
        let next = AtomicUsize::new(0);
        let caller = |until| {
            let bw = handles[next.fetch_add(1, Ordering::Relaxed)].clone();
            let queue = bw.queue("bench").expect("a name");
            cycle_batches(bw, queue, body.clone(), until)
        };
        rates.push(round(CONNECTIONS, caller).await);
    }
    let cycles = median(&mut rates);
    report.figure("full cycles, 8 connections, batches of 64", rate(cycles), cycles);
    for bw in handles {
        bw.close().await;
    }
}
