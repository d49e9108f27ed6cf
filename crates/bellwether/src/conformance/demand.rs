//! Demands: waiting receives, served in order, withdrawn without a trace.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bellwether_core::chance::Chance;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{Caller, LOCK, at_last, bound, ms, next, nothing, sessions, text};
use crate::error::Error;
use crate::message::Message;

const LONG: Duration = Duration::from_secs(3600);

/// A waiting receive is served by a message that comes later.
pub async fn a_waiting_receive_is_served(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let waiting = tokio::spawn(queue.receive().wait(LONG).one());
    tokio::time::sleep(ms(20)).await;
    queue.send("one").await.unwrap();
    let delivery = at_last("the message", waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((text(&delivery), delivery.deliveries()), ("one", 1));
    delivery.complete().await.unwrap();
}

/// A wait ends with nothing when its time is over, not before.
pub async fn a_wait_ends(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let waiting = tokio::spawn(queue.receive().wait(ms(1_000)).one());
    tokio::time::sleep(ms(20)).await;
    fixture.advance(ms(500)).await;
    assert!(!waiting.is_finished(), "it ended early");
    fixture.advance(ms(500)).await;
    assert!(at_last("the end of the wait", waiting).await.unwrap().unwrap().is_none());
    queue.send("late").await.unwrap();
    assert_eq!(next(&queue).await.deliveries(), 1);
}

/// Waiting receives are served in the order in which they came.
pub async fn those_who_wait_are_served_in_order(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(tokio::spawn(queue.receive().wait(LONG).one()));
        // In line before the next one asks.
        tokio::time::sleep(ms(5)).await;
        fixture.settle().await;
    }
    queue.send_batch((0..10).map(|n| n.to_string())).await.unwrap();
    for (n, waiting) in waiting.into_iter().enumerate() {
        let delivery = at_last("its message", waiting).await.unwrap().unwrap().unwrap();
        assert_eq!(text(&delivery), n.to_string());
        delivery.complete().await.unwrap();
    }
}

/// A message that becomes ready again serves a waiting receive, whatever made it so.
pub async fn what_becomes_ready_serves_those_who_wait(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let later = Message::new("scheduled").scheduled_at(fixture.wall_in(3_000));
    queue.send(later).await.unwrap();
    queue.send("one").await.unwrap();
    let delivery = next(&queue).await;
    let wait = || tokio::spawn(queue.receive().wait(LONG).one());
    let waiting = wait();
    tokio::time::sleep(ms(20)).await;
    delivery.abandon().await.unwrap();
    let delivery = at_last("the abandoned", waiting).await.unwrap().unwrap().unwrap();

    let waiting = wait();
    tokio::time::sleep(ms(20)).await;
    delivery.abandon_after(ms(500)).await.unwrap();
    fixture.advance(ms(500)).await;
    let delivery = at_last("the delayed", waiting).await.unwrap().unwrap().unwrap();

    let waiting = wait();
    tokio::time::sleep(ms(20)).await;
    delivery.keep();
    fixture.advance(LOCK).await;
    let delivery = at_last("the forgotten", waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((text(&delivery), delivery.deliveries()), ("one", 4));
    // Whoever has what was lost by a crash is handed nothing beside it.
    delivery.complete().await.unwrap();

    let waiting = wait();
    tokio::time::sleep(ms(20)).await;
    fixture.advance(ms(500)).await;
    let delivery = at_last("the scheduled", waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&delivery), "scheduled");
}

/// A hundred wait, a hundred messages come: each gets exactly one.
pub async fn a_hundred_wait_for_a_hundred_messages(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let mut waiting = Vec::new();
    for n in 0..100 {
        // Asking for more than one is no right to more than one that is there.
        waiting.push(tokio::spawn(queue.receive().max(1 + n % 3).wait(LONG).many()));
    }
    fixture.settle().await;
    tokio::time::sleep(ms(50)).await;
    for n in 0..100 {
        queue.send(n.to_string()).await.unwrap();
    }
    let mut bodies = Vec::new();
    for waiting in waiting {
        let some = at_last("its message", waiting).await.unwrap().unwrap();
        assert_eq!(some.len(), 1);
        assert_eq!(some[0].deliveries(), 1);
        bodies.push(text(&some[0]).parse::<u32>().unwrap());
        for delivery in some {
            delivery.complete().await.unwrap();
        }
    }
    bodies.sort_unstable();
    assert!(bodies.into_iter().eq(0..100));
    nothing(&queue).await;
}

/// Polls a future so many times, a little apart, and drops it if it is not ready.
async fn poll_and_drop<T>(future: impl Future<Output = T>, polls: u64) -> Option<T> {
    let mut future = pin!(future);
    for poll in 0..polls {
        if poll > 0 {
            tokio::task::yield_now().await;
            if poll % 3 == 0 {
                tokio::time::sleep(Duration::from_micros(50 * poll)).await;
            }
        }
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}

/// A receive dropped at any moment leaves nothing locked, lost or counted.
pub async fn a_dropped_receive_leaks_nothing(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let mut chance = Chance::new(12);
    let mut left = 0_usize;
    for round in 0..300 {
        let sender = queue.clone();
        let sending = (chance.below(3) > 0).then(|| {
            let many = 1 + chance.below(3);
            left += many as usize;
            tokio::spawn(async move {
                sender.send_batch((0..many).map(|_| format!("{round}"))).await.unwrap();
            })
        });
        let wait = if chance.below(4) == 0 { Duration::ZERO } else { LONG };
        let receive = queue.receive().max(1 + chance.below(2) as u32).wait(wait).many();
        if let Some(some) = poll_and_drop(receive, chance.below(9)).await {
            let some = some.unwrap();
            for delivery in some {
                assert_eq!(delivery.deliveries(), 1, "round {round}: a drop was counted");
                if chance.below(2) == 0 {
                    delivery.complete().await.unwrap();
                    left -= 1;
                } else {
                    delivery.release().await.unwrap();
                }
            }
        }
        if let Some(sending) = sending {
            sending.await.unwrap();
        }
    }
    for n in 0..left {
        let delivery = next(&queue).await;
        assert_eq!(delivery.deliveries(), 1, "message {n} of {left}");
        delivery.complete().await.unwrap();
    }
    nothing(&queue).await;
    assert_eq!(queue.info().await.unwrap().counts.locked, 0);
}

/// A wait for a session dropped at any moment leaves no session held.
pub async fn a_dropped_accept_leaks_nothing(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings { sessions: true, ..sessions() }).await;
    let mut chance = Chance::new(62);
    for round in 0..100 {
        let sender = queue.clone();
        let sending = tokio::spawn(async move {
            sender.send(Message::new(format!("{round}")).session("s")).await.unwrap();
        });
        let accept = queue.accept_session().wait(LONG).next();
        if let Some(session) = poll_and_drop(accept, chance.below(7)).await {
            session.unwrap().unwrap().close().await.unwrap();
        }
        sending.await.unwrap();
    }
    let wait = queue.accept_session().wait(LONG).next();
    let session = at_last("the session", wait).await.unwrap().unwrap();
    let found = session.receive().max(200).wait(LONG).many().await.unwrap();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|delivery| delivery.deliveries() == 1));
}

/// A wait for a lease dropped at any moment leaves it free and the line empty.
pub async fn a_dropped_acquire_leaks_nothing(fixture: &Fixture) {
    let caller = Caller::of(&fixture.bellwether());
    let mut chance = Chance::new(57);
    for round in 1..100 {
        let mut ask = bound("leader", round, 60_000);
        ask.wait_ms = 3_600_000;
        if let Some(term) = poll_and_drop(caller.acquire(ask), chance.below(7)).await {
            term.unwrap();
            caller.release("leader", round).await.unwrap();
        }
    }
    let mut ask = bound("leader", 1000, 60_000);
    ask.wait_ms = 3_600_000;
    at_last("the lease", caller.acquire(ask)).await.unwrap();
    fixture.settle().await;
    assert!(caller.describe("leader").await.waiting.is_empty());
}

/// Closing the store answers those who wait and those who come later.
pub async fn closing_answers_those_who_wait(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let waiting = tokio::spawn(queue.receive().wait(LONG).one());
    tokio::time::sleep(ms(20)).await;
    fixture.bellwether().close().await;
    let answer = at_last("an answer", waiting).await.unwrap();
    assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    let answer = queue.send("late").await;
    assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
}
