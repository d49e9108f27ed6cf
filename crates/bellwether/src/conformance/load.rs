//! What scalers look at, and what they tell each other.

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::settings::{SettingsPatch, Status};

use super::Fixture;
use super::support::{Caller, next, refusal};
use crate::scaler::Report;

const ELECTION: &str = "scale/orders";

/// The load tells what waits and for how long, who has messages, and whether anybody may receive.
pub async fn a_queue_tells_its_load(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let none = queue.load().await.unwrap();
    assert_eq!((none.counts.ready, none.oldest_ms, none.is_paused), (0, None, false));
    queue.send_batch(["a", "b", "c"]).await.unwrap();
    fixture.advance(std::time::Duration::from_millis(50)).await;
    let held = next(&queue).await;
    let load = queue.load().await.unwrap();
    assert_eq!((load.counts.ready, load.counts.locked, load.totals.sent), (2, 1, 3));
    assert!(load.oldest_ms.is_some_and(|age| age >= 50), "{load:?}");
    let busy: Vec<_> = load.busy.iter().map(|busy| (busy.member, busy.deliveries)).collect();
    assert_eq!(busy, [(fixture.bellwether().member(), 1)]);
    held.complete().await.unwrap();
    let status = Some(Status::ReceiveDisabled);
    queue.update(SettingsPatch { status, ..SettingsPatch::default() }).await.unwrap();
    let paused = queue.load().await.unwrap();
    assert!(paused.is_paused && paused.busy.is_empty() && paused.totals.completed == 1);
    let nowhere = fixture.bellwether().queue("nowhere").unwrap();
    let refused = refusal(nowhere.load().await);
    assert_eq!(refused, Refusal::QueueNotFound(nowhere.name().clone()));
}

fn texts(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(|report| report.text.as_str()).collect()
}

/// What one tells all hear, until it tells something else or goes.
pub async fn reports_are_heard_by_all(fixture: &Fixture) {
    let ours = fixture.bellwether();
    let other = Caller::join(fixture, 77, std::time::Duration::from_secs(3600)).await;
    assert_eq!(texts(&ours.report(ELECTION, "first").await.unwrap()), ["first"]);
    let lease = super::support::lease_name(ELECTION);
    let tell = |text: &str| Command::Report { lease: lease.clone(), text: text.into() };
    other.ask(tell("second")).await.unwrap();
    let heard = ours.report(ELECTION, "third").await.unwrap();
    assert_eq!(texts(&heard), ["third", "second"]);
    assert_eq!(heard[0].member, ours.member());
    assert!(ours.reports("another").await.unwrap().is_empty());
    other.ask(Command::Leave).await.unwrap();
    assert_eq!(texts(&ours.reports(ELECTION).await.unwrap()), ["third"]);
    assert!(ours.report(ELECTION, "").await.unwrap().is_empty(), "taken back");
}
