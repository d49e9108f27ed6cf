//! What operators ask for: why, which, take this one away, and put that one back.

use std::time::Duration;

use bellwether_core::command::{LeaseKind, Resting};
use bellwether_core::error::Refusal;
use bellwether_core::message::Reason;
use bellwether_core::name::{Part, SequenceNumber};
use bellwether_core::outcome::{Cause, EndedBy, LeftAs};
use bytes::Bytes;

use super::Fixture;
use super::support::{Caller, bound, next, nothing, refusal, sessions};
use crate::export::Exported;
use crate::message::Message;
use crate::queue::Queue;

async fn causes(queue: &Queue, sequence: SequenceNumber) -> Vec<Cause> {
    queue.explain(sequence).await.unwrap().causes
}

/// M49: a message that is not delivered says why, in every state.
pub async fn a_message_says_why_it_waits(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["one", "two", "three"]).await.unwrap();
    assert_eq!(causes(&queue, sent[2]).await, [Cause::Behind { messages: 2 }]);
    let delivery = next(&queue).await;
    let [Cause::Locked(holder)] = causes(&queue, sent[0]).await[..] else { panic!("not locked") };
    assert_eq!(holder.member, Some(fixture.bellwether().member()));
    assert!((1..=u64::from(super::support::LOCK_MS)).contains(&holder.remaining_ms));
    delivery.defer().await.unwrap();
    assert_eq!(causes(&queue, sent[0]).await, [Cause::Deferred]);
    next(&queue).await.dead_letter("Bad", "no address").await.unwrap();
    let explained = queue.explain(sent[1]).await.unwrap();
    assert_eq!(explained.part, Part::Dead);
    assert_eq!(explained.causes, [Cause::DeadLetter { reason: Reason::Application }]);
    next(&queue).await.complete().await.unwrap();
    assert_eq!(refusal(queue.explain(sent[2]).await), Refusal::MessageNotFound(sent[2]));
}

/// M52, M49: a session can be looked at without taking hold of it, and its messages say who holds it.
pub async fn a_message_of_a_session_says_who_holds_it(fixture: &Fixture) {
    let queue = fixture.queue_with(sessions()).await;
    let sent = queue.send(Message::new("one").session("a")).await.unwrap();
    let session = queue.accept_session().named("a").await.unwrap();
    session.set_state(Some(Bytes::from_static(b"half way"))).await.unwrap();
    let [Cause::SessionHeld(holder)] = causes(&queue, sent).await[..] else { panic!("not held") };
    assert_eq!(holder.member, Some(fixture.bellwether().member()));
    let (info, state) = queue.session("a").await.unwrap().unwrap();
    assert_eq!((info.messages, state.as_deref()), (1, Some(&b"half way"[..])));
    session.close().await.unwrap();
    let (info, _) = queue.session("a").await.unwrap().unwrap();
    assert_eq!(info.hold, None);
    assert!(queue.session("b").await.unwrap().is_none());
}

/// M50: what is exported and imported is what it was, under a new number.
pub async fn a_message_goes_on_with_its_past(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let order = Message::new("one").id("order-1").property("urgent", true);
    queue.send_batch([order.ttl(Duration::from_secs(3600)), Message::new("two")]).await.unwrap();
    next(&queue).await.defer().await.unwrap();
    next(&queue).await.dead_letter("Bad", "no address").await.unwrap();
    let from = |queue: Queue| async move {
        let received = queue.peek(SequenceNumber(0), 9).await.unwrap();
        received.iter().map(|m| Exported::of(m).unwrap()).collect::<Vec<_>>()
    };
    let (main, dead) = (from(queue.clone()).await, from(queue.dead_letters()).await);
    assert_eq!((main[0].state, dead[0].reason), (Resting::Deferred, Reason::Application));

    let other = fixture.other_queue("others").await;
    let numbers = other.import(main.clone()).await.unwrap();
    other.dead_letters().import(dead.clone()).await.unwrap();
    assert_eq!(from(other.clone()).await, main);
    assert_eq!(from(other.dead_letters()).await, dead);
    nothing(&other).await;
    let deferred = other.receive_deferred(numbers).await.unwrap();
    assert_eq!(deferred[0].id.as_deref(), Some("order-1"));
    let letter = next(&other.dead_letters()).await;
    assert_eq!(letter.received().dead_letter_reason(), Some("Bad"));
    assert_eq!(letter.received().dead_letter_description(), Some("no address"));
}

/// M51: chosen messages go; what somebody has locked stays.
pub async fn chosen_messages_are_removed(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["one", "two", "three"]).await.unwrap();
    let held = next(&queue).await;
    assert_eq!(queue.remove([sent[0], sent[2], sent[2]]).await.unwrap(), 1);
    assert_eq!(queue.info().await.unwrap().totals.purged, 1);
    held.complete().await.unwrap();
    assert_eq!(next(&queue).await.sequence(), sent[1]);
}

/// All leases by name, those of elections and those that stand by themselves.
pub async fn leases_are_listed_with_their_kind(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    Caller::of(&bellwether).acquire(bound("chores", 1, 60_000)).await.unwrap();
    bellwether.lease("backup").unwrap().acquire(Duration::from_secs(60)).await.unwrap();
    let leases = bellwether.leases().await.unwrap();
    let kinds: Vec<_> = leases.iter().map(|lease| (lease.name.as_str(), lease.kind)).collect();
    assert_eq!(kinds, [("backup", LeaseKind::Standing), ("chores", LeaseKind::Bound)]);
}

/// A lease's last hundred terms, the newest first, with who held each and how it was left.
pub async fn who_led_is_remembered(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let lease = bellwether.lease("chores").unwrap().metadata("worker 1");
    let mut granted = Vec::new();
    for _ in 0..105 {
        let grant = lease.acquire(Duration::from_secs(60)).await.unwrap();
        lease.release(grant.id).await.unwrap();
        granted.push(grant.term);
    }
    granted.push(lease.acquire(Duration::from_secs(60)).await.unwrap().term);
    lease.break_(Some(Duration::ZERO)).await.unwrap();
    let history = bellwether.election("chores").unwrap().history().await.unwrap();
    let terms: Vec<_> = history.iter().map(|term| term.term).collect();
    granted.reverse();
    assert_eq!(terms, granted[..100]);
    let ended = |index: usize| match history[index].left_as {
        LeftAs::Ended { by, .. } => by,
        other => panic!("left as {other:?}"),
    };
    let released = EndedBy::Released { reason: None };
    assert_eq!((ended(0), ended(1), ended(99)), (EndedBy::Broken, released, released));
    assert!(history.iter().all(|term| term.holder == Some(bellwether.member())));
    assert_eq!(history[99].metadata, "worker 1");
    let unknown = bellwether.election("choers").unwrap().history().await.unwrap();
    assert!(unknown.is_empty());
}
