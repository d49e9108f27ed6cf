//! What a queue's features cost, and what fairness is worth.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bellwether::message::Message;
use bellwether::{Bellwether, Queue, QueueSettings};

use super::{BODY_BYTES, Options};
use crate::local::{cycle_of, round};
use crate::report::{Report, median, percentile, rate};

const CALLERS: usize = 64;
/// Keys in the queue that has every feature, each with a message that waits.
const KEYS: u64 = 10_000;

/// Full cycles with priority, fairness keys, duplicate detection and time-to-live all on, next to
/// cycles without any, in queues of the same depth.
pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("features", &[]);
    let bw = server.connect().await;
    let plain = filled(&bw, "plain", QueueSettings::default(), |_| body()).await;
    let settings = QueueSettings {
        duplicate_window_ms: Some(10 * 60 * 1000),
        ttl_ms: Some(60 * 60 * 1000),
        ..QueueSettings::default()
    };
    let number = Arc::new(AtomicU64::new(0));
    let rich = filled(&bw, "rich", settings, featured).await;
    let (mut ratios, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.pairs {
        let base = round(CALLERS, |until| repeat(plain.clone(), until, body)).await;
        let number = Arc::clone(&number);
        let all = round(CALLERS, |until| {
            let number = Arc::clone(&number);
            repeat(rich.clone(), until, move || {
                featured(KEYS + number.fetch_add(1, Ordering::Relaxed))
            })
        })
        .await;
        ratios.push(all / base);
        with.push(all);
        without.push(base);
    }
    let what = "full cycles, 64 callers, 10 000 waiting";
    let (all, base, ratio) = (median(&mut with), median(&mut without), median(&mut ratios));
    report.figure(what, rate(base), base);
    let what = format!("{what}, priority, {KEYS} keys, duplicates, ttl");
    report.figure(&what, rate(all), all);
    let what = "all features, to none";
    report.check(what, format!("{ratio:.2}"), ratio, ">= 0.85", ratio >= 0.85);
    bw.close().await;
}

fn body() -> Message {
    Message::new(vec![0x42u8; BODY_BYTES])
}

fn featured(number: u64) -> Message {
    let key = format!("tenant-{}", number % KEYS);
    body().id(format!("order-{number}")).priority((number % 10) as u8).key(key)
}

async fn filled(
    bw: &Bellwether,
    name: &str,
    settings: QueueSettings,
    message: impl Fn(u64) -> Message,
) -> Queue {
    let queue = bw.create_queue(name, settings).await.expect("a queue");
    for first in (0..KEYS).step_by(500) {
        queue.send_batch((first..first + 500).map(&message)).await.expect("sent");
    }
    queue
}

async fn repeat(queue: Queue, until: Instant, message: impl Fn() -> Message) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        cycle_of(&queue, message()).await;
        done += 1;
    }
    done
}

const TENANTS: u64 = 100;
/// Of each tenant.
const SENDS_A_SECOND: u64 = 5;
const NOISE: u64 = 1_000;
const WORKERS: usize = 16;
/// What a message takes; so the workers are busy for two thirds of the time without the noise.
const WORK: Duration = Duration::from_millis(20);
const WATCHED: Duration = Duration::from_secs(10);

/// How long the messages of a hundred tenants wait, by themselves and beside one more that sends a
/// thousand times as much as each of them.
pub(super) async fn fairness(options: &Options, report: &mut Report) {
    let server = options.server("fairness", &[]);
    let bw = server.connect().await;
    let (mut calm, mut noisy) = (Vec::new(), Vec::new());
    for nth in 0..3 {
        for (is_noisy, waits) in [(false, &mut calm), (true, &mut noisy)] {
            let name = format!("{}-{nth}", if is_noisy { "noisy" } else { "calm" });
            waits.extend(waits_of(&bw, &name, is_noisy).await);
        }
    }
    let (calm, noisy) = (percentile(&mut calm, 0.99), percentile(&mut noisy, 0.99));
    let what = "wait of 100 tenants' messages, p99";
    report.figure(what, format!("{calm:.1?}"), calm.as_secs_f64());
    let what = format!("{what}, beside one with {NOISE} times the load");
    report.figure(&what, format!("{noisy:.1?}"), noisy.as_secs_f64());
    let ratio = noisy.as_secs_f64() / calm.as_secs_f64();
    let what = "p99 beside a noisy tenant, to p99 without";
    report.check(what, format!("{ratio:.2}"), ratio, "<= 2", ratio <= 2.0);
    bw.close().await;
}

async fn waits_of(bw: &Bellwether, name: &str, is_noisy: bool) -> Vec<Duration> {
    let queue = bw.create_queue(name, QueueSettings::default()).await.expect("a queue");
    let start = Instant::now();
    let mut senders = tokio::task::JoinSet::new();
    for tenant in 0..TENANTS {
        senders.spawn(tenant_sends(queue.clone(), start, tenant));
    }
    if is_noisy {
        senders.spawn(noise_sends(queue.clone(), start));
    }
    let workers: Vec<_> =
        (0..WORKERS).map(|_| tokio::spawn(worker(queue.clone(), start))).collect();
    senders.join_all().await;
    let mut waits = Vec::new();
    for worker in workers {
        waits.extend(worker.await.expect("a worker"));
    }
    assert!(waits.len() as u64 > TENANTS * SENDS_A_SECOND, "the workers saw messages");
    queue.delete().await.expect("deleted");
    waits
}

/// When it was sent is its body; empty if nobody asks how long it waited.
async fn tenant_sends(queue: Queue, start: Instant, tenant: u64) {
    let apart = Duration::from_secs(1) / SENDS_A_SECOND as u32;
    let first = apart * tenant as u32 / TENANTS as u32;
    for nth in 0.. {
        let due = first + apart * nth;
        if due >= WATCHED {
            return;
        }
        tokio::time::sleep_until((start + due).into()).await;
        let sent = start.elapsed().as_micros() as u64;
        let message = Message::new(sent.to_le_bytes().to_vec()).key(format!("tenant-{tenant}"));
        queue.send(message).await.expect("sent");
    }
}

async fn noise_sends(queue: Queue, start: Instant) {
    const BATCH: u64 = 50;
    let apart = Duration::from_secs(BATCH) / (SENDS_A_SECOND * NOISE) as u32;
    for nth in 0.. {
        let due = apart * nth;
        if due >= WATCHED {
            return;
        }
        tokio::time::sleep_until((start + due).into()).await;
        let noise = (0..BATCH).map(|_| Message::new(Vec::new()).key("noise"));
        queue.send_batch(noise).await.expect("sent");
    }
}

async fn worker(queue: Queue, start: Instant) -> Vec<Duration> {
    let mut waits = Vec::new();
    while start.elapsed() < WATCHED {
        let wait = Duration::from_millis(200);
        let Some(delivery) = queue.receive().wait(wait).one().await.expect("received") else {
            continue;
        };
        if let Ok(sent) = <[u8; 8]>::try_from(&delivery.body()[..]) {
            waits.push(start.elapsed() - Duration::from_micros(u64::from_le_bytes(sent)));
        }
        tokio::time::sleep(WORK).await;
        delivery.complete().await.expect("completed");
    }
    waits
}
