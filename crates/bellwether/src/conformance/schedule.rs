//! Schedules: one message a slot (`docs/schedules.md`).

use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::schedule::Missed;

use super::Fixture;
use super::support::{next, nothing, refusal, text};

/// K1, K3, K6: what is due is sent, with its slot as the time it was enqueued at.
pub async fn a_slot_sends_one_message(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let schedule = fixture.bellwether().schedule("pulse").unwrap();
    assert!(schedule.create("every 1s", "UTC", "orders", "beat").await.unwrap());
    assert!(!schedule.create("every 2s", "UTC", "orders", "other").await.unwrap());
    nothing(&queue).await;
    let due = schedule.show().await.unwrap().next.unwrap();
    fixture.advance(Duration::from_secs(1)).await;
    let delivery = next(&queue).await;
    assert_eq!((text(&delivery), delivery.id.as_deref()), ("beat", Some("pulse")));
    assert_eq!(delivery.received().enqueued_at(), due);
    delivery.complete().await.unwrap();
    let shown = schedule.show().await.unwrap();
    assert_eq!((shown.sent, shown.last), (1, Some(due)));
    assert_eq!(fixture.bellwether().schedules().await.unwrap(), [shown]);
}

/// K4, K6: paused, run, deleted.
pub async fn a_schedule_is_steered(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let schedule = fixture.bellwether().schedule("pulse").unwrap().missed(Missed::Skip);
    schedule.create("every 1s", "UTC", "orders", "beat").await.unwrap();
    schedule.pause().await.unwrap();
    fixture.advance(Duration::from_secs(2)).await;
    nothing(&queue).await;
    schedule.run_now().await.unwrap();
    next(&queue).await.complete().await.unwrap();
    schedule.resume().await.unwrap();
    assert!(schedule.show().await.unwrap().next.is_some());
    schedule.delete().await.unwrap();
    let gone = refusal(schedule.show().await);
    assert_eq!(gone, Refusal::ScheduleNotFound(schedule.name().clone()));
}

/// K8: what cannot be read is refused.
pub async fn a_rule_that_makes_no_sense_is_refused(fixture: &Fixture) {
    fixture.queue().await;
    let schedule = fixture.bellwether().schedule("pulse").unwrap();
    for (rule, zone) in [("61 * * * *", "UTC"), ("@daily", "Mars/Olympus"), ("0 0 30 2 *", "UTC")] {
        let refused = refusal(schedule.create(rule, zone, "orders", "").await);
        assert!(matches!(refused, Refusal::InvalidValue { what: "rule", .. }), "{refused:?}");
    }
}
