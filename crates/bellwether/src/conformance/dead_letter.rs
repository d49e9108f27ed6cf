//! Dead letters: set aside with a reason, looked at, sent again.

use std::time::Duration;

use bellwether_core::command::Disposition;
use bellwether_core::error::Refusal;
use bellwether_core::name::SequenceNumber;
use bellwether_core::settings::{QueueSettings, Status};

use super::Fixture;
use super::support::{LOCK, at_last, next, nothing, refusal, settle, short_locks, text};
use crate::message::Message;
use crate::queue::Queue;

async fn with_dead_letters(fixture: &Fixture, bodies: &[&str]) -> (Queue, Vec<SequenceNumber>) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(bodies.iter().copied()).await.unwrap();
    for _ in bodies {
        next(&queue).await.dead_letter("Invalid message", "no address").await.unwrap();
    }
    (queue, sent)
}

/// A dead letter keeps its message, its number, and says why it is one.
pub async fn a_dead_letter_says_why(fixture: &Fixture) {
    let (queue, sent) = with_dead_letters(fixture, &["one"]).await;
    nothing(&queue).await;
    let dead = next(&queue.dead_letters()).await;
    assert_eq!((text(&dead), dead.sequence()), ("one", sent[0]));
    assert_eq!(dead.received().dead_letter_reason(), Some("Invalid message"));
    assert_eq!(dead.received().dead_letter_description(), Some("no address"));
    dead.complete().await.unwrap();
    nothing(&queue.dead_letters()).await;
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.dead_letters, info.counts.size_bytes), (0, 0));
}

/// A permanent failure goes straight to the dead letters, without using up tries.
pub async fn a_dead_letter_needs_one_delivery(fixture: &Fixture) {
    let (queue, _) = with_dead_letters(fixture, &["one"]).await;
    let dead = queue.dead_letters().peek(SequenceNumber(0), 10).await.unwrap();
    assert_eq!(dead[0].view().message.standing.failures, 0);
    assert_eq!(queue.info().await.unwrap().totals.dead_lettered, 1);
}

/// A dead letter cannot be made one again; given back, it stays where it is, for ever.
pub async fn a_dead_letter_stays_one(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 2, ..short_locks() };
    fixture.queue_with(settings).await;
    let (queue, sent) = with_dead_letters(fixture, &["one"]).await;
    let dead = queue.dead_letters();
    let token = next(&dead).await.keep();
    let refused = settle(&dead, token, Disposition::DeadLetter).await;
    assert!(matches!(refused, Err(Refusal::InvalidValue { .. })), "{refused:?}");
    settle(&dead, token, Disposition::Abandon { delay_ms: None }).await.unwrap();
    for _ in 0..4 {
        next(&dead).await.abandon().await.unwrap();
    }
    next(&dead).await.keep();
    fixture.advance(LOCK).await;
    let still = next(&dead).await;
    assert_eq!(still.sequence(), sent[0]);
    assert_eq!(still.received().dead_letter_reason(), Some("Invalid message"));
}

/// Dead letters do not expire.
pub async fn dead_letters_do_not_expire(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send(Message::new("one").ttl(LOCK)).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    fixture.advance(LOCK * 2).await;
    let dead = next(&queue.dead_letters()).await;
    dead.abandon().await.unwrap();
    assert_eq!(text(&next(&queue.dead_letters()).await), "one");
}

/// Dead letters occupy the queue's size until they are gone.
pub async fn dead_letters_occupy_the_queue(fixture: &Fixture) {
    let settings = QueueSettings { size_bytes_max: 2_500, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    for _ in 0..2 {
        queue.send(vec![0; 1000]).await.unwrap();
        next(&queue).await.dead_letter("why", "because").await.unwrap();
    }
    assert!(matches!(refusal(queue.send(vec![0; 1000]).await), Refusal::QueueFull { .. }));
    next(&queue.dead_letters()).await.complete().await.unwrap();
    queue.send(vec![0; 1000]).await.unwrap();
}

/// A dead letter sent again is a new message: new number, count from zero, no reason.
pub async fn a_redriven_message_starts_anew(fixture: &Fixture) {
    let (queue, sent) = with_dead_letters(fixture, &["one"]).await;
    assert_eq!(queue.redrive(None, 10).await.unwrap(), 1);
    nothing(&queue.dead_letters()).await;
    let delivery = next(&queue).await;
    assert_eq!((text(&delivery), delivery.deliveries()), ("one", 1));
    assert!(delivery.sequence() > sent[0]);
    let received = delivery.received();
    assert_eq!((received.dead_letter_reason(), received.dead_letter_description()), (None, None));
}

/// A second death has its own reason, and nothing of the first one's words.
pub async fn a_second_death_has_its_own_reason(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 1, ..short_locks() };
    fixture.queue_with(settings).await;
    let (queue, _) = with_dead_letters(fixture, &["one"]).await;
    queue.redrive(None, 10).await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    let dead = next(&queue.dead_letters()).await;
    assert_eq!(dead.received().dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(dead.received().dead_letter_description(), None);
}

/// Sending again gets past the queue's own memory of message ids.
pub async fn a_redriven_message_is_no_duplicate(fixture: &Fixture) {
    let settings = QueueSettings { duplicate_window_ms: Some(600_000), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    queue.send(Message::new("one").id("id")).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    assert_eq!(queue.redrive(None, 10).await.unwrap(), 1);
    assert_eq!(text(&next(&queue).await), "one");
}

/// The oldest are sent again first, no more than asked for, and none that is locked.
pub async fn redrive_takes_the_oldest(fixture: &Fixture) {
    let (queue, _) = with_dead_letters(fixture, &["a", "b", "c", "d"]).await;
    let locked = next(&queue.dead_letters()).await;
    assert_eq!(text(&locked), "a");
    assert_eq!(queue.redrive(None, 2).await.unwrap(), 2);
    for wanted in ["b", "c"] {
        let delivery = next(&queue).await;
        assert_eq!(text(&delivery), wanted);
        delivery.complete().await.unwrap();
    }
    nothing(&queue).await;
    locked.complete().await.unwrap();
    assert_eq!(queue.redrive(None, 10).await.unwrap(), 1);
    assert_eq!(queue.redrive(None, 10).await.unwrap(), 0);
}

/// Named dead letters are sent again all or none.
pub async fn chosen_ones_are_redriven_all_or_none(fixture: &Fixture) {
    let (queue, sent) = with_dead_letters(fixture, &["a", "b", "c"]).await;
    let unknown = SequenceNumber(999);
    let refused = refusal(queue.redrive_some(None, [sent[0], unknown]).await);
    assert_eq!(refused, Refusal::MessageNotFound(unknown));
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 3);
    assert_eq!(queue.redrive_some(None, [sent[2], sent[0]]).await.unwrap(), 2);
    assert_eq!(text(&next(&queue.dead_letters()).await), "b");
}

/// Dead letters can be sent to another queue, if that one takes them.
pub async fn dead_letters_can_be_sent_elsewhere(fixture: &Fixture) {
    let (queue, _) = with_dead_letters(fixture, &["one"]).await;
    let target = fixture.other_queue("target").await;
    let off = crate::SettingsPatch {
        status: Some(Status::SendDisabled),
        ..crate::SettingsPatch::default()
    };
    target.update(off).await.unwrap();
    let refused = refusal(queue.redrive(Some(&target), 10).await);
    assert!(matches!(refused, Refusal::QueueDisabled { .. }), "{refused:?}");
    let on =
        crate::SettingsPatch { status: Some(Status::Active), ..crate::SettingsPatch::default() };
    target.update(on).await.unwrap();
    assert_eq!(queue.redrive(Some(&target), 10).await.unwrap(), 1);
    assert_eq!(text(&next(&target).await), "one");
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 0);
}

/// Sending again does not fill a queue beyond its size.
pub async fn redrive_respects_the_size_of_its_target(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send(vec![0; 1000]).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    let settings = QueueSettings { size_bytes_max: 500, ..short_locks() };
    let small = fixture.bellwether().create_queue("small", settings).await.unwrap();
    let refused = refusal(queue.redrive(Some(&small), 10).await);
    assert!(matches!(refused, Refusal::QueueFull { .. }), "{refused:?}");
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 1);
}

/// Dead letters are waited for, received, settled and purged like a queue's messages.
pub async fn dead_letters_are_received_like_a_queue(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let wait = Duration::from_secs(3600);
    let waiting = tokio::spawn(queue.dead_letters().receive().wait(wait).one());
    queue.send("one").await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    let dead = at_last("the dead letter", waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&dead), "one");
    dead.complete().await.unwrap();
    queue.send("two").await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    assert_eq!(queue.dead_letters().purge(None).await.unwrap(), 1);
    nothing(&queue.dead_letters()).await;
}
