//! What a queue does about deliveries that fail: delays, suspects, outages.

use std::time::Duration;

use bellwether_core::command::Disposition;
use bellwether_core::error::Refusal;
use bellwether_core::message::Reason;
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::Cause;
use bellwether_core::settings::{
    Backoff, Failures, FailuresPatch, OutagePolicy, QueueSettings, SettingsPatch,
};

use super::Fixture;
use super::support::{LOCK, at_last, ms, next, nothing, refusal, settle, short_locks, text};
use crate::queue::Queue;

const LONG: Duration = Duration::from_secs(3600);

fn with(failures: Failures) -> QueueSettings {
    QueueSettings { failures, ..short_locks() }
}

fn retrying() -> QueueSettings {
    let retry = Some(Backoff { first_ms: 1_000, max_ms: 1_500, jitter_percent: 0 });
    with(Failures { retry, ..Failures::default() })
}

/// Three failures in a row, and the queue pauses for a second.
fn wary() -> QueueSettings {
    let outage = Some(OutagePolicy { failures: 3, pause_ms_min: 1_000, pause_ms_max: 4_000 });
    with(Failures { outage, ..Failures::default() })
}

/// M60: settings are kept as they were said, and what makes no sense is refused.
pub async fn failure_settings_are_kept(fixture: &Fixture) {
    let queue = fixture.queue_with(retrying()).await;
    assert_eq!(queue.info().await.unwrap().settings, retrying());
    let crashes_max = Some(7);
    let failures = FailuresPatch { crashes_max, outage: Some(None), ..FailuresPatch::default() };
    let patch = SettingsPatch { failures, ..SettingsPatch::default() };
    let expected = Failures { crashes_max: 7, outage: None, ..retrying().failures };
    assert_eq!(queue.update(patch).await.unwrap().settings.failures, expected);
    for retry in [(0, 10, 0), (10, 9, 0), (10, 10, 101)] {
        let (first_ms, max_ms, jitter_percent) = retry;
        let retry = Some(Some(Backoff { first_ms, max_ms, jitter_percent }));
        let failures = FailuresPatch { retry, ..FailuresPatch::default() };
        let patch = SettingsPatch { failures, ..SettingsPatch::default() };
        let refused = refusal(queue.update(patch).await);
        assert!(matches!(refused, Refusal::InvalidValue { what: "failures", .. }), "{refused:?}");
    }
    assert_eq!(queue.info().await.unwrap().settings.failures, expected);
}

/// M61: a message that failed stays away for as long as the queue says, longer each time.
pub async fn a_failed_message_comes_back_when_the_queue_says(fixture: &Fixture) {
    let queue = fixture.queue_with(retrying()).await;
    queue.send("one").await.unwrap();
    for delay in [ms(1_000), ms(1_500), ms(1_500)] {
        next(&queue).await.abandon().await.unwrap();
        nothing(&queue).await;
        fixture.advance(delay).await;
    }
    assert_eq!(next(&queue).await.deliveries(), 4);
}

/// M61: what the receiver says of the delay goes before what the queue says.
pub async fn a_receiver_knows_better_than_the_queue(fixture: &Fixture) {
    let queue = fixture.queue_with(retrying()).await;
    queue.send("one").await.unwrap();
    let token = next(&queue).await.keep();
    settle(&queue, token, Disposition::Abandon { delay_ms: Some(0) }).await.unwrap();
    next(&queue).await.abandon_after(LONG).await.unwrap();
    fixture.advance(ms(1_500)).await;
    nothing(&queue).await;
}

async fn bodies(queue: &Queue) -> Vec<String> {
    let deliveries = queue.receive().max(10).many().await.unwrap();
    deliveries
        .into_iter()
        .map(|delivery| {
            let body = text(&delivery).to_owned();
            delivery.keep();
            body
        })
        .collect()
}

/// M63: what was lost by a crash is handed out alone, and nothing else beside it.
pub async fn a_suspect_is_handed_out_alone(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["one", "two", "three", "four"]).await.unwrap();
    let two = queue.receive().max(2).many().await.unwrap();
    assert_eq!(two.len(), 2);
    for delivery in two {
        delivery.keep();
    }
    fixture.advance(LOCK).await;
    for body in ["one", "two"] {
        let mut alone = queue.receive().max(10).many().await.unwrap();
        assert_eq!(alone.len(), 1, "it comes alone");
        nothing(&queue).await;
        let suspect = alone.remove(0);
        assert_eq!((text(&suspect), suspect.deliveries()), (body, 2));
        suspect.complete().await.unwrap();
    }
    assert_eq!(bodies(&queue).await, ["three", "four"]);
}

/// M64: a receiver that is busy is kept free for a suspect, and then gets it before anything else.
pub async fn a_busy_receiver_is_kept_free_for_a_suspect(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["one", "two"]).await.unwrap();
    next(&queue).await.keep();
    let two = queue.receive().lock(LONG).one().await.unwrap().unwrap();
    fixture.advance(LOCK).await;
    let waiting = queue.clone();
    let waiting = tokio::spawn(async move { waiting.receive().wait(LONG).max(10).many().await });
    queue.send("three").await.unwrap();
    assert_eq!(text(&two), "two");
    let causes = queue.explain(sent[0]).await.unwrap().causes;
    assert_eq!(causes, [Cause::Suspect { crashes: 1 }]);
    two.complete().await.unwrap();
    let got = at_last("the suspect", waiting).await.unwrap().unwrap();
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["one"]);
}

/// M65: a message whose receivers crash while they have nothing else becomes a dead letter that says
/// so.
pub async fn a_message_that_kills_its_receivers_is_set_aside(fixture: &Fixture) {
    let settings = with(Failures { crashes_max: 1, ..Failures::default() });
    let queue = fixture.queue_with(settings).await;
    queue.send_batch(["innocent", "poison"]).await.unwrap();
    assert_eq!(bodies(&queue).await, ["innocent", "poison"]);
    fixture.advance(LOCK).await;
    next(&queue).await.complete().await.unwrap();
    assert_eq!(bodies(&queue).await, ["poison"]);
    fixture.advance(LOCK).await;
    nothing(&queue).await;
    let dead = next(&queue.dead_letters()).await;
    assert_eq!(
        (text(&dead), dead.received().dead_letter_reason()),
        ("poison", Some("ConsumerCrashed"))
    );
    let standing = dead.received().view().message.standing;
    assert_eq!((standing.reason, standing.crashes), (Reason::ConsumerCrashed, 2));
}

/// Fails three messages in a row, each of which stays away.
async fn outage(queue: &Queue) {
    for _ in 0..3 {
        next(queue).await.abandon_after(LONG).await.unwrap();
    }
}

/// M66, M67: failures in a row pause the queue; what is tried then and fails is not counted, and
/// another one is tried next; what is completed ends it.
pub async fn failures_in_a_row_pause_the_queue(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings { deliveries_max: 2, ..wary() }).await;
    let sent = queue.send_batch(["a", "b", "c", "d", "e", "f"]).await.unwrap();
    outage(&queue).await;
    nothing(&queue).await;
    let paused = queue.outage().await.unwrap().unwrap();
    assert_eq!((paused.failures, paused.last_failed, paused.tries), (3, sent[2], 0));
    let causes = queue.explain(sent[3]).await.unwrap().causes;
    assert!(matches!(causes[..], [Cause::Outage { .. }]), "{causes:?}");
    fixture.advance(ms(1_000)).await;
    let tried = next(&queue).await;
    assert_eq!(tried.sequence(), sent[3]);
    nothing(&queue).await;
    assert_eq!(queue.outage().await.unwrap().unwrap().trying, Some(sent[3]));
    tried.abandon().await.unwrap();
    nothing(&queue).await;
    fixture.advance(ms(2_000)).await;
    let other = next(&queue).await;
    assert_eq!(other.sequence(), sent[4], "another one is tried");
    assert_eq!(queue.outage().await.unwrap().unwrap().tries, 1);
    other.complete().await.unwrap();
    assert_eq!(queue.outage().await.unwrap(), None);
    assert_eq!(next(&queue).await.sequence(), sent[5]);
    let peeked = queue.peek(sent[3], 1).await.unwrap();
    let standing = peeked[0].view().message.standing;
    assert_eq!((standing.deliveries, standing.failures, standing.releases), (0, 0, 1));
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 0);
}

/// M68: an operator ends an outage, or switches it off; whoever waits is served.
pub async fn an_operator_ends_an_outage(fixture: &Fixture) {
    let queue = fixture.queue_with(wary()).await;
    queue.send_batch(["a", "b", "c", "d", "e", "f", "g", "h"]).await.unwrap();
    assert_eq!(queue.end_outage().await.unwrap(), None);
    outage(&queue).await;
    nothing(&queue).await;
    assert_eq!(queue.end_outage().await.unwrap().unwrap().failures, 3);
    assert_eq!(queue.outage().await.unwrap(), None);
    outage(&queue).await;
    nothing(&queue).await;
    let failures = FailuresPatch { outage: Some(None), ..FailuresPatch::default() };
    queue.update(SettingsPatch { failures, ..SettingsPatch::default() }).await.unwrap();
    assert_eq!(text(&next(&queue).await), "g");
}

/// M66: neither one message that always fails nor what is completed in between is an outage.
pub async fn one_that_always_fails_is_no_outage(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings { deliveries_max: 5, ..wary() }).await;
    queue.send("poison").await.unwrap();
    for _ in 0..5 {
        next(&queue).await.abandon().await.unwrap();
    }
    assert_eq!(queue.outage().await.unwrap(), None);
    assert_eq!(text(&next(&queue.dead_letters()).await), "poison");
    for _ in 0..4 {
        queue.send_batch(["bad", "good"]).await.unwrap();
        next(&queue).await.abandon_after(LONG).await.unwrap();
        next(&queue).await.complete().await.unwrap();
    }
    assert_eq!(queue.outage().await.unwrap(), None);
    assert!(queue.peek(SequenceNumber(0), 10).await.unwrap().len() == 4);
}
