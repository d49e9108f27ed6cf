//! Order, fairness and limits in one queue.

use bellwether_core::error::Refusal;
use bellwether_core::name::{Key, QueueName, SequenceNumber};
use bellwether_core::outcome::Cause;
use bellwether_core::settings::{Order, OrderPatch, Overflow, QueueSettings, Rate, SettingsPatch};

use super::Fixture;
use super::support::{ms, next, nothing, refusal, short_locks, text};
use crate::message::Message;
use crate::queue::Queue;

pub(super) async fn ordered(fixture: &Fixture, order: Order) -> Queue {
    fixture.queue_with(QueueSettings { order, ..short_locks() }).await
}

pub(super) async fn send(queue: &Queue, names: &[&str], rank: impl Fn(Message) -> Message) {
    let messages = names.iter().map(|name| rank(Message::new(*name)));
    queue.send_batch(messages.collect::<Vec<_>>()).await.unwrap();
}

/// The texts of the next messages, which are completed.
pub(super) async fn take(queue: &Queue, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let delivery = next(queue).await;
        texts.push(text(&delivery).to_owned());
        delivery.complete().await.unwrap();
    }
    texts
}

/// O1: the highest priority first, and those of the same in the order they came.
pub async fn the_highest_priority_is_first(fixture: &Fixture) {
    let queue = ordered(fixture, Order::default()).await;
    send(&queue, &["usual 1"], |m| m).await;
    send(&queue, &["low"], |m| m.priority(0)).await;
    send(&queue, &["high 1", "high 2"], |m| m.priority(9)).await;
    send(&queue, &["usual 2"], |m| m.priority(4)).await;
    let order = take(&queue, 5).await;
    assert_eq!(order, ["high 1", "high 2", "usual 1", "usual 2", "low"]);
}

/// O2: whoever waits gains a level per `ageing_ms`, so that the lowest is not passed over for ever.
pub async fn the_lowest_is_not_passed_over_for_ever(fixture: &Fixture) {
    let order = Order { ageing_ms: Some(100), ..Order::default() };
    let queue = ordered(fixture, order).await;
    send(&queue, &["low"], |m| m.priority(0)).await;
    fixture.advance(ms(1_100)).await;
    send(&queue, &["high"], |m| m.priority(9)).await;
    assert_eq!(take(&queue, 2).await, ["low", "high"]);
}

/// O4: keys take turns, however many messages one of them has before the others.
pub async fn keys_take_turns(fixture: &Fixture) {
    let queue = ordered(fixture, Order::default()).await;
    send(&queue, &["a1", "a2", "a3", "a4"], |m| m.key("a")).await;
    send(&queue, &["b1", "b2"], |m| m.key("b")).await;
    send(&queue, &["c1"], |m| m.key("c")).await;
    send(&queue, &["none 1", "none 2"], |m| m).await;
    let order = take(&queue, 9).await;
    assert_eq!(order, ["a1", "b1", "c1", "none 1", "a2", "b2", "none 2", "a3", "a4"]);
}

/// O5: a key with a weight gets so many messages a turn.
pub async fn a_weight_is_so_many_a_turn(fixture: &Fixture) {
    let key_weights = vec![(Key::new("gold").unwrap(), 3)];
    let queue = ordered(fixture, Order { key_weights, ..Order::default() }).await;
    send(&queue, &["g1", "g2", "g3", "g4", "g5"], |m| m.key("gold")).await;
    send(&queue, &["b1", "b2", "b3"], |m| m.key("b")).await;
    let order = take(&queue, 8).await;
    assert_eq!(order, ["g1", "g2", "g3", "b1", "g4", "g5", "b2", "b3"]);
}

/// O6: priority and key come with the message, also to the dead letters and back.
pub async fn a_rank_stays_with_its_message(fixture: &Fixture) {
    let queue = ordered(fixture, Order::default()).await;
    send(&queue, &["m"], |m| m.priority(7).key("tenant")).await;
    let delivery = next(&queue).await;
    assert_eq!((delivery.priority, delivery.key.as_deref()), (Some(7), Some("tenant")));
    delivery.dead_letter("bad", "indeed").await.unwrap();
    let dead = queue.dead_letters();
    let seen = dead.peek(SequenceNumber(0), 10).await.unwrap();
    let seen: Vec<_> = seen.iter().map(|seen| seen.message().unwrap()).collect();
    assert_eq!((seen[0].priority, seen[0].key.as_deref()), (Some(7), Some("tenant")));
    queue.redrive(None, 10).await.unwrap();
    let again = next(&queue).await;
    assert_eq!((again.priority, again.key.as_deref()), (Some(7), Some("tenant")));
}

/// O7: no more of one key are held at a time than may be; settling one lets the next go, and the
/// others do not wait for it.
pub async fn a_key_has_so_many_in_flight(fixture: &Fixture) {
    let order = Order { key_in_flight_max: Some(1), ..Order::default() };
    let queue = ordered(fixture, order).await;
    send(&queue, &["a1", "a2"], |m| m.key("a")).await;
    send(&queue, &["b1"], |m| m.key("b")).await;
    let a1 = next(&queue).await;
    let b1 = next(&queue).await;
    assert_eq!((text(&a1), text(&b1)), ("a1", "b1"));
    nothing(&queue).await;
    let second = queue.peek(SequenceNumber(0), 10).await.unwrap().remove(1).sequence();
    let causes = queue.explain(second).await.unwrap().causes;
    assert!(causes.contains(&Cause::KeyAtLimit { in_flight: 1 }), "{causes:?}");
    let waits = tokio::spawn({
        let queue = queue.clone();
        async move { text(&next(&queue).await).to_owned() }
    });
    a1.complete().await.unwrap();
    assert_eq!(waits.await.unwrap(), "a2");
    b1.complete().await.unwrap();
}

/// O8: a queue gives out no faster than its rate, and whoever waits is served when it may again.
pub async fn a_queue_keeps_its_rate(fixture: &Fixture) {
    let rate = Some(Rate { messages: 2, per_ms: 600_000 });
    let queue = ordered(fixture, Order { rate, ..Order::default() }).await;
    send(&queue, &["1", "2", "3"], |m| m).await;
    assert_eq!(take(&queue, 2).await, ["1", "2"]);
    nothing(&queue).await;
    let third = queue.peek(SequenceNumber(0), 10).await.unwrap().remove(0).sequence();
    let causes = queue.explain(third).await.unwrap().causes;
    assert!(matches!(causes[..], [Cause::RateLimited { .. }]), "{causes:?}");
    let order =
        OrderPatch { rate: Some(Some(Rate { messages: 1, per_ms: 100 })), ..OrderPatch::default() };
    queue.update(SettingsPatch { order, ..SettingsPatch::default() }).await.unwrap();
    assert_eq!(take(&queue, 1).await, ["3"]);
    send(&queue, &["4"], |m| m).await;
    fixture.advance(ms(150)).await;
    assert_eq!(take(&queue, 1).await, ["4"]);
}

/// O9: the rate of a key holds back that key and no other.
pub async fn the_rate_of_a_key_holds_back_no_other(fixture: &Fixture) {
    let key_rate = Some(Rate { messages: 1, per_ms: 600_000 });
    let queue = ordered(fixture, Order { key_rate, ..Order::default() }).await;
    send(&queue, &["a1", "a2"], |m| m.key("a")).await;
    send(&queue, &["b1"], |m| m.key("b")).await;
    send(&queue, &["none 1", "none 2"], |m| m).await;
    assert_eq!(take(&queue, 4).await, ["a1", "b1", "none 1", "none 2"]);
    nothing(&queue).await;
    let held = queue.peek(SequenceNumber(0), 10).await.unwrap().remove(0).sequence();
    let causes = queue.explain(held).await.unwrap().causes;
    assert!(matches!(causes[..], [Cause::KeyRateLimited { .. }]), "{causes:?}");
}

fn full(overflow: Overflow) -> Order {
    Order { messages_max: Some(2), overflow, ..Order::default() }
}

/// O10: a queue that holds as many as it may refuses, says when to come again, and takes in again
/// when there is room.
pub async fn a_full_queue_refuses_and_says_when(fixture: &Fixture) {
    let queue = ordered(fixture, full(Overflow::Refuse)).await;
    send(&queue, &["1", "2"], |m| m).await;
    let refused = refusal(queue.send("3").await);
    let Refusal::QueueBusy { messages_max: 2, retry_after_ms, .. } = refused else {
        panic!("{refused}")
    };
    assert!((10..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
    assert_eq!(take(&queue, 1).await, ["1"]);
    queue.send("3").await.unwrap();
    assert_eq!(take(&queue, 2).await, ["2", "3"]);
}

/// O11: what is dropped to make room is the oldest that waits, and is counted.
pub async fn the_oldest_make_room_and_are_counted(fixture: &Fixture) {
    let queue = ordered(fixture, full(Overflow::DropOldest)).await;
    send(&queue, &["1", "2"], |m| m).await;
    let held = next(&queue).await;
    queue.send("3").await.unwrap();
    let totals = queue.info().await.unwrap().totals;
    assert_eq!((totals.sent, totals.shed), (3, 1));
    assert_eq!(take(&queue, 1).await, ["3"]);
    held.complete().await.unwrap();
    nothing(&queue).await;
}

/// O12: what finds no room goes to another queue with all it has.
pub async fn what_finds_no_room_spills_over(fixture: &Fixture) {
    let other = fixture.other_queue("spill").await;
    let target = QueueName::new("spill").unwrap();
    let queue = ordered(fixture, full(Overflow::SpillTo(target))).await;
    send(&queue, &["1", "2", "3", "4"], |m| m.key("k").priority(8)).await;
    assert_eq!(take(&queue, 2).await, ["1", "2"]);
    let spilled = next(&other).await;
    assert_eq!(
        (text(&spilled), spilled.key.as_deref(), spilled.priority),
        ("3", Some("k"), Some(8))
    );
    assert_eq!(take(&other, 1).await, ["4"]);
    let totals = queue.info().await.unwrap().totals;
    assert_eq!((totals.sent, totals.forwarded), (4, 2));
}

/// O13: what is not a priority, a key or a limit is refused by name.
pub async fn what_is_out_of_range_is_refused(fixture: &Fixture) {
    let queue = ordered(fixture, Order::default()).await;
    let refused = refusal(queue.send(Message::new("m").priority(10)).await);
    assert!(matches!(refused, Refusal::InvalidValue { what: "priority", .. }), "{refused}");
    let long = "k".repeat(129);
    let refused = refusal(queue.send(Message::new("m").key(long)).await);
    assert!(matches!(refused, Refusal::InvalidName { what: "key", .. }), "{refused}");
    let zero = Some(Rate { messages: 0, per_ms: 1000 });
    let order = OrderPatch { rate: Some(zero), ..OrderPatch::default() };
    let patch = SettingsPatch { order, ..SettingsPatch::default() };
    let refused = refusal(queue.update(patch).await);
    assert!(matches!(refused, Refusal::InvalidValue { what: "rate", .. }), "{refused}");
}
