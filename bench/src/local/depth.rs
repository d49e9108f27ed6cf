//! The same rates with nothing, a million and many millions of messages waiting; what each costs.

use std::time::Instant;

use bellwether::{Bellwether, QueueSettings};

use super::cycles::{cycle_batches, round, send_batches};
use super::{Options, address, fresh};
use crate::machine::resident_bytes;
use crate::report::{Report, median, rate};

pub(super) async fn run(options: &Options, report: &mut Report) {
    let body = bytes::Bytes::from(vec![0x42u8; 256]);
    let mut base: Option<(f64, f64)> = None;
    for waiting in [0, 1_000_000, options.deep] {
        let folder = fresh(options, "depth");
        let bw = Bellwether::open(address(&folder)).await.expect("a store");
        let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
        let before = resident_bytes();
        let start = Instant::now();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (queue, body) = (queue.clone(), body.clone());
                tokio::spawn(async move {
                    for _ in 0..waiting / 4 / 500 {
                        let batch = (0..500).map(|_| body.clone());
                        queue.send_batch(batch).await.expect("sent");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("filled");
        }
        if waiting > 0 {
            let filled = waiting as f64 / start.elapsed().as_secs_f64();
            let what = format!("first fill to {waiting} waiting, batches of 500");
            report.figure(&what, rate(filled), filled);
            let each = (resident_bytes() - before) as f64 / waiting as f64;
            let what = format!("resident memory per waiting message, {waiting}");
            // The bounded body cache is part of it.
            report.check(&what, format!("{each:.0} B"), each, "<= 160 B", each <= 160.0);
        }
        let (mut cycles, mut sends) = (Vec::new(), Vec::new());
        for _ in 0..options.pairs.div_ceil(2) {
            let caller = |until| cycle_batches(bw.clone(), queue.clone(), body.clone(), until);
            cycles.push(round(16, caller).await);
        }
        for _ in 0..options.pairs.div_ceil(2) {
            let caller = |until| send_batches(queue.clone(), body.clone(), until);
            sends.push(round(8, caller).await);
        }
        let (cycles, sends) = (median(&mut cycles), median(&mut sends));
        let what = format!("full cycles, batches of 64, {waiting} waiting");
        report.figure(&what, rate(cycles), cycles);
        let what = format!("sends, batches of 64, {waiting} waiting");
        report.figure(&what, rate(sends), sends);
        match base {
            None => base = Some((cycles, sends)),
            Some((base_cycles, _)) => {
                let ratio = cycles / base_cycles;
                let what = format!("cycles at {waiting} waiting, to an empty queue");
                let met = ratio >= 0.85;
                report.check(&what, format!("{ratio:.2}"), ratio, ">= 0.85", met);
            }
        }
        bw.close().await;
    }
}
