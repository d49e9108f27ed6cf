//! Processes that `local` starts, kills and measures.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use bellwether::{Bellwether, QueueSettings};

use crate::machine;

/// Fills a store, says so, and works on it until somebody kills this process.
pub(crate) async fn load(folder: &Path, waiting: u64) {
    let bw = Bellwether::open(format!("file:{}", folder.display())).await.expect("a store");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    let body = vec![0x42u8; 256];
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (queue, body) = (queue.clone(), body.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..waiting / 4 / 500 {
                queue.send_batch((0..500).map(|_| body.clone())).await.expect("sent");
            }
        }));
    }
    for task in tasks {
        task.await.expect("filled");
    }
    println!("filled");
    std::io::stdout().flush().expect("a parent that listens");
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (queue, body) = (queue.clone(), body.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                queue.send_batch((0..8).map(|_| body.clone())).await.expect("sent");
                let wait = Duration::from_secs(1);
                for delivery in queue.receive().max(8).wait(wait).many().await.expect("received") {
                    delivery.complete().await.expect("completed");
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("for ever");
    }
}

/// Opens a store and prints how long it took, what it holds and what memory that needs.
pub(crate) async fn open(folder: &Path) {
    let before = machine::resident_bytes();
    let start = Instant::now();
    let bw = Bellwether::open(format!("file:{}", folder.display())).await.expect("a store");
    let took = start.elapsed();
    let after = machine::resident_bytes();
    let queue = bw.queue("bench").expect("a name");
    let counts = queue.info().await.expect("the queue").counts;
    println!("{} {} {}", took.as_micros(), counts.ready + counts.locked, after - before);
    bw.close().await;
}
