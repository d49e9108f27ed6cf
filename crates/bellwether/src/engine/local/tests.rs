//! What only threads can get wrong. Everything else is tested without them.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::name::{MemberSlot, RequestNumber};
use bellwether_core::settings::QueueSettings;

use super::Local;
use crate::clock::Clock;
use crate::engine::Call;
use crate::engine::shard::{Shard, ShardOptions};
use crate::error::Error;
use crate::handle::Bellwether;
use crate::journal::Journal;
use crate::journal::file::{Fault, FileJournal, FileOptions, SimDisk};
use crate::stats::Health;

/// Long enough for anything that ends at all.
const FOR_EVER: Duration = Duration::from_secs(60);

async fn open(disk: &SimDisk) -> Bellwether {
    Bellwether::join(Arc::new(start(disk)), Clock::System, String::new()).await.expect("a member")
}

fn start(disk: &SimDisk) -> Local {
    start_with(disk, 0)
}

fn start_with(disk: &SimDisk, free_bytes_min: u64) -> Local {
    let clock = Clock::System;
    let file = FileOptions {
        segment_bytes_max: 64 << 10,
        segment_bytes_first: 64 << 10,
        free_bytes_min,
        ..FileOptions::default()
    };
    let shard = Shard::open(clock.now(), &ShardOptions::default(), |replay| {
        let journal = FileJournal::open(Arc::new(disk.clone()), Path::new("/store"), file, replay)?;
        Ok(Box::new(journal) as Box<dyn Journal>)
    });
    Local::start(shard.expect("a store"), clock)
}

/// Uses up the disk and then the reserve, until a call waits for room.
async fn fill(disk: &SimDisk, bw: &Bellwether) {
    let queue = bw.create_queue("orders", QueueSettings::default()).await.expect("a queue");
    queue.send("a coffee").await.expect("sent");
    disk.set_capacity(Some(disk.used_bytes()));
    let send = async { while queue.send(vec![b'x'; 900]).await.is_ok() {} };
    // The last one may be accepted and wait for room.
    let _ = tokio::time::timeout(Duration::from_secs(2), send).await;
    let give_back = async {
        loop {
            let delivery = queue.receive().one().await?.expect("there are many");
            delivery.release().await?;
        }
    };
    // It waits for room, or was refused because another one does.
    match tokio::time::timeout(Duration::from_secs(2), give_back).await {
        Err(_) | Ok(Err(Error::Refused(Refusal::DiskFull))) => {}
        Ok(Err(other)) => panic!("{other}"),
        Ok(Ok(())) => unreachable!("it goes on until it fails"),
    }
}

/// D10, before the disk is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_space_refuses_senders_only_and_they_go_on_by_themselves() {
    const FREE_BYTES_MIN: u64 = 4 << 20;
    let disk = SimDisk::new();
    let local = Arc::new(start_with(&disk, FREE_BYTES_MIN));
    let bw = Bellwether::join(local, Clock::System, String::new()).await.expect("a member");
    let queue = bw.create_queue("orders", QueueSettings::default()).await.expect("a queue");
    queue.send_batch(vec!["a coffee"; 100]).await.expect("sent");
    // Somebody else fills the disk: that is noticed while something is written.
    disk.set_capacity(Some(disk.used_bytes() + FREE_BYTES_MIN / 2));
    let refused = async {
        loop {
            if let Err(error) = queue.send("one more").await {
                return error;
            }
        }
    };
    let refused = tokio::time::timeout(FOR_EVER, refused).await.expect("it is noticed");
    assert!(matches!(refused, Error::Refused(Refusal::DiskFull)), "{refused}");
    assert!(matches!(bw.stats().expect("open").health, Health::ShortOfSpace));
    for _ in 0..100 {
        let delivery = queue.receive().one().await.expect("received").expect("there are many");
        delivery.complete().await.expect("settled");
    }
    disk.set_capacity(None);
    let again = async { while queue.send("at last").await.is_err() {} };
    tokio::time::timeout(FOR_EVER, again).await.expect("it goes on by itself");
    assert!(matches!(bw.stats().expect("open").health, Health::Sound));
    bw.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_waits_for_room_can_be_closed() {
    let disk = SimDisk::new();
    let bw = open(&disk).await;
    fill(&disk, &bw).await;
    tokio::time::timeout(FOR_EVER, bw.close()).await.expect("it closes");
    // Nothing that was acknowledged needed the room that was not there.
    disk.set_capacity(None);
    let bw = open(&disk).await;
    let info = bw.queue("orders").unwrap().info().await.unwrap();
    assert!(info.counts.ready + info.counts.locked > 1, "{:?}", info.counts);
    bw.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_waits_for_room_rests() {
    let disk = SimDisk::new();
    let bw = open(&disk).await;
    fill(&disk, &bw).await;
    let calls = disk.calls();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = disk.calls() - calls;
    assert!(calls < 1_000, "{calls} calls of the disk while there was nothing to do");
    disk.set_capacity(None);
    bw.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_answered_when_the_disk_fails() {
    let disk = SimDisk::new();
    let bw = open(&disk).await;
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send("a coffee").await.unwrap();
    disk.fail_at(40, Fault::Eio);
    // Of such a size that each makes room for itself.
    let sends: Vec<_> = (0..64)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.send(vec![b'x'; 20 << 10]).await })
        })
        .collect();
    let mut failed = 0;
    for send in sends {
        let answer = tokio::time::timeout(FOR_EVER, send).await.expect("an answer").unwrap();
        failed += usize::from(answer.is_err());
    }
    assert!(failed > 0, "the fault was never met");
    tokio::time::timeout(FOR_EVER, bw.close()).await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_twice_at_once_is_closing() {
    let bw = open(&SimDisk::new()).await;
    let closing = async { tokio::join!(bw.close(), bw.close()) };
    tokio::time::timeout(FOR_EVER, closing).await.expect("it closes");
    assert!(matches!(bw.create_queue("late", QueueSettings::default()).await, Err(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_relies_on_a_promise_that_is_not_kept_is_answered() {
    let bw = open(&SimDisk::new()).await;
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    for round in 0..6 {
        queue.send("a coffee").await.unwrap();
        if round % 2 == 0 {
            // A delivery keeps the flusher from its sleep, so that promises count.
            queue.receive().one().await.unwrap().unwrap().keep();
        } else {
            // Until everybody sleeps, who would look by himself.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let promising = queue.clone();
        let mut promise = Box::pin(async move { promising.send("forgotten").await });
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(promise.as_mut().poll(cx).is_pending())).await
        );
        std::mem::forget(promise);
        // The keeper looks once a minute, whatever happens; that is not what is meant.
        let answer = tokio::time::timeout(FOR_EVER / 2, queue.send("a tea")).await;
        answer.expect("an answer").unwrap();
        queue.purge(None).await.unwrap();
    }
    bw.close().await;
}

#[tokio::test]
async fn a_promise_does_not_outlive_its_future() {
    let local = start(&SimDisk::new());
    let none = RequestNumber(0);
    let (member, command) = (MemberSlot(0), Command::ListMembers);
    let request = Request { member, number: none, answered_below: none, command, fence: None };
    let mut promise = local.submit(Call { request, contents: Few::default() });
    assert!(
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut promise).poll(cx).is_pending())).await
    );
    assert!(local.shared.announce(), "it takes a turn");
    drop(promise);
    assert!(!local.shared.announce(), "nobody is there to take a turn");
    local.close().await;
}

/// A task of an executor that is not ours.
struct Strange {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    when_woken: fn(&Arc<Strange>),
}

impl Strange {
    /// Unless it is being polled.
    fn poll(self: &Arc<Self>) {
        let Ok(mut task) = self.task.try_lock() else { return };
        let waker = Waker::from(Arc::clone(self));
        if task
            .as_mut()
            .is_some_and(|t| t.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        {
            *task = None;
        }
    }

    /// Unless it is being polled.
    fn drop_task(self: &Arc<Self>) {
        let task = self.task.try_lock().ok().and_then(|mut task| task.take());
        drop(task);
    }
}

impl Wake for Strange {
    fn wake(self: Arc<Self>) {
        (self.when_woken)(&self);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_waker_does_the_others_are_answered() {
    let bw = open(&SimDisk::new()).await;
    // A store whose threads hang cannot be closed; the test is to fail then, not to hang as well.
    std::mem::forget(bw.clone());
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    let panic: fn(&Arc<Strange>) = |strange| {
        assert!(strange.task.try_lock().is_err(), "not while it is polled: a part of the test");
    };
    for when_woken in [Strange::poll, Strange::drop_task, panic] {
        for _ in 0..20 {
            let sender = queue.clone();
            let task = Box::pin(async move { drop(sender.send("a coffee").await) });
            let strange = Arc::new(Strange { task: Mutex::new(Some(task)), when_woken });
            // It promises a turn, takes it, and waits for the flush.
            strange.poll();
            strange.poll();
            let answer = tokio::time::timeout(FOR_EVER / 2, queue.send("a tea")).await;
            answer.expect("an answer").unwrap();
        }
    }
    bw.close().await;
}
