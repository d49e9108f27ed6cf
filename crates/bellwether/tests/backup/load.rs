//! A backup while many send and settle.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::{Queue, QueueSettings, SequenceNumber};

use super::folder::Folder;

/// What is known of every message, by the number in it.
#[derive(Default)]
struct Facts {
    asked: Mutex<BTreeSet<u64>>,
    acknowledged: Mutex<BTreeSet<u64>>,
    completing: Mutex<BTreeSet<u64>>,
    completed: Mutex<BTreeSet<u64>>,
    next: AtomicU64,
    stop: AtomicBool,
}

fn put(set: &Mutex<BTreeSet<u64>>, number: u64) {
    set.lock().unwrap().insert(number);
}

fn all(set: &Mutex<BTreeSet<u64>>) -> BTreeSet<u64> {
    set.lock().unwrap().clone()
}

/// So long that units roll over, and different for every message.
fn body(number: u64) -> String {
    format!("{number} {}", "x".repeat((number % 700) as usize))
}

fn number_of(text: &str) -> u64 {
    text.split(' ').next().unwrap().parse().unwrap()
}

async fn send(queue: Queue, facts: Arc<Facts>) {
    while !facts.stop.load(Ordering::Relaxed) {
        let number = facts.next.fetch_add(1, Ordering::Relaxed);
        put(&facts.asked, number);
        queue.send(body(number)).await.unwrap();
        put(&facts.acknowledged, number);
    }
}

async fn receive(queue: Queue, facts: Arc<Facts>) {
    while !facts.stop.load(Ordering::Relaxed) {
        let wait = Duration::from_millis(20);
        for delivery in queue.receive().max(5).wait(wait).many().await.unwrap() {
            let number = number_of(delivery.text().unwrap());
            if number.is_multiple_of(3) {
                delivery.defer().await.unwrap();
                continue;
            }
            put(&facts.completing, number);
            delivery.complete().await.unwrap();
            put(&facts.completed, number);
        }
    }
}

/// What is in the queue: numbers, with the bodies checked.
async fn held(queue: &Queue) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut from = SequenceNumber(0);
    loop {
        let page = queue.peek(from, 1000).await.unwrap();
        let Some(last) = page.last() else { return found };
        from = SequenceNumber(last.sequence().0 + 1);
        for message in &page {
            let text = message.message().unwrap().text().unwrap();
            let number = number_of(text);
            assert_eq!(text, body(number), "byte for byte what was sent");
            assert!(found.insert(number), "{number} is there twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_is_in_it_and_nothing_else_comes_back() {
    let folder = Folder::new();
    let store = folder.open("store").await;
    let queue = store.create_queue("load", QueueSettings::default()).await.unwrap();
    let facts = Arc::new(Facts::default());
    // Enough for many steps, in units that are old when the backup begins.
    for _ in 0..40 {
        let numbers: Vec<u64> =
            (0..100).map(|_| facts.next.fetch_add(1, Ordering::Relaxed)).collect();
        for number in &numbers {
            put(&facts.asked, *number);
        }
        queue.send_batch(numbers.iter().map(|number| body(*number))).await.unwrap();
        for number in &numbers {
            put(&facts.acknowledged, *number);
        }
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(send(queue.clone(), Arc::clone(&facts)));
        tasks.spawn(receive(queue.clone(), Arc::clone(&facts)));
    }
    for round in 0..3 {
        while all(&facts.completed).len() < (round + 1) * 300 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut tries = 0;
        let (acknowledged, completed, asked, completing, name, restored) = loop {
            let (acknowledged, completed) = (all(&facts.acknowledged), all(&facts.completed));
            let backup = folder.back_up(&store, &format!("{round}-{tries}.backup")).await;
            let (asked, completing) = (all(&facts.asked), all(&facts.completing));

            let name = format!("restored-{round}-{tries}");
            let restored = folder.restore(&backup, &name);
            // Only one during which the store went on shows anything.
            if restored.contents.end_frame > restored.contents.head.frame {
                break (acknowledged, completed, asked, completing, name, restored);
            }
            tries += 1;
        };
        let copy = folder.open(&name).await;
        let found = held(&copy.queue("load").unwrap()).await;
        assert_eq!(found.len() as u64, restored.contents.messages);
        let lost: Vec<_> =
            acknowledged.iter().filter(|n| !found.contains(n) && !completing.contains(n)).collect();
        assert!(lost.is_empty(), "acknowledged before the backup began: {lost:?}");
        assert!(found.is_subset(&asked), "nothing that was never sent");
        let back: Vec<_> = completed.intersection(&found).collect();
        assert!(back.is_empty(), "completed before the backup began: {back:?}");
        let info = copy.queue("load").unwrap().info().await.unwrap();
        let (counts, totals) = (info.counts, info.totals);
        let live = counts.ready + counts.locked + counts.deferred;
        assert_eq!(totals.sent, live + totals.completed, "D8");
        copy.close().await;
    }
    facts.stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    store.close().await;
}
