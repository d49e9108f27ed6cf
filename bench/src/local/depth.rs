//! The same rates with nothing, a million and many millions of messages waiting; what each costs.

use std::time::Instant;

use bellwether::{Bellwether, Queue, QueueSettings};
use bytes::Bytes;

use super::cycles::{cycle_batches, cycles, round, send_batches};
use super::{Options, address, fresh};
use crate::child::{FILL_BATCH, fill, this_program};
use crate::report::{Report, median, rate};

pub(super) async fn run(options: &Options, report: &mut Report) {
    let empty = Store::open(options, "empty").await;
    for waiting in [1_000_000, options.deep] {
        memory(options, report, waiting);
        let deep = Store::open(options, "deep").await;
        let filled = deep.fill(waiting).await;
        let what = format!("first fill to {waiting} waiting, batches of {FILL_BATCH}");
        report.figure(&what, rate(filled), filled);
        for (what, work) in [
            ("full cycles, batches of 64, 16 callers", Work::CycleBatches),
            ("full cycles, 64 callers", Work::Cycles),
            ("sends, batches of 64, 8 callers", Work::SendBatches),
        ] {
            compare(options, report, &empty, &deep, waiting, what, work).await;
        }
        deep.bw.close().await;
    }
    empty.bw.close().await;
}

/// What waiting messages take, in a process that has done nothing else: how much of its pages an
/// allocator keeps depends on what it was asked for before.
fn memory(options: &Options, report: &mut Report, waiting: u64) {
    let folder = fresh(options, "memory").display().to_string();
    let output = this_program(&["grow", &folder, &waiting.to_string()]).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let each = text.trim().parse::<f64>().expect("how much") / waiting as f64;
    let what = format!("resident memory per waiting message, {waiting}");
    // The bounded memory for contents is part of it.
    report.check(&what, format!("{each:.0} B"), each, "<= 160 B", each <= 160.0);
}

#[derive(Clone, Copy)]
enum Work {
    CycleBatches,
    Cycles,
    SendBatches,
}

/// The same work on both, by turns.
async fn compare(
    options: &Options,
    report: &mut Report,
    empty: &Store,
    deep: &Store,
    waiting: u64,
    what: &str,
    work: Work,
) {
    let (mut ratios, mut rates, mut bases) = (Vec::new(), Vec::new(), Vec::new());
    // The first pair makes the units that the later ones write over.
    for pair in 0..=options.pairs {
        let base = empty.round(work).await;
        let ours = deep.round(work).await;
        if pair > 0 {
            ratios.push(ours / base);
            rates.push(ours);
            bases.push(base);
        }
    }
    let (ours, base, ratio) = (median(&mut rates), median(&mut bases), median(&mut ratios));
    report.figure(&format!("{what}, empty queue"), rate(base), base);
    let what = format!("{what}, {waiting} waiting");
    report.figure(&what, rate(ours), ours);
    let what = format!("{what}, to empty");
    report.check(&what, format!("{ratio:.2}"), ratio, ">= 0.85", ratio >= 0.85);
}

struct Store {
    bw: Bellwether,
    queue: Queue,
    body: Bytes,
}

impl Store {
    async fn open(options: &Options, name: &str) -> Self {
        let folder = fresh(options, name);
        let bw = Bellwether::open(address(&folder)).await.expect("a store");
        let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
        Self { bw, queue, body: Bytes::from(vec![0x42u8; 256]) }
    }

    /// Messages a second.
    async fn fill(&self, waiting: u64) -> f64 {
        let start = Instant::now();
        fill(&self.queue, waiting).await;
        waiting as f64 / start.elapsed().as_secs_f64()
    }

    async fn round(&self, work: Work) -> f64 {
        let Self { bw, queue, body } = self;
        match work {
            Work::CycleBatches => {
                let caller = |until| cycle_batches(bw.clone(), queue.clone(), body.clone(), until);
                round(16, caller).await
            }
            Work::Cycles => round(64, |until| cycles(queue.clone(), body.len(), until)).await,
            Work::SendBatches => {
                let before = queue.info().await.expect("counters").counts.ready;
                let caller = |until| send_batches(queue.clone(), body.clone(), until);
                let rate = round(8, caller).await;
                self.take_back(before).await;
                rate
            }
        }
    }

    /// Takes out what a round of sends has put in, so that the next one finds the same depth.
    async fn take_back(&self, until: u64) {
        loop {
            let waiting = self.queue.info().await.expect("counters").counts.ready;
            if waiting <= until {
                return;
            }
            let max = (waiting - until).min(1000) as u32;
            self.queue.receive().max(max).and_delete().await.expect("received");
        }
    }
}
