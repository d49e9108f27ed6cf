//! Sessions: ordered groups of messages, held as one.

use std::time::Duration;

use bellwether_core::command::Disposition;
use bellwether_core::error::Refusal;
use bellwether_core::settings::QueueSettings;
use bytes::Bytes;

use super::Fixture;
use super::support::{LOCK, at_last, ms, refusal, sessions, settle, text};
use crate::delivery::Delivery;
use crate::message::Message;
use crate::queue::Queue;
use crate::session::Session;

async fn of_sessions(fixture: &Fixture) -> Queue {
    fixture.queue_with(sessions()).await
}

async fn send(queue: &Queue, session: &str, bodies: &[&str]) {
    let messages = bodies.iter().map(|body| Message::new(*body).session(session));
    queue.send_batch(messages).await.unwrap();
}

async fn accept(queue: &Queue, session: &str) -> Session {
    queue.accept_session().named(session).await.unwrap()
}

async fn next(session: &Session) -> Delivery {
    let wait = session.receive().wait(Duration::from_secs(3600)).one();
    at_last("the next message", wait).await.unwrap().unwrap()
}

async fn nothing(session: &Session) {
    let found = session.receive().one().await.unwrap();
    assert!(found.is_none(), "nothing should be there, but: {found:?}");
}

/// L6: a session's messages come in order, present and future ones, to its holder.
pub async fn a_session_comes_in_order(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1", "2"]).await;
    let session = accept(&queue, "a").await;
    assert_eq!(session.id().as_str(), "a");
    send(&queue, "a", &["3"]).await;
    for wanted in ["1", "2", "3"] {
        let delivery = next(&session).await;
        assert_eq!((text(&delivery), delivery.session.as_deref()), (wanted, Some("a")));
        delivery.complete().await.unwrap();
    }
    let waiting = tokio::spawn(session.receive().wait(Duration::from_secs(3600)).one());
    send(&queue, "b", &["not for you"]).await;
    send(&queue, "a", &["4"]).await;
    let delivery = at_last("the fourth", waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&delivery), "4");
}

/// Sessions are served beside each other; a stalled one blocks nobody else.
pub async fn a_stalled_holder_blocks_only_its_lane(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "stalled", &["1", "2"]).await;
    send(&queue, "lively", &["1", "2"]).await;
    let stalled = accept(&queue, "stalled").await;
    let held = next(&stalled).await;
    let lively = queue.accept_session().next().await.unwrap().unwrap();
    assert_eq!(lively.id().as_str(), "lively");
    next(&lively).await.complete().await.unwrap();
    next(&lively).await.complete().await.unwrap();
    held.complete().await.unwrap();
}

/// A session queue refuses messages without a session, and receives without one.
pub async fn a_session_is_required(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    let name = queue.name().clone();
    let refused = refusal(queue.send("without").await);
    assert_eq!(refused, Refusal::SessionRequired(name.clone()));
    let batch = [Message::new("with").session("a"), Message::new("without")];
    assert_eq!(refusal(queue.send_batch(batch).await), Refusal::SessionRequired(name.clone()));
    assert_eq!(refusal(queue.receive().one().await), Refusal::SessionRequired(name));
    assert!(queue.sessions().await.unwrap().is_empty());
}

/// A queue without sessions carries a session's name, and gives messages out one by one.
pub async fn without_sessions_a_name_is_only_carried(fixture: &Fixture) {
    let queue = fixture.queue().await;
    send(&queue, "a", &["1", "2"]).await;
    let name = queue.name().clone();
    let refused = refusal(queue.accept_session().named("a").await);
    assert_eq!(refused, Refusal::SessionNotSupported(name));
    let first = super::support::next(&queue).await;
    let second = super::support::next(&queue).await;
    assert_eq!((text(&first), first.session.as_deref()), ("1", Some("a")));
    assert_eq!(text(&second), "2");
}

/// L7: a session that is held cannot be taken, not even by the same member.
pub async fn a_held_session_cannot_be_taken(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1"]).await;
    let held = accept(&queue, "a").await;
    let other = fixture.bellwether().another_member().await.unwrap();
    for queue in [&queue, &other.queue("orders").unwrap()] {
        let refused = refusal(queue.accept_session().named("a").await);
        assert_eq!(refused, Refusal::SessionLocked(held.id().clone()));
        assert!(queue.accept_session().next().await.unwrap().is_none());
    }
    held.close().await.unwrap();
    accept(&queue, "a").await.close().await.unwrap();
}

/// The next free session is the one with the oldest message; none free is an answer.
pub async fn the_oldest_session_is_next(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    assert!(queue.accept_session().next().await.unwrap().is_none());
    send(&queue, "z", &["1"]).await;
    send(&queue, "a", &["2"]).await;
    let first = queue.accept_session().next().await.unwrap().unwrap();
    let second = queue.accept_session().next().await.unwrap().unwrap();
    assert_eq!((first.id().as_str(), second.id().as_str()), ("z", "a"));
    assert!(queue.accept_session().next().await.unwrap().is_none());
}

/// A wait for a session ends with one that comes or becomes free, in order of asking.
pub async fn waiting_for_a_session_is_served(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    let wait = || queue.accept_session().wait(Duration::from_secs(3600));
    let first = tokio::spawn(wait().next());
    tokio::time::sleep(ms(20)).await;
    let named = queue.clone();
    let second = tokio::spawn(async move {
        named.accept_session().wait(Duration::from_secs(3600)).named("a").await
    });
    tokio::time::sleep(ms(20)).await;
    send(&queue, "a", &["1"]).await;
    // The named one was free all along: an empty session can be held.
    let second = at_last("the named session", second).await.unwrap().unwrap();
    assert!(!first.is_finished());
    second.close().await.unwrap();
    let first = at_last("the next session", first).await.unwrap().unwrap().unwrap();
    assert_eq!(first.id().as_str(), "a");
}

/// L7: when a hold runs out its deliveries have failed, and its tokens are void.
pub async fn a_hold_that_runs_out_counts(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1", "2"]).await;
    let lost = accept(&queue, "a").await;
    let token = next(&lost).await.keep();
    fixture.advance(LOCK).await;
    let refused = settle(&queue, token, Disposition::Complete).await;
    assert_eq!(refused, Err(Refusal::LockLost(token.sequence)));
    let void = Refusal::SessionLost(lost.id().clone());
    assert_eq!(refusal(lost.receive().one().await), void);
    assert_eq!(refusal(lost.renew().await), void);
    assert_eq!(refusal(lost.state().await), void);
    let again = accept(&queue, "a").await;
    let delivery = next(&again).await;
    assert_eq!((text(&delivery), delivery.deliveries()), ("1", 2));
    assert_eq!(refusal(lost.close().await), void);
    delivery.complete().await.unwrap();
}

/// Closing a session gives back what was handed out, uncounted; dropping it closes it.
pub async fn closing_a_session_does_not_count(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1", "2"]).await;
    for round in 0..3 {
        let wait = queue.accept_session().wait(Duration::from_secs(3600)).named("a");
        let session = at_last("the session", wait).await.unwrap();
        let delivery = next(&session).await;
        assert_eq!((text(&delivery), delivery.deliveries()), ("1", 1), "round {round}");
        let token = delivery.keep();
        if round == 1 {
            drop(session);
        } else {
            session.close().await.unwrap();
            let refused = settle(&queue, token, Disposition::Complete).await;
            assert_eq!(refused, Err(Refusal::LockLost(token.sequence)));
        }
    }
}

/// A renewal keeps the session, and the deliveries in it, for a whole duration.
pub async fn renewing_keeps_the_session(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1"]).await;
    let session = accept(&queue, "a").await;
    assert_eq!(session.lock_duration(), LOCK);
    let delivery = next(&session).await;
    for _ in 0..3 {
        fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
        session.renew().await.unwrap();
    }
    delivery.complete().await.unwrap();
    session.close().await.unwrap();
}

/// An abandoned message comes next again, before those behind it.
pub async fn an_abandoned_message_comes_next(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1", "2"]).await;
    let session = accept(&queue, "a").await;
    for count in 1..=3 {
        let delivery = next(&session).await;
        assert_eq!((text(&delivery), delivery.deliveries()), ("1", count));
        delivery.abandon().await.unwrap();
    }
}

/// L6: a message that waits for a retry holds back everything behind it.
pub async fn a_delayed_message_blocks_its_lane(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["1", "2"]).await;
    let session = accept(&queue, "a").await;
    next(&session).await.abandon_after(ms(1_000)).await.unwrap();
    nothing(&session).await;
    fixture.advance(ms(1_000)).await;
    let delivery = next(&session).await;
    assert_eq!((text(&delivery), delivery.deliveries()), ("1", 2));
}

/// A poison message blocks its lane until it is a dead letter, then the lane goes on.
pub async fn a_poison_message_blocks_its_lane(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 3, ..sessions() };
    let queue = fixture.queue_with(settings).await;
    send(&queue, "a", &["poison", "good"]).await;
    let session = accept(&queue, "a").await;
    for _ in 0..3 {
        let delivery = next(&session).await;
        assert_eq!(text(&delivery), "poison");
        delivery.abandon().await.unwrap();
    }
    let delivery = next(&session).await;
    assert_eq!(text(&delivery), "good");
    let dead = super::support::next(&queue.dead_letters()).await;
    assert_eq!((text(&dead), dead.session.as_deref()), ("poison", Some("a")));
}

/// A deferred message is fetched through its session, by whoever holds it.
pub async fn a_deferred_message_belongs_to_its_session(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    send(&queue, "a", &["aside", "2"]).await;
    send(&queue, "b", &["other"]).await;
    let session = accept(&queue, "a").await;
    let aside = next(&session).await.defer().await.unwrap();
    assert_eq!(text(&next(&session).await), "2");
    let other = accept(&queue, "b").await;
    let refused = refusal(other.receive_deferred([aside]).await);
    assert_eq!(refused, Refusal::MessageNotFound(aside));
    session.close().await.unwrap();
    let session = accept(&queue, "a").await;
    let mut found = session.receive_deferred([aside]).await.unwrap();
    assert_eq!(text(&found[0]), "aside");
    found.pop().unwrap().complete().await.unwrap();
}

/// A session's state is opaque bytes, outlives an empty lane, and nothing clears it.
pub async fn a_session_keeps_its_state(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    let session = accept(&queue, "a").await;
    assert_eq!(session.state().await.unwrap(), None);
    let long = vec![0xff; 100_000];
    for state in [&b"first"[..], b"", &long] {
        session.set_state(Some(Bytes::copy_from_slice(state))).await.unwrap();
        assert_eq!(session.state().await.unwrap().as_deref(), Some(state));
    }
    session.set_state(Some("half done".into())).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(queue.sessions().await.unwrap().len(), 1);
    let session = accept(&queue, "a").await;
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"half done"[..]));
    session.set_state(None).await.unwrap();
    assert_eq!(session.state().await.unwrap(), None);
    session.close().await.unwrap();
    assert!(queue.sessions().await.unwrap().is_empty());
    assert_eq!(queue.info().await.unwrap().counts.size_bytes, 0);
}

/// A session's state counts towards the queue's size, and only its holder sets it.
pub async fn a_state_has_limits(fixture: &Fixture) {
    let settings = QueueSettings { size_bytes_max: 1000, message_bytes_max: 600, ..sessions() };
    let queue = fixture.queue_with(settings).await;
    let session = accept(&queue, "a").await;
    let state = |bytes| Some(Bytes::from(vec![7; bytes]));
    assert!(matches!(refusal(session.set_state(state(601)).await), Refusal::TooLarge { .. }));
    session.set_state(state(600)).await.unwrap();
    let other = accept(&queue, "b").await;
    assert!(matches!(refusal(other.set_state(state(600)).await), Refusal::QueueFull { .. }));
    fixture.advance(LOCK).await;
    let void = Refusal::SessionLost(session.id().clone());
    assert_eq!(refusal(session.set_state(None).await), void);
}

/// Sessions with messages or a state are listed by name.
pub async fn sessions_are_listed(fixture: &Fixture) {
    let queue = of_sessions(fixture).await;
    for name in ["pear", "apple", "fig"] {
        send(&queue, name, &["1"]).await;
    }
    let names: Vec<_> = queue.sessions().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["apple", "fig", "pear"]);
    let session = accept(&queue, "fig").await;
    next(&session).await.complete().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(queue.sessions().await.unwrap().len(), 2);
}
