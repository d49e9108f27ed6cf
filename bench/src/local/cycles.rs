//! Full cycles: send, receive, complete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether::core::command::{Command, Disposition, Request, Settlement};
use bellwether::core::name::{LockToken, QueuePath, RequestNumber};
use bellwether::{Bellwether, Message, Queue, QueueSettings};
use bytes::Bytes;

use super::{Options, address, fresh};
use crate::report::{Report, median, rate};
use crate::sqlite::Sqlite;

const ROUND: Duration = Duration::from_secs(2);
pub(super) const BATCH: usize = 64;
/// A message is there for each receive; longer waits are faults.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn against_sqlite(options: &Options, report: &mut Report) {
    for (callers, target) in [(64, 2.0), (512, 2.5)] {
        for body_bytes in [256, 1024] {
            let folder = fresh(options, "cycles");
            let bw = Bellwether::open(address(&folder)).await.expect("a store");
            let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
            let sqlite = Arc::new(Sqlite::open(&folder));
            let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..options.pairs {
                let our = round(callers, |until| cycles(queue.clone(), body_bytes, until)).await;
                let their = round(callers, |until| {
                    let sqlite = Arc::clone(&sqlite);
                    async move {
                        let (body, mut done) = (vec![0x42u8; body_bytes], 0);
                        while Instant::now() < until {
                            sqlite.cycle(&body).await;
                            done += 1;
                        }
                        done
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

/// Sends, receives and completes one message after the other; how many.
pub(crate) async fn cycles(queue: Queue, body_bytes: usize, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        cycle(&queue, body_bytes).await;
        done += 1;
    }
    done
}

/// Sends, receives and completes one message.
pub(crate) async fn cycle(queue: &Queue, body_bytes: usize) {
    cycle_of(queue, vec![0x42u8; body_bytes].into()).await;
}

/// The same with this message, or with another one that waits.
pub(crate) async fn cycle_of(queue: &Queue, message: Message) {
    queue.send(message).await.expect("sent");
    let delivery = queue.receive().wait(PATIENCE).one().await.expect("received");
    delivery.expect("there is one for each sender").complete().await.expect("completed");
}

/// Runs `callers` tasks for a round, each of which says how much it did; how much a second.
pub(crate) async fn round<F: Future<Output = u64> + Send + 'static>(
    callers: usize,
    caller: impl Fn(Instant) -> F,
) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(caller(start + ROUND))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a caller");
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// Sends batches; how many messages.
pub(super) async fn send_batches(queue: Queue, body: Bytes, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        queue.send_batch((0..BATCH).map(|_| body.clone())).await.expect("sent");
        done += BATCH as u64;
    }
    done
}

/// Takes batches through their whole life; how many messages.
pub(crate) async fn cycle_batches(
    bw: Bellwether,
    queue: Queue,
    body: Bytes,
    until: Instant,
) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        done += cycle_batch(&bw, &queue, &body).await;
    }
    done
}

/// One batch through its whole life, each step one command; how many messages.
pub(super) async fn cycle_batch(bw: &Bellwether, queue: &Queue, body: &Bytes) -> u64 {
    queue.send_batch((0..BATCH).map(|_| body.clone())).await.expect("sent");
    let receive = queue.receive().max(BATCH as u32).wait(PATIENCE);
    let deliveries = receive.many().await.expect("received");
    let tokens: Vec<LockToken> = deliveries.into_iter().map(|delivery| delivery.keep()).collect();
    let done = tokens.len() as u64;
    complete_batch(bw, queue, tokens).await;
    done
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
        fence: None,
    };
    bw.call(request, Vec::new()).await.expect("completed");
}

pub(super) async fn batches(options: &Options, report: &mut Report) {
    let folder = fresh(options, "batches");
    let bw = Bellwether::open(address(&folder)).await.expect("a store");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    let body = Bytes::from(vec![0x42u8; 256]);
    let cycle_round = |callers| {
        round(callers, |until| cycle_batches(bw.clone(), queue.clone(), body.clone(), until))
    };

    // The first round makes the units that the later ones write over.
    let first = cycle_round(16).await;
    report.figure("full cycles, batches of 64, the first two seconds", rate(first), first);
    let mut rates = Vec::new();
    for _ in 0..options.pairs {
        rates.push(cycle_round(16).await);
    }
    let cycles = median(&mut rates);
    let what = "full cycles, batches of 64, 16 callers, 256 B";
    report.check(what, rate(cycles), cycles, ">= 150 000/s", cycles >= 150_000.0);

    let mut rates = Vec::new();
    for _ in 0..options.pairs {
        let sends = |until| send_batches(queue.clone(), body.clone(), until);
        rates.push(round(8, sends).await);
        // Emptied again, so that the next round finds units to write over.
        queue.purge(None).await.expect("purged");
        cycle_round(4).await;
    }
    let sent = median(&mut rates);
    let what = "sends, batches of 64, 8 callers, 256 B";
    report.check(what, rate(sent), sent, ">= 400 000/s", sent >= 400_000.0);
    bw.close().await;
}
