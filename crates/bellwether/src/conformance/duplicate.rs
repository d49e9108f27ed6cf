//! Duplicates, dropped at the door.

use bellwether_core::name::SequenceNumber;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{ms, next, nothing, short_locks, text};
use crate::message::Message;
use crate::queue::Queue;

const DROPPED: SequenceNumber = SequenceNumber(0);

async fn detecting(fixture: &Fixture) -> Queue {
    let settings = QueueSettings { duplicate_window_ms: Some(2_000), ..short_locks() };
    fixture.queue_with(settings).await
}

fn message(id: &str) -> Message {
    Message::new(id).id(id)
}

/// D3: within the window an id is accepted once; the second send succeeds and adds nothing.
pub async fn an_id_is_accepted_once(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    assert_ne!(queue.send(message("a")).await.unwrap(), DROPPED);
    assert_eq!(queue.send(message("a")).await.unwrap(), DROPPED);
    assert_ne!(queue.send(message("b")).await.unwrap(), DROPPED);
    for wanted in ["a", "b"] {
        let delivery = next(&queue).await;
        assert_eq!(text(&delivery), wanted);
        delivery.complete().await.unwrap();
    }
    nothing(&queue).await;
    let totals = queue.info().await.unwrap().totals;
    assert_eq!((totals.sent, totals.duplicates), (2, 1));
}

/// The window counts also after the first copy was consumed.
pub async fn a_completed_id_is_still_known(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    queue.send(message("a")).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    assert_eq!(queue.send(message("a")).await.unwrap(), DROPPED);
    nothing(&queue).await;
}

/// After the window an id is new again, and the window counts from the first copy.
pub async fn after_the_window_an_id_is_new(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    queue.send(message("a")).await.unwrap();
    fixture.advance(ms(1_500)).await;
    assert_eq!(queue.send(message("a")).await.unwrap(), DROPPED);
    fixture.advance(ms(600)).await;
    assert_ne!(queue.send(message("a")).await.unwrap(), DROPPED);
}

/// Scheduled messages take part, in both directions.
pub async fn scheduled_messages_take_part(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    let later = |id| message(id).scheduled_at(fixture.wall_in(600_000));
    assert_ne!(queue.send(later("a")).await.unwrap(), DROPPED);
    assert_eq!(queue.send(message("a")).await.unwrap(), DROPPED);
    assert_ne!(queue.send(message("b")).await.unwrap(), DROPPED);
    assert_eq!(queue.send(later("b")).await.unwrap(), DROPPED);
}

/// Within one batch an id is accepted once too, and the numbers say which copy it was.
pub async fn a_batch_is_looked_through(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    let sent = queue.send_batch(["a", "b", "a", "c", "b"].map(message)).await.unwrap();
    let kept: Vec<bool> = sent.iter().map(|sequence| *sequence != DROPPED).collect();
    assert_eq!(kept, [true, true, false, true, false]);
    for (wanted, sequence) in [("a", sent[0]), ("b", sent[1]), ("c", sent[3])] {
        let delivery = next(&queue).await;
        assert_eq!((text(&delivery), delivery.sequence()), (wanted, sequence));
        delivery.complete().await.unwrap();
    }
    nothing(&queue).await;
}

/// Without an id, and in a queue that does not detect them, nothing is a duplicate.
pub async fn without_an_id_nothing_is_a_duplicate(fixture: &Fixture) {
    let queue = detecting(fixture).await;
    queue.send_batch(["same", "same"]).await.unwrap();
    let plain = fixture.other_queue("plain").await;
    plain.send_batch([message("a"), message("a")]).await.unwrap();
    assert_eq!(queue.info().await.unwrap().counts.ready, 2);
    assert_eq!(plain.info().await.unwrap().counts.ready, 2);
}
