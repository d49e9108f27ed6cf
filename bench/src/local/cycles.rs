//! Full cycles: send, receive, complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bellwether::core::command::{Command, Disposition, Request, Settlement};
use bellwether::core::name::{LockToken, QueuePath, RequestNumber};
use bellwether::{Bellwether, Queue, QueueSettings};

use super::{Options, address, fresh};
use crate::report::{Report, median, rate};
use crate::sqlite::Sqlite;

const ROUND: Duration = Duration::from_secs(2);
pub(super) const BATCH: usize = 64;

pub(super) async fn against_sqlite(options: &Options, report: &mut Report) {
    for (callers, target) in [(64, 2.0), (512, 2.5)] {
        for body_bytes in [256, 1024] {
            let folder = fresh(options, "cycles");
            let bw = Bellwether::open(address(&folder)).await.expect("a store");
            let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
            let sqlite = Arc::new(Sqlite::open(&folder));
            let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..options.pairs {
                let queue_of = queue.clone();
                let our = round(callers, move |count| {
                    let (queue, body) = (queue_of.clone(), vec![0x42u8; body_bytes]);
                    async move { cycle(&queue, body, &count).await }
                })
                .await;
                let sqlite_of = Arc::clone(&sqlite);
                let their = round(callers, move |count| {
                    let (sqlite, body) = (Arc::clone(&sqlite_of), vec![0x42u8; body_bytes]);
                    async move {
                        sqlite.cycle(&body).await;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .await;
                ratios.push(our / their);
                ours.push(our);
                theirs.push(their);
            }
            let what = format!("full cycles, {callers} callers, {body_bytes} B");
            let (our, their) = (median(&mut ours), median(&mut theirs));
            report.figure(&what, rate(our), our);
            report.figure(&format!("{what}, SQLite"), rate(their), their);
            let ratio = median(&mut ratios);
            let text = format!(">= {target}");
            let what = format!("{what}, to SQLite");
            report.check(&what, format!("{ratio:.2}"), ratio, &text, ratio >= target);
            bw.close().await;
        }
    }
}

async fn cycle(queue: &Queue, body: Vec<u8>, count: &AtomicU64) {
    queue.send(body).await.expect("sent");
    let wait = Duration::from_secs(10);
    let delivery = queue.receive().wait(wait).one().await.expect("received");
    delivery.expect("there is one for each sender").complete().await.expect("completed");
    count.fetch_add(1, Ordering::Relaxed);
}

/// Runs `callers` tasks that repeat `step` for a round; steps per second.
pub(super) async fn round<F: Future<Output = ()> + Send + 'static>(
    callers: usize,
    step: impl Fn(Arc<AtomicU64>) -> F + Clone + Send + Sync + 'static,
) -> f64 {
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (step, count) = (step.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                while start.elapsed() < ROUND {
                    step(Arc::clone(&count)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller");
    }
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

pub(super) async fn send_batch(queue: &Queue, body: bytes::Bytes, count: &AtomicU64) {
    queue.send_batch((0..BATCH).map(|_| body.clone())).await.expect("sent");
    count.fetch_add(BATCH as u64, Ordering::Relaxed);
}

/// One batch through its whole life, each step one command.
pub(super) async fn cycle_batch(bw: &Bellwether, queue: &Queue, body: bytes::Bytes, count: &AtomicU64) {
    queue.send_batch((0..BATCH).map(|_| body.clone())).await.expect("sent");
    let wait = Duration::from_secs(10);
    let deliveries =
        queue.receive().max(BATCH as u32).wait(wait).many().await.expect("received");
    let tokens: Vec<LockToken> = deliveries.into_iter().map(|delivery| delivery.keep()).collect();
    count.fetch_add(tokens.len() as u64, Ordering::Relaxed);
    complete_batch(bw, queue, tokens).await;
}

async fn complete_batch(bw: &Bellwether, queue: &Queue, tokens: Vec<LockToken>) {
    let settlements = tokens
        .into_iter()
        .map(|token| Settlement { token, disposition: Disposition::Complete, overlay: None })
        .collect();
    let request = Request {
        member: bw.slot(),
        number: RequestNumber(0),
        answered_below: RequestNumber(0),
        command: Command::Settle { from: QueuePath::main(queue.name().clone()), settlements },
    };
    bw.call(request, Vec::new()).await.expect("completed");
}

pub(super) async fn batches(options: &Options, report: &mut Report) {
    let folder = fresh(options, "batches");
    let bw = Bellwether::open(address(&folder)).await.expect("a store");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    let body = bytes::Bytes::from(vec![0x42u8; 256]);

    let cycles = {
        // The first round makes the units that the later ones write over.
        let mut rates = Vec::new();
        for _ in 0..=options.pairs {
            let (bw, queue, body) = (bw.clone(), queue.clone(), body.clone());
            let cycles = round(16, move |count| {
                let (bw, queue, body) = (bw.clone(), queue.clone(), body.clone());
                async move { cycle_batch(&bw, &queue, body, &count).await }
            });
            rates.push(cycles.await);
        }
        median(&mut rates[1..])
    };
    let what = "full cycles, batches of 64, 16 callers, 256 B";
    report.check(what, rate(cycles), cycles, ">= 150 000/s", cycles >= 150_000.0);

    let mut rates = Vec::new();
    for _ in 0..options.pairs {
        let (queue_of_round, body) = (queue.clone(), body.clone());
        let sent = round(8, move |count| {
            let (queue, body) = (queue_of_round.clone(), body.clone());
            async move { send_batch(&queue, body, &count).await }
        });
        rates.push(sent.await);
        // Emptied again, so that the next round finds units to write over.
        queue.purge(None).await.expect("purged");
        let (bw_of_round, queue_of_round) = (bw.clone(), queue.clone());
        round(4, move |count| {
            let (bw, queue) = (bw_of_round.clone(), queue_of_round.clone());
            let body = bytes::Bytes::from_static(&[0x42; 256]);
            async move { cycle_batch(&bw, &queue, body, &count).await }
        })
        .await;
    }
    let sent = median(&mut rates);
    let what = "sends, batches of 64, 8 callers, 256 B";
    report.check(what, rate(sent), sent, ">= 400 000/s", sent >= 400_000.0);
    bw.close().await;
}
