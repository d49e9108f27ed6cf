//! Load levelling: a burst a hundred times faster than a consumer, a queue that takes it at once, and as
//! many consumers as it takes to work it off; then one again.
//!
//! Every tenth of a second a line is drawn: how many messages wait, how many pumps there are, and how
//! long the messages handled since had waited. Below stand the scaler's decisions with their reasons.
//!
//! `cargo run -p examples --bin levelling`
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether::pump::Failure;
use bellwether::scaler::Policy;
use bellwether::{Bellwether, QueueSettings, Stopwatch, Work};
use tokio_util::sync::CancellationToken;

/// One consumer handles a hundred messages a second; ten thousand a second come in.
const HANDLING: Duration = Duration::from_millis(10);
const BURST: u64 = 1000;
const BATCH: u64 = 100;
const BATCH_EVERY: Duration = Duration::from_millis(10);
/// The widest bar.
const WIDTH: u64 = 50;

/// What handlers tell: how many messages, and how long all of them together had waited.
#[derive(Default)]
struct Handled {
    messages: AtomicU64,
    waited_ms: AtomicU64,
}

fn ms(watch: Stopwatch) -> u64 {
    u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bw = Bellwether::open("memory:").await?;
    let orders = bw.create_queue("orders", QueueSettings::default()).await?;
    let watch = Stopwatch::start();

    // The consumers: one if there is little to do, eight at most, fifty messages to each. What is a
    // minute elsewhere is a moment here.
    let policy = Policy {
        min: 1,
        max: 8,
        per_worker: Some(50),
        out_pause_ms: 100,
        in_pause_ms: 500,
        window_ms: 500,
        ..Policy::default()
    };
    let pumps = orders.pump().scaled(policy).every(Duration::from_millis(50));
    let (seen, shutdown) = (pumps.handle(), CancellationToken::new());
    let handled = Arc::new(Handled::default());
    let handler = {
        let handled = Arc::clone(&handled);
        move |order: Work| {
            let handled = Arc::clone(&handled);
            async move {
                let sent_at: u64 = order.text().ok_or("not a text")?.parse()?;
                handled.waited_ms.fetch_add(ms(watch).saturating_sub(sent_at), Ordering::Relaxed);
                handled.messages.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(HANDLING).await;
                Ok::<(), Failure>(())
            }
        }
    };
    let running = tokio::spawn(pumps.run(handler, shutdown.clone()));

    // The producer does not wait for anybody.
    let producer = {
        let orders = orders.clone();
        tokio::spawn(async move {
            for _ in 0..BURST / BATCH {
                orders.send_batch((0..BATCH).map(|_| ms(watch).to_string())).await?;
                tokio::time::sleep(BATCH_EVERY).await;
            }
            Ok::<(), bellwether::Error>(())
        })
    };

    println!("{:>6}  {:>5}  {:>5}  {:>9}  waiting", "time", "wait", "pumps", "latency");
    let (mut most, mut told) = (0, (0, 0));
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (load, pumps) = (orders.load().await?, seen.pumps());
        most = most.max(pumps);
        let now =
            (handled.messages.load(Ordering::Relaxed), handled.waited_ms.load(Ordering::Relaxed));
        let (messages, waited_ms) = (now.0 - told.0, now.1 - told.1);
        told = now;
        let latency = waited_ms.checked_div(messages).map_or("-".into(), |ms| format!("{ms} ms"));
        let bar = "#".repeat((load.counts.ready * WIDTH).div_ceil(BURST) as usize);
        let tenths = ms(watch) / 100;
        let time = format!("{}.{} s", tenths / 10, tenths % 10);
        println!("{time:>6}  {:>5}  {pumps:>5}  {latency:>9}  {bar}", load.counts.ready);
        if load.totals.completed == BURST && pumps == 1 && most > 1 {
            break;
        }
    }
    producer.await??;
    shutdown.cancel();
    running.await??;

    println!();
    for decision in seen.decisions() {
        println!("{decision}");
    }
    let info = orders.info().await?;
    println!();
    println!("{} sent in a burst, {} completed", info.totals.sent, info.totals.completed);
    println!("{most} pumps at most, 1 in the end");
    assert_eq!((info.totals.sent, info.totals.completed), (BURST, BURST), "nothing is lost");
    assert_eq!(info.counts.dead_letters, 0, "nothing failed");
    bw.close().await;
    Ok(())
}
