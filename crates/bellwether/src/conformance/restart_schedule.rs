//! Schedules over the death of whoever has the store open.

use std::time::Duration;

use super::Fixture;
use super::support::{next, nothing};

/// K2: a slot that was sent is not sent again, and the next one is.
pub async fn a_slot_is_sent_once_over_kills(fixture: &Fixture) {
    fixture.queue().await;
    let schedule = fixture.bellwether().schedule("pulse").unwrap();
    schedule.create("every 1h", "UTC", "orders", "beat").await.unwrap();
    schedule.run_now().await.unwrap();
    let before = schedule.show().await.unwrap();
    for _ in 0..2 {
        let bellwether = fixture.kill().await;
        let schedule = bellwether.schedule("pulse").unwrap();
        assert_eq!(schedule.show().await.unwrap(), before);
    }
    let queue = fixture.bellwether().queue("orders").unwrap();
    next(&queue).await.complete().await.unwrap();
    nothing(&queue).await;
    fixture.advance(Duration::ZERO).await;
    nothing(&queue).await;
}
