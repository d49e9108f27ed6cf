//! Messages: what is sent is what arrives; order, batches, schedules, looking without touching.

use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::message::State;
use bellwether_core::name::SequenceNumber;
use bellwether_core::settings::QueueSettings;
use bytes::Bytes;

use super::Fixture;
use super::support::{LOCK, ms, next, nothing, refusal, short_locks, text};
use crate::message::{BodyKind, Message, Value};

/// D2: every field arrives as it was sent.
pub async fn every_field_survives(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = Message::new("the body")
        .id("order-17")
        .session("customer-4")
        .subject("an order")
        .correlation_id("request-9")
        .to("the warehouse")
        .reply_to("answers")
        .reply_to_session("answers-4")
        .content_type("text/plain; charset=utf-8")
        .property("urgent", true)
        .ttl(Duration::from_secs(3600))
        .body_kind(BodyKind::Value);
    let before = fixture.now().wall;
    let sequence = queue.send(sent.clone()).await.unwrap();
    let delivery = next(&queue).await;
    assert_eq!(*delivery, sent);
    assert_eq!((delivery.sequence(), delivery.deliveries()), (sequence, 1));
    let received = delivery.received();
    assert!((before..=fixture.now().wall).contains(&received.enqueued_at()));
    assert_eq!(received.expires_at(), Some(received.enqueued_at().plus_ms(3_600_000)));
    assert!(matches!(received.state(), State::Locked(_)));
    assert_eq!((received.dead_letter_reason(), received.dead_letter_description()), (None, None));
}

/// D2: a body is opaque bytes, from none to a mebibyte.
pub async fn any_bytes_survive(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> =
        (0..1_048_576_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for body in [Vec::new(), vec![0], all, vec![0xff; 4097], large] {
        queue.send(body.clone()).await.unwrap();
        let delivery = next(&queue).await;
        assert!(delivery.body()[..] == body[..], "{} bytes came back changed", body.len());
        delivery.complete().await.unwrap();
    }
}

/// A property keeps its type and its value, the unusual ones too.
pub async fn properties_of_every_type_survive(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let values = [
        Value::Null,
        Value::Bool(false),
        Value::Ubyte(255),
        Value::Byte(-128),
        Value::Ushort(65_535),
        Value::Short(-32_768),
        Value::Uint(u32::MAX),
        Value::Int(i32::MIN),
        Value::Ulong(u64::MAX),
        Value::Long(i64::MIN),
        Value::Float(-0.0),
        Value::Double(f64::NAN),
        Value::Char('\u{1f411}'),
        Value::Timestamp(-1),
        Value::Uuid([7; 16]),
        Value::Binary(Bytes::from_static(b"\0\xff")),
        Value::String(String::new()),
        Value::Symbol("amqp:symbol".into()),
    ];
    let mut sent = Message::new("");
    for (index, value) in values.into_iter().enumerate() {
        sent = sent.property(format!("p{index}"), value);
    }
    sent = sent.property("", "an empty name").property("ключ", "значение");
    queue.send(sent.clone()).await.unwrap();
    assert_eq!(*next(&queue).await, sent);
}

/// L8: numbers are unique and grow with every message, also past those that are gone.
pub async fn sequence_numbers_grow(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let mut last = SequenceNumber(0);
    for _ in 0..3 {
        for sequence in queue.send_batch(["a", "b", "c"]).await.unwrap() {
            assert!(sequence > last, "{sequence} after {last}");
            last = sequence;
        }
        queue.purge(None).await.unwrap();
    }
}

/// D7: one message that cannot be accepted keeps the whole batch out.
pub async fn a_batch_is_all_or_none(fixture: &Fixture) {
    let settings = QueueSettings { message_bytes_max: 1000, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let bad = [vec![1; 10], vec![2; 10], vec![3; 1001], vec![4; 10]];
    assert!(matches!(refusal(queue.send_batch(bad).await), Refusal::TooLarge { .. }));
    nothing(&queue).await;
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.ready, info.totals.sent), (0, 0));
}

/// A batch arrives in its order; an empty one is refused.
pub async fn a_batch_keeps_its_order(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch((0..1000).map(|n| n.to_string())).await.unwrap();
    assert!(sent.is_sorted() && sent.len() == 1000);
    let mut received = Vec::new();
    while received.len() < 1000 {
        let some = queue.receive().max(300).many().await.unwrap();
        assert!((1..=300).contains(&some.len()));
        for delivery in some {
            received.push(text(&delivery).to_owned());
            delivery.keep();
        }
    }
    assert!(received.iter().enumerate().all(|(n, body)| *body == n.to_string()));
    let none: [Message; 0] = [];
    assert!(matches!(refusal(queue.send_batch(none).await), Refusal::InvalidValue { .. }));
}

/// L9: a scheduled message waits for its time and then gets a new number.
pub async fn a_scheduled_message_waits_for_its_time(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let due = fixture.wall_in(2_000);
    let scheduled = queue.send(Message::new("later").scheduled_at(due)).await.unwrap();
    let peeked = &queue.peek(scheduled, 1).await.unwrap()[0];
    assert_eq!(peeked.message().unwrap().scheduled_at, Some(due));
    let now = queue.send("now").await.unwrap();
    next(&queue).await.complete().await.unwrap();
    nothing(&queue).await;
    fixture.advance(ms(1_000)).await;
    nothing(&queue).await;
    fixture.advance(ms(1_000)).await;
    let delivery = next(&queue).await;
    assert_eq!(text(&delivery), "later");
    assert!(fixture.now().wall >= due);
    assert!(delivery.sequence() > now && delivery.sequence() > scheduled);
    assert_eq!(delivery.received().enqueued_at(), due);
}

/// A time that has passed means now.
pub async fn a_schedule_in_the_past_is_now(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let past = bellwether_core::time::WallTime(fixture.now().wall.0 - 1000);
    let sequence = queue.send(Message::new("late").scheduled_at(past)).await.unwrap();
    assert_eq!(next(&queue).await.sequence(), sequence);
}

/// A scheduled message can be taken back before its time, and not after.
pub async fn a_scheduled_message_can_be_cancelled(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let schedule = || Message::new("later").scheduled_at(fixture.wall_in(2_000));
    let sent = queue.send_batch([schedule(), schedule(), schedule()]).await.unwrap();
    let ready = queue.send("now").await.unwrap();
    // All or none: one that is not scheduled keeps the others.
    let refused = refusal(queue.cancel([sent[0], ready]).await);
    assert_eq!(refused, Refusal::MessageNotFound(ready));
    assert_eq!(queue.cancel([sent[0], sent[2]]).await.unwrap(), 2);
    let refused = refusal(queue.cancel([sent[0]]).await);
    assert_eq!(refused, Refusal::MessageNotFound(sent[0]));
    next(&queue).await.complete().await.unwrap();
    fixture.advance(ms(2_000)).await;
    let refused = refusal(queue.cancel([sent[1]]).await);
    assert_eq!(refused, Refusal::MessageNotFound(sent[1]));
    next(&queue).await.complete().await.unwrap();
    nothing(&queue).await;
}

/// L10: a peek shows messages in every state, in order, and changes nothing.
pub async fn peek_shows_every_state_and_changes_nothing(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["dead", "deferred", "delayed", "locked", "ready"]).await.unwrap();
    let later = Message::new("scheduled").scheduled_at(fixture.wall_in(600_000));
    queue.send(later).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    next(&queue).await.defer().await.unwrap();
    next(&queue).await.abandon_after(Duration::from_secs(600)).await.unwrap();
    let locked = next(&queue).await;
    let before = queue.info().await.unwrap();

    let mut states = Vec::new();
    for peeked in queue.peek(SequenceNumber(0), 100).await.unwrap() {
        let state = match peeked.state() {
            State::Ready => "ready",
            State::Scheduled { .. } => "scheduled",
            State::Delayed { .. } => "delayed",
            State::Locked(_) => "locked",
            State::Deferred => "deferred",
        };
        assert_eq!(peeked.message().unwrap().text(), Some(state));
        // The count shows what was delivered, the delivery that stands included.
        assert_eq!(peeked.deliveries(), u32::from(state == "delayed" || state == "locked"));
        states.push(state);
    }
    assert_eq!(states, ["deferred", "delayed", "locked", "ready", "scheduled"]);
    let dead = queue.dead_letters().peek(SequenceNumber(0), 100).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].dead_letter_reason(), Some("why"));

    assert_eq!(queue.info().await.unwrap(), before);
    locked.complete().await.unwrap();
    let delivery = next(&queue).await;
    assert_eq!((text(&delivery), delivery.deliveries()), ("ready", 1));
}

/// A peek starts at a number and shows no more than asked for.
pub async fn peek_starts_at_a_number(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch((0..10).map(|n| n.to_string())).await.unwrap();
    let some = queue.peek(sent[4], 3).await.unwrap();
    let numbers: Vec<_> = some.iter().map(crate::Received::sequence).collect();
    assert_eq!(numbers, sent[4..7]);
    assert!(queue.peek(SequenceNumber(sent[9].0 + 1), 3).await.unwrap().is_empty());
}

/// A message that comes back comes before those sent after it.
pub async fn a_message_returns_to_its_place(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["first", "second", "third"]).await.unwrap();
    let first = next(&queue).await;
    let second = next(&queue).await;
    second.abandon().await.unwrap();
    first.keep();
    fixture.advance(LOCK).await;
    for wanted in ["first", "second", "third"] {
        let delivery = next(&queue).await;
        assert_eq!(text(&delivery), wanted);
        delivery.complete().await.unwrap();
    }
}
