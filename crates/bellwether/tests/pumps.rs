//! Several pumps in one process: one shutdown, and what happens when one of them ends.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::pump::{IfOneEnds, PumpState};
use bellwether::{Bellwether, Error, Pumps, QueueSettings, Refusal, VirtualClock, Work};
use tokio_util::sync::CancellationToken;

type Ends = Arc<Mutex<Vec<(String, Error)>>>;

/// The pumps, and what is told of those that end.
fn told(pumps: Pumps) -> (Pumps, Ends) {
    let ends = Ends::default();
    let pumps = pumps.on_end({
        let ends = Arc::clone(&ends);
        move |name, error| {
            ends.lock().unwrap().push((name.into(), error.clone()));
            panic!("the callback's own");
        }
    });
    (pumps, ends)
}

async fn store() -> (VirtualClock, Bellwether) {
    let clock = VirtualClock::new();
    let bw = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
    (clock, bw)
}

async fn done(_: Work) {}

#[tokio::test]
async fn they_share_one_shutdown() {
    let (_, bw) = store().await;
    let mut pumps = Pumps::new();
    let mut handles = Vec::new();
    for name in ["a", "b", "c"] {
        let queue = bw.create_queue(name, QueueSettings::default()).await.unwrap();
        queue.send("one").await.unwrap();
        handles.push(pumps.add(name, queue.pump(), done));
    }
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(pumps.run(shutdown.clone()));
    for handle in &handles {
        handle.wait_for(|counts| counts.completed == 1).await;
    }
    handles[0].stop();
    handles[0].wait_for(|_| false).await;
    assert_eq!(handles[1].counts().state, PumpState::Taking, "told to, so nobody else ends");
    shutdown.cancel();
    run.await.unwrap().unwrap();
    assert!(handles.iter().all(|handle| handle.counts().state == PumpState::Stopped));
}

/// A pump whose queue is fenced ends when the term is over.
async fn fenced(bw: &Bellwether) -> (bellwether::Queue, impl AsyncFnOnce() + use<>) {
    let lease = bw.lease("import").unwrap();
    let grant = lease.acquire(Duration::from_secs(30)).await.unwrap();
    let queue = bw.create_queue("fenced", QueueSettings::default()).await.unwrap();
    let fenced = queue.with_fence(&lease.fence(&grant));
    (fenced, async move || {
        lease.release(grant.id).await.unwrap();
        queue.send("too late for it").await.unwrap();
    })
}

#[tokio::test]
async fn one_that_ends_by_itself_stops_all_if_that_is_wanted() {
    let (_, bw) = store().await;
    let (queue, depose) = fenced(&bw).await;
    let other = bw.create_queue("other", QueueSettings::default()).await.unwrap();
    let (mut pumps, ends) = told(Pumps::new());
    let first = pumps.add("fenced", queue.pump(), done);
    let second = pumps.add("other", other.pump(), done);
    let run = tokio::spawn(pumps.run(CancellationToken::new()));
    first.wait_for(|counts| counts.receiving).await;
    second.wait_for(|counts| counts.receiving).await;
    depose().await;
    let ended = run.await.unwrap();
    assert!(matches!(ended, Err(Error::Refused(Refusal::Fenced { .. }))), "{ended:?}");
    assert_eq!(second.counts().state, PumpState::Stopped);
    assert_eq!(ends.lock().unwrap()[0].0, "fenced");
}

#[tokio::test]
async fn one_that_ends_by_itself_is_started_again_and_the_others_go_on() {
    let (clock, bw) = store().await;
    let settings = || QueueSettings::default();
    let queue = bw.create_queue("orders", settings()).await.unwrap();
    let other = bw.create_queue("other", settings()).await.unwrap();
    let (pumps, ends) = told(Pumps::new());
    let mut pumps = pumps.if_one_ends(IfOneEnds::StartAgain);
    let first = pumps.add("orders", queue.pump(), done);
    let second = pumps.add("other", other.pump(), done);
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(pumps.run(shutdown.clone()));
    first.wait_for(|counts| counts.receiving).await;
    // A queue of that name that has sessions is none that this pump can empty: it ends, and cannot
    // be started until the queue is as it was.
    queue.delete().await.unwrap();
    let wrong = QueueSettings { sessions: true, ..settings() };
    bw.create_queue("orders", wrong).await.unwrap();
    while ends.lock().unwrap().len() < 2 {
        clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    other.send("one").await.unwrap();
    second.wait_for(|counts| counts.completed == 1).await;
    queue.delete().await.unwrap();
    bw.create_queue("orders", settings()).await.unwrap();
    queue.send("one").await.unwrap();
    while first.counts().completed == 0 {
        clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    shutdown.cancel();
    run.await.unwrap().unwrap();
    assert!(ends.lock().unwrap().iter().all(|(name, _)| name == "orders"));
}

#[tokio::test]
async fn one_that_cannot_start_is_tried_again_and_takes_nobody_down() {
    let (clock, bw) = store().await;
    let other = bw.create_queue("other", QueueSettings::default()).await.unwrap();
    let (mut pumps, ends) = told(Pumps::new());
    let missing = bw.queue("missing").unwrap();
    let first = pumps.add("missing", missing.pump(), done);
    let second = pumps.add("other", other.pump(), done);
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(pumps.run(shutdown.clone()));
    other.send("one").await.unwrap();
    second.wait_for(|counts| counts.completed == 1).await;
    while ends.lock().unwrap().len() < 2 {
        clock.advance(Duration::from_secs(2));
        tokio::task::yield_now().await;
    }
    bw.create_queue("missing", QueueSettings::default()).await.unwrap();
    missing.send("one").await.unwrap();
    while first.counts().completed == 0 {
        clock.advance(Duration::from_secs(2));
        tokio::task::yield_now().await;
    }
    shutdown.cancel();
    run.await.unwrap().unwrap();
    let ends = ends.lock().unwrap();
    assert!(matches!(ends[0].1, Error::Refused(Refusal::QueueNotFound(_))), "{ends:?}");
}
