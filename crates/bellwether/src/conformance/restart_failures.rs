//! Restarts: what is known of failures afterwards.

use bellwether_core::settings::{Failures, OutagePolicy, QueueSettings};

use super::Fixture;
use super::support::{LOCK, next, nothing, short_locks, text};

/// M63: a suspect is one after a restart, too.
pub async fn a_suspect_is_still_handed_out_alone(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["one", "two"]).await.unwrap();
    next(&queue).await.keep();
    fixture.advance(LOCK).await;
    let one = next(&queue).await;
    assert_eq!((text(&one), one.deliveries()), ("one", 2));
    one.release().await.unwrap();
    let queue = fixture.restart().await.queue("orders").unwrap();
    let alone = queue.receive().max(10).many().await.unwrap();
    assert_eq!(alone.iter().map(text).collect::<Vec<_>>(), ["one"]);
    nothing(&queue).await;
}

/// M69: an outage is forgotten: the store tries again, and finds out again.
pub async fn an_outage_is_found_out_again(fixture: &Fixture) {
    let outage = Some(OutagePolicy { failures: 2, pause_ms_min: 60_000, pause_ms_max: 60_000 });
    let failures = Failures { outage, ..Failures::default() };
    let queue = fixture.queue_with(QueueSettings { failures, ..short_locks() }).await;
    queue.send_batch(["a", "b", "c", "d", "e"]).await.unwrap();
    for _ in 0..2 {
        next(&queue).await.abandon_after(LOCK * 1000).await.unwrap();
    }
    assert!(queue.outage().await.unwrap().is_some());
    let queue = fixture.restart().await.queue("orders").unwrap();
    assert_eq!(queue.outage().await.unwrap(), None);
    for _ in 0..2 {
        next(&queue).await.abandon_after(LOCK * 1000).await.unwrap();
    }
    assert!(queue.outage().await.unwrap().is_some());
    nothing(&queue).await;
}
