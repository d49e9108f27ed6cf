//! Restarts: what was acknowledged is there, after a closing and after a kill alike.

use std::time::Duration;

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::Refusal;
use bellwether_core::message::State;
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{QueueSettings, Status};
use bytes::Bytes;

use super::Fixture;
use super::exactly_once::{numbering, received, send_command, settle_command};
use super::support::{
    Caller, LOCK, and_delete, ms, next, nothing, receive_command, refusal, sessions, settle,
    short_locks, text,
};
use crate::handle::Bellwether;
use crate::message::{Message, Value};
use crate::queue::Queue;

/// Ends the store, in one way and then the other.
async fn again(fixture: &Fixture, round: usize) -> Bellwether {
    if round == 0 { fixture.restart().await } else { fixture.kill().await }
}

fn orders(bellwether: &Bellwether) -> Queue {
    bellwether.queue("orders").unwrap()
}

/// D1: messages that were accepted are there, as they were sent, in order.
pub async fn accepted_messages_are_there(fixture: &Fixture) {
    let mut queue = fixture.queue().await;
    let large = Bytes::from(vec![0xa5; 1_048_576]);
    let sent = [
        Message::new("").id("empty"),
        Message::new("text").subject("s").property("p", 1).ttl(Duration::from_secs(3600)),
        Message::new(large),
    ];
    queue.send_batch(sent.clone()).await.unwrap();
    for round in 0..2 {
        queue = orders(&again(fixture, round).await);
        let found = queue.peek(SequenceNumber(0), 10).await.unwrap();
        let found: Vec<_> = found.iter().map(|peeked| peeked.message().unwrap()).collect();
        assert!(found.into_iter().eq(&sent), "round {round}");
    }
    for wanted in sent {
        let delivery = next(&queue).await;
        assert!(*delivery == wanted);
        delivery.complete().await.unwrap();
    }
    nothing(&queue).await;
}

/// D1: every state a message can be in is kept, with its number and its counts.
pub async fn every_state_is_kept(fixture: &Fixture) {
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let bodies = ["dead", "deferred", "delayed", "locked", "abandoned", "ready", "gone"];
    queue.send_batch(bodies).await.unwrap();
    queue.send(Message::new("scheduled").scheduled_at(fixture.wall_in(600_000))).await.unwrap();
    next(&queue).await.dead_letter("why", "because").await.unwrap();
    let mut deferred = next(&queue).await;
    deferred.set_property("changed", "yes");
    deferred.defer().await.unwrap();
    next(&queue).await.abandon_after(Duration::from_secs(600)).await.unwrap();
    next(&queue).await.keep();
    next(&queue).await.abandon().await.unwrap();
    let gone = queue.peek(SequenceNumber(7), 1).await.unwrap()[0].sequence();
    let rest = queue.receive().max(10).many().await.unwrap();
    for delivery in rest {
        if delivery.sequence() == gone {
            delivery.complete().await.unwrap();
        } else {
            delivery.release().await.unwrap();
        }
    }
    let before = queue.info().await.unwrap();
    let seen = async |queue: &Queue| -> Vec<(u64, Option<String>, State, u32)> {
        let all = queue.peek(SequenceNumber(0), 100).await.unwrap();
        let dead = queue.dead_letters().peek(SequenceNumber(0), 100).await.unwrap();
        all.iter()
            .chain(&dead)
            .map(|peeked| {
                // When a lock runs out is counted anew after a restart (L4).
                let state = match peeked.state() {
                    State::Locked(mut lock) => {
                        lock.until = bellwether_core::time::BootTime(0);
                        State::Locked(lock)
                    }
                    state => state,
                };
                let text = peeked.message().unwrap().text().map(str::to_owned);
                (peeked.sequence().0, text, state, peeked.deliveries())
            })
            .collect()
    };
    let states = seen(&queue).await;
    assert_eq!(states.len(), 7);
    for round in 0..2 {
        let queue = orders(&again(fixture, round).await);
        assert_eq!(seen(&queue).await, states, "round {round}");
        assert_eq!(queue.info().await.unwrap(), before, "round {round}");
        let dead = queue.dead_letters().peek(SequenceNumber(0), 1).await.unwrap();
        assert_eq!(dead[0].dead_letter_reason(), Some("why"));
        assert_eq!(dead[0].dead_letter_description(), Some("because"));
        let deferred = &queue.peek(SequenceNumber(0), 1).await.unwrap()[0];
        assert_eq!(deferred.message().unwrap().properties["changed"], Value::from("yes"));
    }
}

/// D4: what was completed, or received and deleted, never comes again.
pub async fn completed_messages_stay_gone(fixture: &Fixture) {
    let mut queue = fixture.queue().await;
    for round in 0..2 {
        queue.send_batch(["a", "b"]).await.unwrap();
        next(&queue).await.complete().await.unwrap();
        assert_eq!(and_delete(fixture, &queue, 1).await, 1);
        queue = orders(&again(fixture, round).await);
        fixture.advance(LOCK).await;
        nothing(&queue).await;
        assert_eq!(queue.info().await.unwrap().totals.completed, 2 * (round as u64 + 1));
    }
}

/// Queues and their settings are there as they were left; deleted ones are not.
pub async fn queues_and_settings_are_kept(fixture: &Fixture) {
    let target = fixture.other_queue("target").await;
    fixture.other_queue("deleted").await.delete().await.unwrap();
    let settings = QueueSettings {
        lock_ms: 5_000,
        deliveries_max: 7,
        ttl_ms: Some(600_000),
        dead_letter_expired: true,
        duplicate_window_ms: Some(60_000),
        forward_dead_letters_to: Some(target.name().clone()),
        status: Status::ReceiveDisabled,
        size_bytes_max: 1 << 20,
        message_bytes_max: 1 << 10,
        ..QueueSettings::default()
    };
    let queue = fixture.queue_with(settings.clone()).await;
    let created_at = queue.info().await.unwrap().created_at;
    for round in 0..2 {
        let bellwether = again(fixture, round).await;
        let queues = bellwether.queues().await.unwrap();
        let names: Vec<_> = queues.iter().map(|info| info.name.as_str()).collect();
        assert_eq!(names, ["orders", "target"], "round {round}");
        assert_eq!((&queues[0].settings, queues[0].created_at), (&settings, created_at));
    }
}

/// L8: numbers go on where they stopped, also past messages that are gone.
pub async fn numbers_are_not_reused(fixture: &Fixture) {
    let mut queue = fixture.queue().await;
    let mut last = SequenceNumber(0);
    for round in 0..4 {
        let sent = queue.send_batch(["a", "b"]).await.unwrap();
        assert!(sent[0] > last && sent[1] > sent[0], "round {round}: {sent:?} after {last}");
        last = sent[1];
        queue.purge(None).await.unwrap();
        queue = orders(&again(fixture, round % 2).await);
    }
}

/// L4, L5: a lock keeps its token and gets a whole duration anew; then the message comes again.
pub async fn locks_are_kept_for_a_whole_duration(fixture: &Fixture) {
    let mut queue = fixture.queue().await;
    queue.send_batch(["settled", "forgotten"]).await.unwrap();
    let settled = next(&queue).await.keep();
    let forgotten = next(&queue).await.keep();
    for round in 0..2 {
        fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
        queue = orders(&again(fixture, round).await);
        nothing(&queue).await;
    }
    fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
    nothing(&queue).await;
    settle(&queue, settled, Disposition::Complete).await.unwrap();
    fixture.advance(ms(500)).await;
    let delivery = next(&queue).await;
    assert_eq!((text(&delivery), delivery.deliveries()), ("forgotten", 2));
    let refused = settle(&queue, forgotten, Disposition::Complete).await;
    assert_eq!(refused, Err(Refusal::LockLost(forgotten.sequence)));
    assert_ne!(delivery.token(), forgotten);
}

/// L2: a token of an earlier life is never that of a later delivery.
pub async fn tokens_are_never_reused(fixture: &Fixture) {
    let mut queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let mut tokens = Vec::new();
    for round in 0..4 {
        let token = next(&queue).await.keep();
        assert!(!tokens.contains(&token));
        tokens.push(token);
        settle(&queue, token, Disposition::Release).await.unwrap();
        queue = orders(&again(fixture, round % 2).await);
        for old in &tokens {
            assert!(settle(&queue, *old, Disposition::Complete).await.is_err());
        }
    }
}

/// L5: deliveries are counted across restarts, and the maximum is the maximum.
pub async fn deliveries_are_counted_on(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 4, ..short_locks() };
    let mut queue = fixture.queue_with(settings).await;
    queue.send("poison").await.unwrap();
    for count in 1..=4 {
        let delivery = next(&queue).await;
        assert_eq!(delivery.deliveries(), count);
        delivery.abandon().await.unwrap();
        queue = orders(&again(fixture, count as usize % 2).await);
    }
    nothing(&queue).await;
    let dead = next(&queue.dead_letters()).await;
    assert_eq!(dead.received().dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
}

/// L4, L7: a session's state, its messages and its hold are kept.
pub async fn sessions_are_kept(fixture: &Fixture) {
    let queue = fixture.queue_with(sessions()).await;
    let of = |body: &str| Message::new(body).session("s");
    queue.send_batch([of("1"), of("2"), of("3")]).await.unwrap();
    let session = queue.accept_session().named("s").await.unwrap();
    session.set_state(Some("half done".into())).await.unwrap();
    let wait = session.receive().wait(ms(1000)).one();
    let token = wait.await.unwrap().unwrap().keep();
    let hold = session.token().clone();
    // The handle's goodbye must not reach the store: this holder dies with it.
    std::mem::forget(session);
    for round in 0..2 {
        fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
        let queue = orders(&again(fixture, round).await);
        let refused = refusal(queue.accept_session().named("s").await);
        assert_eq!(refused, Refusal::SessionLocked(hold.session.clone()), "round {round}");
    }
    let queue = orders(&fixture.bellwether());
    settle(&queue, token, Disposition::Complete).await.unwrap();
    fixture.advance(LOCK).await;
    let session = queue.accept_session().named("s").await.unwrap();
    assert_ne!(*session.token(), hold);
    let queue_name = queue.name().clone();
    let stale = Command::RenewSession { queue: queue_name, token: hold.clone() };
    let refused = refusal(Caller::of(&fixture.bellwether()).ask(stale).await);
    assert_eq!(refused, Refusal::SessionLost(hold.session));
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"half done"[..]));
    let rest = session.receive().max(10).many().await.unwrap();
    assert_eq!(rest.iter().map(text).collect::<Vec<_>>(), ["2", "3"]);
}

/// Message ids are remembered across restarts, for as long as the window says.
pub async fn duplicates_are_remembered(fixture: &Fixture) {
    let settings = QueueSettings { duplicate_window_ms: Some(5_000), ..short_locks() };
    let mut queue = fixture.queue_with(settings).await;
    let one = || Message::new("one").id("id");
    queue.send(one()).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    for round in 0..2 {
        queue = orders(&again(fixture, round).await);
        assert_eq!(queue.send(one()).await.unwrap(), SequenceNumber(0), "round {round}");
    }
    fixture.advance(ms(5_000)).await;
    assert_ne!(queue.send(one()).await.unwrap(), SequenceNumber(0));
}

/// L9: schedules, delays and times-to-live that ended meanwhile are caught up with.
pub async fn what_became_due_is_caught_up_with(fixture: &Fixture) {
    for round in 0..2 {
        let settings = QueueSettings { dead_letter_expired: true, ..short_locks() };
        let queue = fixture.queue_with(settings).await;
        queue.send("delayed").await.unwrap();
        next(&queue).await.abandon_after(ms(1_000)).await.unwrap();
        let due = fixture.wall_in(1_000);
        queue.send(Message::new("scheduled").scheduled_at(due)).await.unwrap();
        queue.send(Message::new("short").ttl(ms(1_000))).await.unwrap();
        fixture.bellwether().close().await;
        let queue = orders(&again(fixture, round).await);
        fixture.advance(ms(1_000)).await;
        for wanted in ["delayed", "scheduled"] {
            let delivery = next(&queue).await;
            assert_eq!(text(&delivery), wanted, "round {round}");
            delivery.complete().await.unwrap();
        }
        assert_eq!(text(&next(&queue.dead_letters()).await), "short");
        queue.delete().await.unwrap();
    }
}

/// A request that is repeated after a restart gets the first outcome.
pub async fn repeated_requests_get_the_first_outcome(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let (send, contents) = send_command(&queue, &Message::new("one"));
    let sent = caller.ask_as(1, send.clone(), contents.clone()).await.unwrap();
    let receive = receive_command(&queue, 1, 0);
    let first = caller.ask_as(2, receive.clone(), Vec::new()).await.unwrap();
    let token = received(first.outcome.clone())[0].token().unwrap();
    for round in 0..2 {
        let caller = caller.again(&again(fixture, round).await);
        let repeated = caller.ask_as(1, send.clone(), contents.clone()).await.unwrap();
        assert_eq!(repeated, sent, "round {round}");
        let repeated = caller.ask_as(2, receive.clone(), Vec::new()).await.unwrap();
        assert_eq!(repeated.contents, first.contents, "round {round}");
        assert_eq!(received(repeated.outcome)[0].token(), Some(token), "round {round}");
    }
    let complete = settle_command(&queue, token, Disposition::Complete);
    let own = numbering(fixture, 2).await;
    let done = own.ask_as(1, complete.clone(), Vec::new()).await.unwrap();
    assert_eq!(done.outcome, Outcome::Settled { refused: Vec::new() });
    for round in 0..2 {
        let own = own.again(&again(fixture, round).await);
        assert_eq!(own.ask_as(1, complete.clone(), Vec::new()).await.unwrap(), done);
        assert_eq!(orders(&own.bellwether).info().await.unwrap().totals.sent, 1);
    }
}

/// D1, D4: ten lives with work in each of them lose nothing and bring nothing back.
pub async fn many_lives_keep_everything(fixture: &Fixture) {
    let mut queue = fixture.queue_with(QueueSettings::default()).await;
    let mut open = std::collections::BTreeSet::new();
    for life in 0..10_u32 {
        for n in 0..50 {
            let body = format!("{life}-{n}");
            queue.send(body.clone()).await.unwrap();
            open.insert(body);
        }
        for _ in 0..30 {
            let delivery = next(&queue).await;
            open.remove(text(&delivery));
            delivery.complete().await.unwrap();
        }
        queue = orders(&again(fixture, life as usize % 2).await);
        let there = queue.peek(SequenceNumber(0), 10_000).await.unwrap();
        let there = there.iter().map(|p| p.message().unwrap().text().unwrap().to_owned());
        assert!(there.collect::<std::collections::BTreeSet<_>>() == open, "life {life}");
    }
}
