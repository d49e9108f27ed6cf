//! Restarts: order and limits.

use bellwether_core::settings::Order;

use super::Fixture;
use super::order::{ordered, send, take};
use super::support::{LOCK, next, nothing, text};

/// O14: after a restart settings, priorities and keys are as they were.
pub async fn a_restart_keeps_ranks_and_order(fixture: &Fixture) {
    let order = Order { key_in_flight_max: Some(1), ..Order::default() };
    let queue = ordered(fixture, order.clone()).await;
    send(&queue, &["a1", "a2"], |m| m.key("a")).await;
    send(&queue, &["high"], |m| m.key("a").priority(9)).await;
    let held = next(&queue).await;
    assert_eq!(text(&held), "high");
    let _ = held.keep();
    let queue = fixture.restart().await.queue("orders").unwrap();
    assert_eq!(queue.info().await.unwrap().settings.order, order);
    // The one that is held counts.
    nothing(&queue).await;
    fixture.advance(LOCK).await;
    assert_eq!(take(&queue, 3).await, ["high", "a1", "a2"]);
}
