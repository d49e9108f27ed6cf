//! What a store tells of itself.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use bellwether::core::name::QueueId;
use bellwether::{Bellwether, Error, Health, QueueSettings};

#[tokio::test]
async fn flushes_and_those_who_shared_them_are_counted() {
    let dir = std::env::temp_dir().join(format!("bellwether-stats-{}", std::process::id()));
    let bw = Bellwether::open(format!("file:{}", dir.display())).await.unwrap();
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    for _ in 0..10 {
        queue.send("two coffees").await.unwrap();
    }
    let stats = bw.stats().unwrap();
    assert!(matches!(stats.health, Health::Sound), "{:?}", stats.health);
    assert_eq!(stats.members, 1);
    assert!(stats.flush_us.count >= 10, "one caller after the other: {:?}", stats.flush_us);
    // Joined, created, and ten were sent.
    assert_eq!(stats.batch.sum, 12, "everybody waited for one flush each");

    let orders = bw.queue_stats(QueueId(0), 10).unwrap().remove(0);
    assert_eq!((orders.counts.ready, orders.totals.sent), (10, 10));
    bw.close().await;
    assert!(matches!(bw.stats(), Err(Error::Closed)));
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn looking_while_others_work_holds_nobody_up() {
    let bw = Bellwether::open("memory:").await.unwrap();
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    let watching = bw.clone();
    let watcher = tokio::task::spawn_blocking(move || {
        while watching.queue_stats(QueueId(0), 1).unwrap()[0].totals.sent < 1000 {
            assert!(watching.lease_stats(None, 10).unwrap().is_empty());
        }
    });
    for _ in 0..1000 {
        queue.send("two coffees").await.unwrap();
    }
    watcher.await.unwrap();
}
