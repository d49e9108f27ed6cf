//! The ends of a delivery: given back, delayed, set aside, changed, given up on.

use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::name::SequenceNumber;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{LOCK, ms, next, nothing, refusal, short_locks, text};
use crate::message::{Message, Value};

/// L5: an abandoned message is there at once, and the delivery counts as a failure.
pub async fn an_abandoned_message_comes_back_at_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    for count in 1..=3 {
        let delivery = queue.receive().one().await.unwrap().expect("it is there at once");
        assert_eq!(delivery.deliveries(), count);
        delivery.abandon().await.unwrap();
    }
    let standing = next(&queue).await.received().view().message.standing;
    assert_eq!((standing.failures, standing.crashes, standing.releases), (3, 0, 0));
}

/// A released delivery does not count, however often, but its number grows.
pub async fn a_released_message_is_not_counted(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 2, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    queue.send("one").await.unwrap();
    let mut last = None;
    for _ in 0..5 {
        let delivery = next(&queue).await;
        assert_eq!(delivery.deliveries(), 1);
        assert!(last < Some(delivery.token().number));
        last = Some(delivery.token().number);
        delivery.release().await.unwrap();
    }
    assert_eq!(next(&queue).await.received().view().message.standing.releases, 5);
}

/// L9: abandoned with a delay, a message comes back when the delay is over, in its place.
pub async fn a_delayed_message_comes_back_later(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let first = queue.send("first").await.unwrap();
    queue.send("second").await.unwrap();
    next(&queue).await.abandon_after(ms(1_000)).await.unwrap();
    let second = next(&queue).await;
    assert_eq!(text(&second), "second");
    second.abandon().await.unwrap();
    fixture.advance(ms(500)).await;
    let second = next(&queue).await;
    nothing(&queue).await;
    second.abandon().await.unwrap();
    fixture.advance(ms(500)).await;
    let delivery = next(&queue).await;
    assert_eq!((delivery.sequence(), delivery.deliveries()), (first, 2));
}

/// A message is delivered so many times and no more, then it is a dead letter.
pub async fn too_many_deliveries_make_a_dead_letter(fixture: &Fixture) {
    for (deliveries_max, name) in [(3, "three"), (1, "one")] {
        let settings = QueueSettings { deliveries_max, ..short_locks() };
        let queue = fixture.bellwether().create_queue(name, settings).await.unwrap();
        queue.send("poison").await.unwrap();
        for count in 1..=deliveries_max {
            let delivery = next(&queue).await;
            assert_eq!(delivery.deliveries(), count);
            delivery.abandon().await.unwrap();
        }
        nothing(&queue).await;
        let dead = next(&queue.dead_letters()).await;
        assert_eq!(text(&dead), "poison");
        assert_eq!(dead.received().dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
        assert_eq!(queue.info().await.unwrap().totals.dead_lettered, 1);
    }
}

/// Locks that ran out and failures count together; a delay does not save the last try.
pub async fn every_counted_delivery_counts(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 3, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    queue.send("poison").await.unwrap();
    next(&queue).await.keep();
    fixture.advance(LOCK).await;
    next(&queue).await.abandon().await.unwrap();
    next(&queue).await.abandon_after(ms(100)).await.unwrap();
    fixture.advance(ms(100)).await;
    nothing(&queue).await;
    let dead = next(&queue.dead_letters()).await;
    let standing = dead.received().view().message.standing;
    assert_eq!((standing.failures, standing.crashes), (2, 1));
}

/// The maximum that counts is the one the queue has when a delivery ends.
pub async fn a_raised_maximum_gives_more_tries(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 1, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    queue.send("one").await.unwrap();
    let delivery = next(&queue).await;
    let patch = crate::SettingsPatch { deliveries_max: Some(2), ..crate::SettingsPatch::default() };
    queue.update(patch).await.unwrap();
    delivery.abandon().await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    nothing(&queue).await;
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 1);
}

/// A deferred message is only given out by its number.
pub async fn a_deferred_message_is_fetched_by_number(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("aside").await.unwrap();
    queue.send("next").await.unwrap();
    let aside = next(&queue).await.defer().await.unwrap();
    let delivery = next(&queue).await;
    assert_eq!(text(&delivery), "next");
    nothing(&queue).await;
    fixture.advance(LOCK / 2).await;
    let found = queue.receive_deferred([aside]).await.unwrap();
    assert_eq!((text(&found[0]), found[0].sequence()), ("aside", aside));
    // Locked now: not found a second time, and its lock runs out like any other.
    let refused = refusal(queue.receive_deferred([aside]).await);
    assert_eq!(refused, Refusal::MessageNotFound(aside));
    for delivery in found {
        delivery.keep();
    }
    fixture.advance(LOCK).await;
    let mut found = queue.receive_deferred([aside]).await.unwrap();
    found.pop().unwrap().complete().await.unwrap();
    assert_eq!(queue.info().await.unwrap().counts.deferred, 0);
}

/// Deferred messages are fetched all or none; what is not deferred is not found.
pub async fn deferred_messages_are_fetched_all_or_none(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["a", "b", "ready"]).await.unwrap();
    next(&queue).await.defer().await.unwrap();
    next(&queue).await.defer().await.unwrap();
    for missing in [sent[2], SequenceNumber(999)] {
        let refused = refusal(queue.receive_deferred([sent[0], missing]).await);
        assert_eq!(refused, Refusal::MessageNotFound(missing));
    }
    let found = queue.receive_deferred([sent[1], sent[0], sent[1]]).await.unwrap();
    assert_eq!(found.iter().map(text).collect::<Vec<_>>(), ["b", "a"]);
}

/// A deferred message that is given back is deferred again.
pub async fn a_deferred_message_goes_back_aside(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("aside").await.unwrap();
    let aside = next(&queue).await.defer().await.unwrap();
    let fetch = async || queue.receive_deferred([aside]).await.unwrap().pop().unwrap();
    fetch().await.abandon().await.unwrap();
    nothing(&queue).await;
    fetch().await.release().await.unwrap();
    nothing(&queue).await;
    fetch().await.abandon_after(Duration::from_millis(100)).await.unwrap();
    fixture.advance(ms(100)).await;
    nothing(&queue).await;
    fetch().await.complete().await.unwrap();
}

/// Properties changed by abandon, defer and dead-letter add up; the rest stays.
pub async fn changed_properties_add_up(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = Message::new("body").property("tries", 0).property("keep", "as it was");
    queue.send(sent.clone()).await.unwrap();

    let mut delivery = next(&queue).await;
    delivery.set_property("tries", 1);
    delivery.set_property("first", "abandon");
    delivery.abandon().await.unwrap();

    let mut delivery = next(&queue).await;
    assert_eq!(delivery.properties["tries"], Value::from(1));
    delivery.set_property("tries", 2);
    delivery.set_property("second", "defer");
    let aside = delivery.defer().await.unwrap();

    let mut delivery = queue.receive_deferred([aside]).await.unwrap().pop().unwrap();
    delivery.set_property("third", "dead-letter");
    delivery.dead_letter("why", "because").await.unwrap();

    let dead = next(&queue.dead_letters()).await;
    let wanted = sent
        .property("tries", 2)
        .property("first", "abandon")
        .property("second", "defer")
        .property("third", "dead-letter");
    assert_eq!(*dead, wanted);
    assert_eq!(dead.received().dead_letter_reason(), Some("why"));
    assert_eq!(dead.received().dead_letter_description(), Some("because"));
}

/// A settlement that changes nothing leaves earlier changes as they are.
pub async fn changes_stay_when_nothing_more_changes(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("body").await.unwrap();
    let mut delivery = next(&queue).await;
    delivery.set_property("tries", 1);
    delivery.abandon().await.unwrap();
    next(&queue).await.keep();
    fixture.advance(LOCK).await;
    next(&queue).await.release().await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    assert_eq!(next(&queue).await.properties["tries"], Value::from(1));
}
