//! Limits: what is too much is refused by name, and everything else goes on.

use bellwether_core::command::{Command, Disposition, NewContent, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::limits;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{MemberId, SequenceNumber};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::QueueSettings;
use bytes::Bytes;

use super::Fixture;
use super::support::{
    Caller, and_delete, bound, ms, next, nothing, path_of, receive_command, refusal, short_locks,
    text,
};
use crate::message::{Message, Overlay};

/// A message larger than its queue allows is refused; one as large is not.
pub async fn a_message_can_be_too_large(fixture: &Fixture) {
    let settings = QueueSettings { message_bytes_max: 1_000, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let overhead = crate::message::encode(&Message::new(vec![0; 990])).len() - 990;
    queue.send(vec![0; 1_000 - overhead]).await.unwrap();
    let refused = refusal(queue.send(vec![0; 1_001 - overhead]).await);
    assert!(
        matches!(refused, Refusal::TooLarge { bytes: 1_001, bytes_max: 1_000, .. }),
        "{refused:?}"
    );
    // Properties count.
    let wordy = Message::new("").property("key", "x".repeat(1_000));
    assert!(matches!(refusal(queue.send(wordy).await), Refusal::TooLarge { .. }));
    assert!(!refused.retry());
}

/// Limits: the largest message there is arrives whole.
pub async fn the_largest_message_arrives(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let body = vec![0x5a; limits::CONTENT_BYTES_MAX as usize - 100];
    queue.send(body.clone()).await.unwrap();
    let delivery = next(&queue).await;
    assert!(delivery.body()[..] == body[..]);
    delivery.complete().await.unwrap();
    let body = vec![0; limits::CONTENT_BYTES_MAX as usize + 1];
    assert!(matches!(refusal(queue.send(body).await), Refusal::TooLarge { .. }));
}

/// A batch has a largest size, in bytes and in messages; beyond, nothing of it is taken.
pub async fn a_batch_can_be_too_large(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let half = vec![0; limits::COMMAND_BYTES_MAX as usize / 2];
    let refused = refusal(queue.send_batch([half.clone(), half]).await);
    assert!(matches!(refused, Refusal::TooLarge { .. }), "{refused:?}");
    let many = (0..=limits::BATCH_MESSAGES_MAX).map(|_| "");
    let refused = refusal(queue.send_batch(many).await);
    assert!(matches!(refused, Refusal::TooMany { .. }), "{refused:?}");
    nothing(&queue).await;
    let most = (0..limits::BATCH_MESSAGES_MAX).map(|_| "");
    assert_eq!(queue.send_batch(most).await.unwrap().len(), limits::BATCH_MESSAGES_MAX);
}

/// Limits: a receive gives out no more than its limit, however many are asked for.
pub async fn a_receive_has_a_limit(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let most = limits::RECEIVE_MESSAGES_MAX;
    queue.send_batch((0..limits::BATCH_MESSAGES_MAX).map(|_| "")).await.unwrap();
    queue.send_batch(["", ""]).await.unwrap();
    assert_eq!(and_delete(fixture, &queue, u32::MAX).await, most as usize);
    assert_eq!(and_delete(fixture, &queue, u32::MAX).await, 2);
}

/// Limits: nor more bytes than fit into memory many times over; but one message is always given.
pub async fn a_receive_has_a_limit_in_bytes(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let third = vec![0; limits::RECEIVE_BYTES_MAX as usize / 3];
    for _ in 0..4 {
        queue.send(third.clone()).await.unwrap();
    }
    assert_eq!(queue.peek(SequenceNumber(0), 10).await.unwrap().len(), 2);
    let first = queue.receive().max(10).many().await.unwrap();
    let second = queue.receive().max(10).many().await.unwrap();
    assert_eq!((first.len(), second.len()), (2, 2), "nothing is lost that was not given");
    let mut deferred = Vec::new();
    for delivery in first.into_iter().chain(second) {
        deferred.push(delivery.sequence());
        delivery.defer().await.unwrap();
    }
    let refused = refusal(queue.receive_deferred(deferred.clone()).await);
    assert!(matches!(refused, Refusal::TooLarge { .. }), "{refused:?}");
    deferred.truncate(2);
    assert_eq!(queue.receive_deferred(deferred).await.unwrap().len(), 2);
}

/// A full queue refuses senders, by name; receivers go on and make room.
pub async fn a_full_queue_refuses_senders(fixture: &Fixture) {
    let settings = QueueSettings { size_bytes_max: 10_000, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let mut sent = 0;
    let refused = loop {
        match queue.send(vec![0; 1_000]).await {
            Ok(_) => sent += 1,
            refused => break refusal(refused),
        }
    };
    assert!((8..=9).contains(&sent), "{sent}");
    let full = Refusal::QueueFull { queue: queue.name().clone(), size_bytes_max: 10_000 };
    assert_eq!(refused, full);
    assert!(refused.retry());
    // Another queue is not touched by it.
    fixture.other_queue("other").await.send("one").await.unwrap();
    let mut delivery = next(&queue).await;
    delivery.renew().await.unwrap();
    delivery.abandon().await.unwrap();
    next(&queue).await.complete().await.unwrap();
    queue.send(vec![0; 1_000]).await.unwrap();
    assert_eq!(refusal(queue.send(vec![0; 1_000]).await), full);
}

/// At the memory budget senders are told to come again; receivers go on.
pub async fn a_full_store_refuses_senders(fixture: &Fixture) {
    const MESSAGES: u64 = 100;
    fixture.restart_with_memory(MESSAGES * limits::MESSAGE_MEMORY_BYTES).await;
    let queue = fixture.queue().await;
    let mut sent = 0;
    let refused = loop {
        match queue.send("one").await {
            Ok(_) => sent += 1,
            refused => break refusal(refused),
        }
    };
    assert_eq!(sent, MESSAGES);
    assert!(matches!(refused, Refusal::Busy { retry_after_ms: 1.. }), "{refused:?}");
    assert!(refused.retry());
    let batch = refusal(queue.send_batch(["a", "b"]).await);
    assert!(matches!(batch, Refusal::Busy { .. }), "{batch:?}");
    let mut delivery = next(&queue).await;
    delivery.renew().await.unwrap();
    delivery.dead_letter("why", "because").await.unwrap();
    next(&queue).await.abandon().await.unwrap();
    next(&queue).await.complete().await.unwrap();
    Caller::of(&fixture.bellwether()).acquire(bound("leader", 1, 60_000)).await.unwrap();
    queue.send("room for one").await.unwrap();
    assert!(matches!(refusal(queue.send("two").await), Refusal::Busy { .. }));
    queue.purge(None).await.unwrap();
    queue.send("room for many").await.unwrap();
    assert_eq!(text(&next(&queue).await), "room for many");
}

/// V1: ids remembered for duplicate detection count as memory until they are forgotten.
pub async fn remembered_ids_count_as_memory(fixture: &Fixture) {
    fixture.restart_with_memory(20 * limits::MESSAGE_MEMORY_BYTES).await;
    let settings = QueueSettings { duplicate_window_ms: Some(60_000), ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let mut sent = 0;
    while sent < 1000 {
        match queue.send(Message::new("one").id(sent.to_string())).await {
            Ok(_) => sent += 1,
            refused => {
                assert!(matches!(refusal(refused), Refusal::Busy { .. }));
                break;
            }
        }
        next(&queue).await.complete().await.unwrap();
    }
    assert!(sent < 100, "{sent} ids were remembered in memory for 20 messages");
    fixture.advance(ms(61_000)).await;
    queue.send(Message::new("one").id("new")).await.unwrap();
}

/// Limits: what a member or a holder says of itself has a limit.
pub async fn metadata_has_a_limit(fixture: &Fixture) {
    let caller = Caller::of(&fixture.bellwether());
    let metadata = "x".repeat(limits::METADATA_BYTES_MAX + 1);
    let mut ask = bound("leader", 1, 60_000);
    ask.metadata.clone_from(&metadata);
    let refused = caller.acquire(ask).await;
    assert!(matches!(refused, Err(Refusal::TooLarge { .. })), "{refused:?}");
    let join = Command::Join { id: MemberId(9), metadata, ttl_ms: 60_000 };
    let refused = refusal(caller.ask(join).await);
    assert!(matches!(refused, Refusal::TooLarge { .. }), "{refused:?}");
}

/// D2: a command that names contents which do not travel with it is refused.
pub async fn contents_must_travel_along(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = Caller::of(&fixture.bellwether());
    let send = |content_bytes| Command::Send {
        queue: queue.name().clone(),
        messages: Few::One(NewMessage { content_bytes, ..NewMessage::default() }),
    };
    let three = Bytes::from_static(b"abc");
    for (bytes, contents) in [(3, vec![]), (2, vec![three.clone()]), (4, vec![three.clone()])] {
        let refused = refusal(caller.ask_as(0, send(bytes), contents).await);
        assert!(matches!(refused, Refusal::InvalidValue { .. }), "{refused:?}");
    }
    queue.send("one").await.unwrap();
    let token = next(&queue).await.keep();
    let overlay = Some(NewContent { index: 7, bytes: 3 });
    let settlements = Few::One(Settlement { token, disposition: Disposition::Defer, overlay });
    let settle = Command::Settle { from: path_of(&queue), settlements };
    let refused = refusal(caller.ask_as(0, settle, vec![three]).await);
    assert!(matches!(refused, Refusal::InvalidValue { .. }), "{refused:?}");
    assert_eq!(queue.info().await.unwrap().counts.locked, 1);
}

/// Whoever receives a message reads all of its properties: so there are not too many of them, neither
/// from the start nor bit by bit. (M55)
pub async fn properties_have_a_limit(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let with = |count: usize| {
        let names = (0..count).map(|number| format!("p{number}"));
        names.fold(Message::new("x".repeat(100_000)), |message, name| message.property(name, 1))
    };
    let refused = refusal(queue.send(with(limits::PROPERTIES_MAX + 1)).await);
    assert!(matches!(refused, Refusal::TooMany { .. }), "{refused:?}");
    let long = "x".repeat(limits::PROPERTIES_BYTES_MAX);
    let refused = refusal(queue.send(Message::new("").property("long", long.clone())).await);
    assert!(matches!(refused, Refusal::InvalidValue { what: "properties", .. }), "{refused:?}");

    let near = Message::new("").subject(long.clone()).property("long", &long[100..]);
    queue.send(near).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    queue.send(with(limits::PROPERTIES_MAX)).await.unwrap();
    let half = &long[..long.len() / 2];
    let mut delivery = next(&queue).await;
    delivery.set_property("half", half);
    delivery.abandon().await.unwrap();
    let mut delivery = next(&queue).await;
    delivery.set_property("more", half);
    let refused = refusal(delivery.abandon().await);
    assert!(matches!(refused, Refusal::InvalidValue { what: "properties", .. }), "{refused:?}");
}

/// Changes that are together larger than one frame are refused, and the store goes on.
pub async fn changes_can_be_too_large_together(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let caller = Caller::of(&fixture.bellwether());
    queue.send_batch(["a", "b", "c"]).await.unwrap();
    let Outcome::Received(views) = caller.ask(receive_command(&queue, 3, 0)).await.unwrap() else {
        panic!("messages")
    };
    let description = Some("x".repeat(limits::CONTENT_BYTES_MAX as usize - 50));
    let large = Overlay { description, ..Overlay::default() }.encode();
    let bytes = large.len() as u32;
    let settlements = views.iter().zip(0..).map(|(view, index)| Settlement {
        token: view.token().unwrap(),
        disposition: Disposition::Abandon { delay_ms: None },
        overlay: Some(NewContent { index, bytes }),
    });
    let settle = Command::Settle { from: path_of(&queue), settlements: settlements.collect() };
    let refused = caller.ask_as(0, settle, vec![large; 3]).await;
    let told = match refused {
        Err(error) => matches!(error.refusal(), Some(Refusal::TooLarge { .. })),
        Ok(reply) => matches!(reply.outcome, Outcome::Settled { refused } if !refused.is_empty()),
    };
    assert!(told, "24 MiB of changes in one request");
    queue.send("the store goes on").await.unwrap();
    assert!(queue.info().await.unwrap().counts.ready >= 1);
}
