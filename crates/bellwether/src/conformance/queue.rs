//! Queues: created, changed, counted, emptied, deleted.

use std::time::Duration;

use bellwether_core::command::Command;
use bellwether_core::error::{Operation, Refusal};
use bellwether_core::limits;
use bellwether_core::name::QueueName;
use bellwether_core::outcome::{Counts, Outcome};
use bellwether_core::settings::{Durability, QueueSettings, SettingsPatch, Status};

use super::Fixture;
use super::support::{
    Caller, LOCK, and_delete, at_last, ms, next, nothing, refusal, short_locks, text,
};
use crate::error::Error;
use crate::message::Message;

/// Of twenty that create a queue together one does, and its settings are the ones kept.
pub async fn create_is_idempotent_under_a_race(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let mut racers = Vec::new();
    for lock_ms in 1000..1020 {
        let caller = Caller::of(&bellwether);
        let settings = Box::new(QueueSettings { lock_ms, ..QueueSettings::default() });
        let queue = QueueName::new("orders").unwrap();
        let create = Command::CreateQueue { queue, settings };
        racers.push((lock_ms, tokio::spawn(async move { caller.ask(create).await })));
    }
    let mut created = Vec::new();
    for (lock_ms, racer) in racers {
        match racer.await.unwrap().unwrap() {
            Outcome::QueueCreated { existed: false } => created.push(lock_ms),
            Outcome::QueueCreated { existed: true } => {}
            other => panic!("{other:?}"),
        }
    }
    let kept = bellwether.queue("orders").unwrap().info().await.unwrap().settings.lock_ms;
    assert_eq!(created, [kept]);
    assert_eq!(bellwether.queues().await.unwrap().len(), 1);
}

/// Creating a queue that exists leaves its settings and its messages alone.
pub async fn an_existing_queue_is_left_alone(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let again = QueueSettings { lock_ms: 77_777, ..QueueSettings::default() };
    let queue = fixture.queue_with(again).await;
    assert_eq!(queue.info().await.unwrap().settings, short_locks());
    assert_eq!(text(&next(&queue).await), "one");
}

/// A queue created without a word behaves as documented.
pub async fn settings_have_the_documented_defaults(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let settings = queue.info().await.unwrap().settings;
    assert_eq!((settings.lock_ms, settings.deliveries_max), (60_000, 10));
    assert_eq!((settings.ttl_ms, settings.dead_letter_expired), (None, false));
    assert_eq!((settings.duplicate_window_ms, settings.sessions), (None, false));
    assert_eq!((settings.forward_to, settings.forward_dead_letters_to), (None, None));
    assert_eq!((settings.delete_idle_ms, settings.status), (None, Status::Active));
    assert_eq!(settings.durability, Durability::Flushed);
}

/// A value out of range is refused, and no queue is made of it.
pub async fn settings_out_of_range_are_refused(fixture: &Fixture) {
    let good = QueueSettings::default;
    let bad = [
        QueueSettings { lock_ms: limits::LOCK_MS_MIN - 1, ..good() },
        QueueSettings { lock_ms: limits::LOCK_MS_MAX + 1, ..good() },
        QueueSettings { deliveries_max: 0, ..good() },
        QueueSettings { ttl_ms: Some(0), ..good() },
        QueueSettings { duplicate_window_ms: Some(0), ..good() },
        QueueSettings { message_bytes_max: limits::CONTENT_BYTES_MAX + 1, ..good() },
        QueueSettings { size_bytes_max: 0, ..good() },
    ];
    let bellwether = fixture.bellwether();
    for settings in bad {
        let refused = refusal(bellwether.create_queue("orders", settings.clone()).await);
        assert!(matches!(refused, Refusal::InvalidValue { .. }), "{settings:?}: {refused:?}");
    }
    assert!(bellwether.queues().await.unwrap().is_empty());
}

/// An update changes what it names and nothing else.
pub async fn an_update_changes_what_it_names(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let patch = SettingsPatch {
        deliveries_max: Some(3),
        ttl_ms: Some(Some(5_000)),
        ..SettingsPatch::default()
    };
    let changed = queue.update(patch).await.unwrap().settings;
    let wanted = QueueSettings { deliveries_max: 3, ttl_ms: Some(5_000), ..short_locks() };
    assert_eq!(changed, wanted);
    let patch = SettingsPatch { ttl_ms: Some(None), ..SettingsPatch::default() };
    queue.update(patch).await.unwrap();
    let wanted = QueueSettings { deliveries_max: 3, ..short_locks() };
    assert_eq!(queue.info().await.unwrap().settings, wanted);
}

/// An update with one bad value changes nothing, and duplicates are not switched on later.
pub async fn a_refused_update_changes_nothing(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let bad = [
        SettingsPatch { lock_ms: Some(1), deliveries_max: Some(3), ..SettingsPatch::default() },
        SettingsPatch {
            duplicate_window_ms: Some(60_000),
            deliveries_max: Some(3),
            ..SettingsPatch::default()
        },
    ];
    for patch in bad {
        let refused = refusal(queue.update(patch).await);
        assert!(matches!(refused, Refusal::InvalidValue { .. }), "{refused:?}");
    }
    assert_eq!(queue.info().await.unwrap().settings, short_locks());
}

/// Names are kept as written and compared without case.
pub async fn names_compare_without_case(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    bellwether.create_queue("Orders/West", short_locks()).await.unwrap();
    let same = bellwether.create_queue("oRDERS/wEST", short_locks()).await.unwrap();
    same.send("one").await.unwrap();
    let queues = bellwether.queues().await.unwrap();
    assert_eq!(queues.len(), 1);
    assert_eq!(queues[0].name.as_str(), "Orders/West");
    let queue = bellwether.queue("ORDERS/WEST").unwrap();
    assert_eq!(text(&next(&queue).await), "one");
}

/// A name that is empty, too long or not printable is none.
pub async fn names_that_cannot_be_are_refused(fixture: &Fixture) {
    let too_long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    for name in ["", "a\nb", too_long.as_str()] {
        let refused = refusal(fixture.bellwether().create_queue(name, short_locks()).await);
        assert!(matches!(refused, Refusal::InvalidName { .. }), "{refused:?}");
    }
    let longest = "x".repeat(limits::NAME_BYTES_MAX);
    fixture.bellwether().create_queue(&longest, short_locks()).await.unwrap();
}

/// What is asked of a queue that is not there is refused, and no queue appears.
pub async fn an_unknown_queue_is_refused(fixture: &Fixture) {
    let queue = fixture.bellwether().queue("nowhere").unwrap();
    let refused = [
        refusal(queue.send("one").await),
        refusal(queue.receive().one().await),
        refusal(queue.receive().wait(Duration::from_secs(1)).one().await),
        refusal(queue.info().await),
        refusal(queue.update(SettingsPatch::default()).await),
        refusal(queue.purge(None).await),
        refusal(queue.delete().await),
    ];
    for refused in refused {
        assert_eq!(refused, Refusal::QueueNotFound(queue.name().clone()));
    }
    assert!(fixture.bellwether().queues().await.unwrap().is_empty());
}

/// A deleted queue takes its messages and dead letters along; one made anew is empty.
pub async fn a_deleted_queue_takes_everything_along(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["dead", "locked", "ready"]).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    let locked = next(&queue).await;
    queue.delete().await.unwrap();
    assert!(matches!(refusal(locked.complete().await), Refusal::QueueNotFound(_)));

    let queue = fixture.queue().await;
    nothing(&queue).await;
    nothing(&queue.dead_letters()).await;
    assert_eq!(queue.info().await.unwrap().counts, Counts::default());
}

/// Those who wait for a queue's messages hear that it was deleted.
pub async fn deleting_answers_those_who_wait(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let waiting = tokio::spawn(queue.receive().wait(Duration::from_secs(3600)).one());
    tokio::time::sleep(ms(20)).await;
    queue.delete().await.unwrap();
    let answer = at_last("an answer", waiting).await.unwrap();
    assert_eq!(refusal(answer), Refusal::QueueNotFound(queue.name().clone()));
}

/// Purging removes what nobody has locked, and counts it.
pub async fn purge_spares_what_is_locked(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["locked", "deferred", "ready", "ready"]).await.unwrap();
    let later = Message::new("scheduled").scheduled_at(fixture.wall_in(60_000));
    queue.send(later).await.unwrap();
    let locked = next(&queue).await;
    next(&queue).await.defer().await.unwrap();
    assert_eq!(queue.purge(None).await.unwrap(), 4);
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.locked, info.totals.purged), (1, 4));
    assert_eq!((info.counts.ready, info.counts.deferred, info.counts.scheduled), (0, 0, 0));
    locked.complete().await.unwrap();
    nothing(&queue).await;
}

/// Purging what is older than a time spares what is younger.
pub async fn purge_spares_what_is_younger(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["old", "old"]).await.unwrap();
    fixture.advance(ms(50)).await;
    let between = fixture.now().wall;
    fixture.advance(ms(50)).await;
    queue.send("young").await.unwrap();
    assert_eq!(queue.purge(Some(between)).await.unwrap(), 2);
    assert_eq!(text(&next(&queue).await), "young");
}

/// A status refuses what it says and nothing else; the messages stay.
pub async fn a_status_refuses_what_it_says(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let cases = [
        (Status::SendDisabled, false, true),
        (Status::ReceiveDisabled, true, false),
        (Status::Disabled, false, false),
        (Status::Active, true, true),
    ];
    for (status, can_send, can_receive) in cases {
        let patch = SettingsPatch { status: Some(status), ..SettingsPatch::default() };
        queue.update(patch).await.unwrap();
        let no = |operation| Refusal::QueueDisabled { queue: queue.name().clone(), operation };
        match queue.send("more").await {
            Ok(_) => assert!(can_send, "{status:?}"),
            refused => assert_eq!((refusal(refused), can_send), (no(Operation::Send), false)),
        }
        match queue.receive().one().await {
            Ok(Some(delivery)) => {
                assert!(can_receive, "{status:?}");
                delivery.release().await.unwrap();
            }
            refused => {
                assert_eq!((refusal(refused), can_receive), (no(Operation::Receive), false));
            }
        }
    }
    assert_eq!(queue.info().await.unwrap().counts.ready, 3);
}

/// A queue that is switched on again serves those who waited all along.
pub async fn a_queue_switched_on_serves_those_who_wait(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let waiting = tokio::spawn(queue.receive().wait(Duration::from_secs(3600)).one());
    tokio::time::sleep(ms(20)).await;
    let status = |status| SettingsPatch { status: Some(status), ..SettingsPatch::default() };
    queue.update(status(Status::ReceiveDisabled)).await.unwrap();
    queue.send("one").await.unwrap();
    fixture.settle().await;
    assert!(
        !waiting.is_finished() || fixture.loses_answers(),
        "served by a queue that is switched off"
    );
    queue.update(status(Status::Active)).await.unwrap();
    match at_last("the message", waiting).await.unwrap() {
        // A wait that is asked for again meets the queue as it is then.
        Err(Error::Refused(Refusal::QueueDisabled { .. })) if fixture.loses_answers() => {
            assert_eq!(text(&next(&queue).await), "one");
        }
        served => assert_eq!(text(&served.unwrap().unwrap()), "one"),
    }
}

/// The counters show how many messages are in which state, and how large they are.
pub async fn counters_show_every_state(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch(["dead", "deferred", "delayed", "locked", "ready", "ready"]).await.unwrap();
    let later = Message::new("scheduled").scheduled_at(fixture.wall_in(600_000));
    queue.send(later).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    next(&queue).await.defer().await.unwrap();
    next(&queue).await.abandon_after(Duration::from_secs(600)).await.unwrap();
    let locked = next(&queue).await;
    let counts = queue.info().await.unwrap().counts;
    let wanted = Counts {
        ready: 2,
        locked: 1,
        scheduled: 2,
        deferred: 1,
        dead_letters: 1,
        size_bytes: counts.size_bytes,
    };
    assert_eq!(counts, wanted);
    assert!(counts.size_bytes >= "deaddeferreddelayedlockedreadyreadyscheduled".len() as u64);
    locked.complete().await.unwrap();
    queue.purge(None).await.unwrap();
    queue.dead_letters().purge(None).await.unwrap();
    assert_eq!(queue.info().await.unwrap().counts, Counts::default());
}

/// D8: what came in is what is still there and what left, each for a counted reason.
pub async fn what_came_in_is_there_or_left(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    let settings = QueueSettings { duplicate_window_ms: Some(60_000), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    for n in 0..12 {
        queue.send(Message::new(format!("{n}")).id(format!("{}", n % 10))).await.unwrap();
    }
    queue.send(Message::new("short").ttl(LOCK)).await.unwrap();
    let later = Message::new("never").scheduled_at(fixture.wall_in(600_000));
    let later = queue.send(later).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    and_delete(fixture, &queue, 1).await;
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    assert_eq!(queue.redrive(None, 1).await.unwrap(), 1);
    assert_eq!(queue.redrive(Some(&target), 1).await.unwrap(), 1);
    assert_eq!(queue.cancel([later]).await.unwrap(), 1);
    fixture.advance(LOCK).await;
    let locked = next(&queue).await;
    next(&queue).await.defer().await.unwrap();

    let info = queue.info().await.unwrap();
    let (counts, totals) = (info.counts, info.totals);
    assert_eq!((totals.sent, totals.duplicates), (12, 2));
    assert_eq!((totals.completed, totals.expired, totals.cancelled), (2, 1, 1));
    assert_eq!((totals.forwarded, totals.purged, totals.dead_lettered), (1, 0, 2));
    let live =
        counts.ready + counts.locked + counts.scheduled + counts.deferred + counts.dead_letters;
    let left = totals.completed + totals.expired + totals.purged + totals.cancelled;
    assert_eq!(totals.sent, live + left + totals.forwarded);
    assert_eq!(target.info().await.unwrap().totals.sent, 1);
    locked.complete().await.unwrap();
}

/// Queues are listed by name, page by page.
pub async fn queues_are_listed_by_name(fixture: &Fixture) {
    let caller = Caller::of(&fixture.bellwether());
    for name in ["pear", "Apple", "quince", "fig"] {
        fixture.other_queue(name).await;
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let command = Command::ListQueues { after: after.clone(), max: 3 };
        let Outcome::Queues(page) = caller.ask(command).await.unwrap() else { panic!("queues") };
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        after = page.last().map(|info| info.name.clone());
        found.extend(page.into_iter().map(|info| info.name.to_string()));
    }
    assert_eq!(found, ["Apple", "fig", "pear", "quince"]);
}

/// A queue that nobody uses for so long deletes itself, and one that is used does not.
pub async fn an_idle_queue_deletes_itself(fixture: &Fixture) {
    let settings = QueueSettings { delete_idle_ms: Some(3_000), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    for _ in 0..2 {
        fixture.advance(ms(2_000)).await;
        queue.send("still here").await.unwrap();
    }
    fixture.advance(ms(2_900)).await;
    assert_eq!(fixture.bellwether().queues().await.unwrap().len(), 1);
    fixture.advance(ms(300)).await;
    assert_eq!(fixture.bellwether().queues().await.unwrap().len(), 0);
}
