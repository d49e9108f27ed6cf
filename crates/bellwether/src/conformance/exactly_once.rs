//! Exactly-once commands: the same request again gets the first outcome.

use std::time::Duration;

use bellwether_core::command::{Command, Disposition, Request, Settlement};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::few::Few;
use bellwether_core::message::{MessageView, NewMessage};
use bellwether_core::name::{LeaseId, LockToken, RequestNumber, SessionId};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use super::Fixture;
use super::support::{
    Caller, LOCK, at_last, bound, lease_name, ms, next, nothing, path_of, receive_command, refusal,
    sessions, text,
};
use crate::message::{self, Message};
use crate::queue::Queue;

/// A send of one message as it travels.
pub(super) fn send_command(queue: &Queue, message: &Message) -> (Command, Vec<Bytes>) {
    let content = message::encode(message);
    let new = NewMessage {
        content_bytes: content.len() as u32,
        session: message.session.as_deref().map(|id| SessionId::new(id).unwrap()),
        ..NewMessage::default()
    };
    (Command::Send { queue: queue.name().clone(), messages: Few::One(new) }, vec![content])
}

/// A settlement as it travels.
pub(super) fn settle_command(queue: &Queue, token: LockToken, how: Disposition) -> Command {
    let settlements = Few::One(Settlement { token, disposition: how, overlay: None });
    Command::Settle { from: path_of(queue), settlements }
}

/// A member that numbers its requests itself: the handle's own are the handle's to number.
pub(super) async fn numbering(fixture: &Fixture, id: u128) -> Caller {
    Caller::join(fixture, id, Duration::from_secs(1_000_000)).await
}

/// The messages of a receive's outcome.
pub(super) fn received(outcome: Outcome) -> Vec<MessageView> {
    match outcome {
        Outcome::Received(views) => views,
        other => panic!("{other:?}"),
    }
}

/// D3: a send that is repeated adds one message, and both answers name its number.
pub async fn a_repeated_send_adds_one_message(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let (send, contents) = send_command(&queue, &Message::new("one"));
    let first = caller.ask_as(1, send.clone(), contents.clone()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(caller.ask_as(1, send.clone(), contents.clone()).await.unwrap(), first);
    }
    let second = caller.ask_as(2, send, contents).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(queue.info().await.unwrap().totals.sent, 2);
}

/// Without a number nothing is remembered: the same send twice is two messages.
pub async fn without_a_number_nothing_is_remembered(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let (send, contents) = send_command(&queue, &Message::new("one"));
    caller.ask_as(0, send.clone(), contents.clone()).await.unwrap();
    caller.ask_as(0, send, contents).await.unwrap();
    assert_eq!(queue.info().await.unwrap().counts.ready, 2);
}

/// D6: a complete that is repeated succeeds; a second, different one has lost its lock.
pub async fn a_repeated_complete_succeeds(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let sequence = queue.send("one").await.unwrap();
    let token = next(&queue).await.keep();
    let complete = settle_command(&queue, token, Disposition::Complete);
    let done = Outcome::Settled { refused: Vec::new() };
    for _ in 0..3 {
        assert_eq!(caller.ask_as(1, complete.clone(), Vec::new()).await.unwrap().outcome, done);
    }
    let lost = Outcome::Settled { refused: vec![(0, Refusal::LockLost(sequence))] };
    assert_eq!(caller.ask_as(2, complete, Vec::new()).await.unwrap().outcome, lost);
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
}

/// An abandon that is repeated counts once, also after the message was given out again.
pub async fn a_repeated_abandon_counts_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    queue.send("one").await.unwrap();
    let token = next(&queue).await.keep();
    let abandon = settle_command(&queue, token, Disposition::Abandon { delay_ms: None });
    caller.ask_as(1, abandon.clone(), Vec::new()).await.unwrap();
    caller.ask_as(1, abandon.clone(), Vec::new()).await.unwrap();
    let again = next(&queue).await;
    assert_eq!(again.deliveries(), 2);
    caller.ask_as(1, abandon, Vec::new()).await.unwrap();
    again.complete().await.unwrap();
}

/// A receive that is repeated gives the same deliveries again, and no others.
pub async fn a_repeated_receive_gives_the_same_delivery(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    queue.send_batch(["a", "b", "c"]).await.unwrap();
    let receive = receive_command(&queue, 2, 0);
    let first = caller.ask_as(1, receive.clone(), Vec::new()).await.unwrap();
    let again = caller.ask_as(1, receive.clone(), Vec::new()).await.unwrap();
    assert_eq!(again, first);
    let tokens: Vec<_> = received(first.outcome).iter().map(|view| view.token().unwrap()).collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(text(&next(&queue).await), "c");
    // What was settled since is not given out again.
    caller.ask(settle_command(&queue, tokens[0], Disposition::Complete)).await.unwrap();
    let rest = received(caller.ask_as(1, receive, Vec::new()).await.unwrap().outcome);
    assert_eq!(rest.iter().map(|view| view.token().unwrap()).collect::<Vec<_>>(), tokens[1..]);
}

/// A receive that found nothing may find something when it is repeated.
pub async fn a_repeated_receive_of_nothing_may_find_something(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let receive = receive_command(&queue, 1, 0);
    let none = caller.ask_as(1, receive.clone(), Vec::new()).await.unwrap();
    assert!(received(none.outcome).is_empty());
    queue.send("one").await.unwrap();
    let found = caller.ask_as(1, receive.clone(), Vec::new()).await.unwrap();
    assert_eq!(received(found.outcome).len(), 1);
    nothing(&queue).await;
}

/// V2: a waiting receive that is repeated waits once; both calls get an answer.
pub async fn a_repeated_wait_waits_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let ask = || {
        let (caller, receive) = (caller.clone(), receive_command(&queue, 1, 3_600_000));
        tokio::spawn(async move { caller.ask_as(1, receive, Vec::new()).await })
    };
    let first = ask();
    tokio::time::sleep(ms(20)).await;
    let second = ask();
    tokio::time::sleep(ms(20)).await;
    queue.send_batch(["a", "b"]).await.unwrap();
    let reply = at_last("the second call's answer", second).await.unwrap().unwrap();
    assert_eq!(received(reply.outcome).len(), 1);
    // Whatever it says: nobody waits for ever.
    let first = at_last("the first call's answer", first).await.unwrap();
    if let Ok(reply) = first {
        assert!(received(reply.outcome).len() <= 1);
    }
    assert_eq!(text(&next(&queue).await), "b");
}

/// A grant that is asked for again is the same one, for as long as it stands.
pub async fn a_repeated_acquire_is_the_same_grant(fixture: &Fixture) {
    let caller = numbering(fixture, 1).await;
    let acquire = Command::Acquire(bound("leader", 1, 60_000));
    let granted = caller.ask_as(1, acquire.clone(), Vec::new()).await.unwrap();
    assert_eq!(caller.ask_as(1, acquire.clone(), Vec::new()).await.unwrap(), granted);
    let (lease, id) = (lease_name("leader"), LeaseId(1));
    let release = Command::ReleaseLease { lease, id, successor: None };
    caller.ask_as(2, release.clone(), Vec::new()).await.unwrap();
    let other = Caller::of(&fixture.bellwether().another_member().await.unwrap());
    let term = other.acquire(bound("leader", 2, 60_000)).await.unwrap();
    // Late copies change nothing for the holder of today, and make nobody believe it leads (E5).
    let late = refusal(caller.ask_as(1, acquire, Vec::new()).await);
    assert!(matches!(late, Refusal::Lease(LeaseRefusal::Held { .. })), "{late:?}");
    assert_eq!(caller.ask_as(2, release, Vec::new()).await.unwrap().outcome, Outcome::Done);
    let info = other.describe("leader").await;
    assert_eq!((info.holder, info.term), (Some(other.id), term));
}

/// A session that is accepted again under the same number is the same hold.
pub async fn a_repeated_accept_is_the_same_hold(fixture: &Fixture) {
    let queue = fixture.queue_with(sessions()).await;
    let caller = numbering(fixture, 1).await;
    let session = Some(SessionId::new("s").unwrap());
    let accept = Command::AcceptSession { queue: queue.name().clone(), session, wait_ms: 0 };
    let first = caller.ask_as(3, accept.clone(), Vec::new()).await.unwrap();
    assert!(matches!(first.outcome, Outcome::Session(Some(_))));
    assert_eq!(caller.ask_as(3, accept, Vec::new()).await.unwrap(), first);
}

/// A refusal is not remembered: the same request may succeed later.
pub async fn a_refusal_is_not_remembered(fixture: &Fixture) {
    let caller = numbering(fixture, 1).await;
    let queue = fixture.bellwether().queue("orders").unwrap();
    let (send, contents) = send_command(&queue, &Message::new("one"));
    let refused = refusal(caller.ask_as(1, send.clone(), contents.clone()).await);
    assert!(matches!(refused, Refusal::QueueNotFound(_)));
    let queue = fixture.queue().await;
    caller.ask_as(1, send, contents).await.unwrap();
    assert_eq!(text(&next(&queue).await), "one");
}

/// Numbers belong to their member: another one's are another matter.
pub async fn numbers_belong_to_their_member(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let first = numbering(fixture, 1).await;
    let second = numbering(fixture, 2).await;
    let (send, contents) = send_command(&queue, &Message::new("one"));
    let one = first.ask_as(1, send.clone(), contents.clone()).await.unwrap();
    let two = second.ask_as(1, send, contents).await.unwrap();
    assert_ne!(one, two);
    assert_eq!(queue.info().await.unwrap().counts.ready, 2);
}

/// An outcome is kept until its member has heard it; a copy that comes even later
/// is not done again.
pub async fn outcomes_are_kept_until_heard(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let (send, contents) = send_command(&queue, &Message::new("one"));
    caller.ask_as(1, send.clone(), contents.clone()).await.unwrap();
    let second = caller.ask_as(2, send.clone(), contents.clone()).await.unwrap();
    fixture.advance(LOCK).await;
    let heard = Request {
        member: caller.slot,
        number: RequestNumber(3),
        answered_below: RequestNumber(2),
        command: send.clone(),
        fence: None,
    };
    caller.bellwether.call(heard, contents.clone()).await.unwrap();
    assert_eq!(caller.ask_as(2, send.clone(), contents.clone()).await.unwrap(), second);
    let sent = queue.info().await.unwrap().totals.sent;
    let late = caller.ask_as(1, send, contents).await;
    assert_eq!(queue.info().await.unwrap().totals.sent, sent, "done again: {late:?}");
}

/// Twenty copies of one send at once are one message.
pub async fn copies_at_once_are_one(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let caller = numbering(fixture, 1).await;
    let copies: Vec<_> = (0..20)
        .map(|_| {
            let (caller, (send, contents)) =
                (caller.clone(), send_command(&queue, &Message::new("one")));
            tokio::spawn(async move { caller.ask_as(9, send, contents).await.unwrap() })
        })
        .collect();
    let mut replies = Vec::new();
    for copy in copies {
        replies.push(tokio::time::timeout(Duration::from_secs(20), copy).await.unwrap().unwrap());
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    assert_eq!(queue.info().await.unwrap().totals.sent, 1);
}
