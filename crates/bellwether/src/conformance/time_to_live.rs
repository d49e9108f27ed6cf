//! Messages that expire.

use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::name::SequenceNumber;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{LOCK, ms, next, nothing, refusal, short_locks, text};
use crate::message::Message;

const TTL: Duration = Duration::from_secs(1);

/// A queue whose locks last longer than its messages live.
fn expiring(dead_letter_expired: bool) -> QueueSettings {
    QueueSettings { dead_letter_expired, ..short_locks() }
}

/// An expired message is never handed out; it is dropped, and counted.
pub async fn an_expired_message_is_never_handed_out(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send(Message::new("short").ttl(TTL)).await.unwrap();
    queue.send("long").await.unwrap();
    fixture.advance(TTL).await;
    assert_eq!(text(&next(&queue).await), "long");
    let info = queue.info().await.unwrap();
    assert_eq!((info.totals.expired, info.counts.dead_letters), (1, 0));
}

/// Where the queue says so, an expired message becomes a dead letter.
pub async fn an_expired_message_becomes_a_dead_letter(fixture: &Fixture) {
    let queue = fixture.queue_with(expiring(true)).await;
    queue.send(Message::new("short").ttl(TTL)).await.unwrap();
    fixture.advance(TTL).await;
    nothing(&queue).await;
    let dead = next(&queue.dead_letters()).await;
    assert_eq!(text(&dead), "short");
    assert_eq!(dead.received().dead_letter_reason(), Some("TTLExpiredException"));
}

/// A queue's time-to-live holds for messages that name none, and cuts longer ones.
pub async fn the_queue_cuts_the_time_to_live(fixture: &Fixture) {
    let settings = QueueSettings { ttl_ms: Some(5_000), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let ttls = [None, Some(3600), Some(1)];
    for ttl in ttls {
        let mut message = Message::new("");
        message.ttl = ttl.map(Duration::from_secs);
        queue.send(message).await.unwrap();
    }
    let lives: Vec<u64> = queue
        .peek(SequenceNumber(0), 10)
        .await
        .unwrap()
        .iter()
        .map(|peeked| peeked.expires_at().unwrap().0 - peeked.enqueued_at().0)
        .collect();
    assert_eq!(lives, [5_000, 5_000, 1_000]);
}

/// A message that would expire at once is refused, and with it its whole batch.
pub async fn a_time_to_live_of_zero_is_refused(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let at_once = || Message::new("gone").ttl(Duration::ZERO);
    let invalid = |refusal| matches!(refusal, Refusal::InvalidValue { what: "ttl_ms", .. });
    assert!(invalid(refusal(queue.send(at_once()).await)));
    assert!(invalid(refusal(queue.send_batch([Message::new("stays out"), at_once()]).await)));
    assert_eq!(queue.info().await.unwrap().totals.sent, 0);
    // Less than a millisecond is rounded up to one.
    queue.send(Message::new("short").ttl(Duration::from_nanos(1))).await.unwrap();
    assert_eq!(queue.info().await.unwrap().totals.sent, 1);
}

/// A message that was locked in time may be completed after its time.
pub async fn a_locked_message_may_be_completed_late(fixture: &Fixture) {
    let queue = fixture.queue_with(expiring(true)).await;
    queue.send(Message::new("short").ttl(TTL)).await.unwrap();
    let delivery = next(&queue).await;
    fixture.advance(TTL + ms(100)).await;
    delivery.complete().await.unwrap();
    nothing(&queue.dead_letters()).await;
}

/// A message that comes back after its time expires at once.
pub async fn a_message_that_comes_back_late_expires(fixture: &Fixture) {
    let queue = fixture.queue_with(expiring(true)).await;
    queue.send(Message::new("abandoned").ttl(TTL)).await.unwrap();
    queue.send(Message::new("forgotten").ttl(TTL)).await.unwrap();
    let abandoned = next(&queue).await;
    next(&queue).await.keep();
    fixture.advance(TTL + ms(100)).await;
    abandoned.abandon().await.unwrap();
    nothing(&queue).await;
    fixture.advance(LOCK).await;
    nothing(&queue).await;
    for wanted in ["abandoned", "forgotten"] {
        let dead = next(&queue.dead_letters()).await;
        assert_eq!(text(&dead), wanted);
        assert_eq!(dead.received().dead_letter_reason(), Some("TTLExpiredException"));
        dead.complete().await.unwrap();
    }
}

/// A message that was set aside does not expire.
pub async fn a_deferred_message_does_not_expire(fixture: &Fixture) {
    let queue = fixture.queue_with(expiring(false)).await;
    queue.send(Message::new("aside").ttl(TTL)).await.unwrap();
    let aside = next(&queue).await.defer().await.unwrap();
    fixture.advance(TTL + ms(100)).await;
    let mut found = queue.receive_deferred([aside]).await.unwrap();
    assert_eq!(text(&found[0]), "aside");
    // Given back, it is set aside again and still does not expire.
    found.pop().unwrap().abandon().await.unwrap();
    fixture.advance(TTL).await;
    queue.receive_deferred([aside]).await.unwrap().pop().unwrap().complete().await.unwrap();
}

/// A message that waits for a retry expires like one that is ready.
pub async fn a_delayed_message_expires(fixture: &Fixture) {
    let queue = fixture.queue_with(expiring(true)).await;
    queue.send(Message::new("short").ttl(TTL)).await.unwrap();
    next(&queue).await.abandon_after(LOCK).await.unwrap();
    fixture.advance(TTL).await;
    assert_eq!(text(&next(&queue.dead_letters()).await), "short");
    fixture.advance(LOCK).await;
    nothing(&queue).await;
}

/// A scheduled message's life begins when it is due.
pub async fn a_scheduled_message_lives_from_its_time(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let due = fixture.wall_in(1_500);
    let sequence = queue.send(Message::new("later").ttl(TTL).scheduled_at(due)).await.unwrap();
    fixture.advance(ms(1_600)).await;
    let delivery = next(&queue).await;
    assert_eq!(delivery.received().expires_at(), Some(due.plus_ms(1_000)));
    delivery.complete().await.unwrap();
    assert_eq!(refusal(queue.cancel([sequence]).await), Refusal::MessageNotFound(sequence));
}
