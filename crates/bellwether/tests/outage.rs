//! The drill: what every handler needs is away for five seconds, and a message may be delivered three
//! times. Nothing becomes a dead letter, and afterwards everything is done. Once in real time.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bellwether::pump::Permanent;
use bellwether::{Bellwether, QueueSettings, Work};
use tokio_util::sync::CancellationToken;

const MESSAGES: u64 = 200;
const AWAY: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_seconds_without_a_dependency_dead_letter_nothing() {
    let bw = Bellwether::open("memory:").await.unwrap();
    let settings = QueueSettings { deliveries_max: 3, ..QueueSettings::default() };
    let queue = bw.create_queue("orders", settings).await.unwrap();
    queue.send_batch((0..MESSAGES).map(|n| format!("order {n}"))).await.unwrap();
    let is_away = Arc::new(AtomicBool::new(true));
    let failures = Arc::new(AtomicU64::new(0));
    let (away, failed) = (Arc::clone(&is_away), Arc::clone(&failures));
    let handler = move |_: Work| {
        let is_away = away.load(Ordering::SeqCst);
        failed.fetch_add(u64::from(is_away), Ordering::SeqCst);
        async move { if is_away { Err("nobody answers") } else { Ok(()) } }
    };
    let shutdown = CancellationToken::new();
    let pump = queue.pump().concurrency(4);
    let handle = pump.handle();
    let running = tokio::spawn(pump.run(handler, shutdown.clone()));
    tokio::time::sleep(AWAY).await;
    assert!(queue.outage().await.unwrap().is_some(), "the queue has seen it");
    is_away.store(false, Ordering::SeqCst);
    handle.wait_for(|counts| counts.completed == MESSAGES).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.dead_letters, info.totals.completed), (0, MESSAGES));
    assert_eq!(queue.outage().await.unwrap(), None);
    let failures = failures.load(Ordering::SeqCst);
    assert!((10..40).contains(&failures), "{failures} deliveries were for nothing");
}

#[derive(Debug)]
struct Wrapped(Permanent);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot handle it: {}", self.0)
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// CC-82: an error that will not go away makes a dead letter at once, with its words; also as the
/// cause of another error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_error_uses_up_no_tries() {
    let bw = Bellwether::open("memory:").await.unwrap();
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send_batch(["bare", "wrapped"]).await.unwrap();
    let handler = async |work: Work| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let error = "x".parse::<u32>().map_err(|error| Permanent::new("BadBody", error));
        if work.text() == Some("bare") {
            error?;
        }
        "x".parse::<u32>().map_err(|error| Wrapped(Permanent::new("BadBody", error)))?;
        Ok(())
    };
    let shutdown = CancellationToken::new();
    let pump = queue.pump();
    let handle = pump.handle();
    let running = tokio::spawn(pump.run(handler, shutdown.clone()));
    handle.wait_for(|counts| counts.dead_lettered == 2).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let dead = queue.dead_letters().receive().max(2).many().await.unwrap();
    let said: Vec<_> = dead.iter().map(|d| d.received().dead_letter_description()).collect();
    let why = "invalid digit found in string";
    let wrapped = format!("cannot handle it: {why}");
    assert_eq!(said, [Some(why), Some(wrapped.as_str())]);
    assert!(dead.iter().all(|d| d.received().dead_letter_reason() == Some("BadBody")));
    assert!(dead.iter().all(|d| d.received().view().message.standing.failures == 0));
}
