//! Messages and dead letters that move on to another queue.

use bellwether_core::error::Refusal;
use bellwether_core::settings::{QueueSettings, SettingsPatch, Status};

use super::Fixture;
use super::support::{at_last, ms, next, nothing, refusal, sessions, short_locks, text};
use crate::message::Message;
use crate::queue::Queue;

fn to(target: &Queue) -> QueueSettings {
    QueueSettings { forward_to: Some(target.name().clone()), ..short_locks() }
}

fn patch_to(target: Option<&Queue>) -> SettingsPatch {
    let forward_to = Some(target.map(|queue| queue.name().clone()));
    SettingsPatch { forward_to, ..SettingsPatch::default() }
}

/// A queue forwards to one that exists, and not to itself.
pub async fn a_target_must_exist(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let nowhere = fixture.bellwether().queue("nowhere").unwrap();
    for target in [&nowhere, &queue] {
        let refused = refusal(queue.update(patch_to(Some(target))).await);
        assert!(matches!(refused, Refusal::InvalidValue { .. }), "{refused:?}");
    }
    let refused = refusal(fixture.bellwether().create_queue("new", to(&nowhere)).await);
    assert!(matches!(refused, Refusal::InvalidValue { .. }), "{refused:?}");
}

/// What is sent to a forwarding queue is received from its target, as it was sent.
pub async fn a_message_moves_on(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let queue = fixture.queue_with(to(&target)).await;
    let sent = Message::new("one").id("id").property("key", "value");
    queue.send(sent.clone()).await.unwrap();
    let delivery = next(&target).await;
    assert_eq!((&*delivery, delivery.deliveries()), (&sent, 1));
    let totals = queue.info().await.unwrap().totals;
    assert_eq!((totals.sent, totals.forwarded), (1, 1));
    assert_eq!(target.info().await.unwrap().totals.sent, 1);
}

/// Messages that were there when forwarding was switched on move on too.
pub async fn waiting_messages_move_on(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let queue = fixture.queue().await;
    queue.send_batch((0..5000).map(|n| n.to_string())).await.unwrap();
    queue.update(patch_to(Some(&target))).await.unwrap();
    at_last("all messages", async {
        while target.info().await.unwrap().counts.ready < 5000 {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.ready, info.totals.forwarded), (0, 5000));
    assert_eq!(text(&next(&target).await), "0");
}

/// A message that comes back in a forwarding queue moves on then.
pub async fn a_message_that_comes_back_moves_on(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let delivery = next(&queue).await;
    queue.update(patch_to(Some(&target))).await.unwrap();
    delivery.abandon().await.unwrap();
    assert_eq!(text(&next(&target).await), "one");
    nothing(&queue).await;
}

/// A scheduled message moves on when it is due.
pub async fn a_scheduled_message_moves_on_when_due(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let queue = fixture.queue_with(to(&target)).await;
    let later = Message::new("later").scheduled_at(fixture.wall_in(1_000));
    queue.send(later).await.unwrap();
    fixture.settle().await;
    nothing(&target).await;
    fixture.advance(ms(1_000)).await;
    assert_eq!(text(&next(&target).await), "later");
}

/// A ring of queues ends after so many hops, with a dead letter that says so.
pub async fn a_ring_ends(fixture: &Fixture) {
    let ping = fixture.other_queue("ping").await;
    let pong = fixture.bellwether().create_queue("pong", to(&ping)).await.unwrap();
    ping.update(patch_to(Some(&pong))).await.unwrap();
    ping.send("ball").await.unwrap();
    fixture.settle().await;
    let dead = ping.info().await.unwrap().counts.dead_letters;
    let at = if dead == 1 { &ping } else { &pong };
    let dead = next(&at.dead_letters()).await;
    assert_eq!(dead.received().dead_letter_reason(), Some("MaxTransferHopCountExceeded"));
}

/// What its target does not take becomes a dead letter of the source.
pub async fn what_the_target_refuses_becomes_a_dead_letter(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let queue = fixture.queue_with(to(&target)).await;
    let off = SettingsPatch { status: Some(Status::Disabled), ..SettingsPatch::default() };
    target.update(off).await.unwrap();
    queue.send("refused").await.unwrap();
    target.delete().await.unwrap();
    queue.send("nowhere").await.unwrap();
    for wanted in ["refused", "nowhere"] {
        let dead = next(&queue.dead_letters()).await;
        assert_eq!(text(&dead), wanted);
        assert_eq!(dead.received().dead_letter_reason(), Some("ForwardTargetUnavailable"));
        dead.complete().await.unwrap();
    }
}

/// A message without a session that is forwarded to a session queue says so.
pub async fn a_session_queue_takes_only_sessions(fixture: &Fixture) {
    let target = fixture.bellwether().create_queue("target", sessions()).await.unwrap();
    let queue = fixture.queue_with(to(&target)).await;
    queue.send("without").await.unwrap();
    queue.send(Message::new("with").session("s")).await.unwrap();
    let dead = next(&queue.dead_letters()).await;
    assert_eq!(text(&dead), "without");
    assert_eq!(dead.received().dead_letter_reason(), Some("Session ID is null"));
    let session = target.accept_session().named("s").await.unwrap();
    assert_eq!(text(&session.receive().one().await.unwrap().unwrap()), "with");
}

/// Dead letters can be collected in another queue, with their reason.
pub async fn dead_letters_are_collected(fixture: &Fixture) {
    let morgue = fixture.other_queue("morgue").await;
    let settings = QueueSettings {
        forward_dead_letters_to: Some(morgue.name().clone()),
        deliveries_max: 1,
        ..short_locks()
    };
    let queue = fixture.queue_with(settings).await;
    queue.send_batch(["said", "tried"]).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    let said = next(&morgue).await;
    assert_eq!((text(&said), said.received().dead_letter_reason()), ("said", Some("why")));
    assert_eq!(said.received().dead_letter_description(), Some("because"));
    let tried = next(&morgue).await;
    let reason = tried.received().dead_letter_reason();
    assert_eq!((text(&tried), reason), ("tried", Some("MaxDeliveryCountExceeded")));
    assert_eq!(queue.info().await.unwrap().counts.dead_letters, 0);
}

/// If the queue that collects dead letters is gone, they stay where they are.
pub async fn uncollected_dead_letters_stay(fixture: &Fixture) {
    let morgue = fixture.other_queue("morgue").await;
    let settings =
        QueueSettings { forward_dead_letters_to: Some(morgue.name().clone()), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    morgue.delete().await.unwrap();
    queue.send("one").await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    assert_eq!(text(&next(&queue.dead_letters()).await), "one");
}
