//! Deliveries: one receiver at a time, for a while, under a number that only grows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::State;
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{
    Caller, LOCK, LOCK_MS, at_last, ms, next, nothing, path_of, refusal, settle, text,
};
use crate::error::Error;

/// L1: a locked message is not delivered to anybody else.
pub async fn a_locked_message_is_not_delivered_twice(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let delivery = next(&queue).await;
    nothing(&queue).await;
    let other = fixture.bellwether().another_member().await.unwrap();
    nothing(&other.queue("orders").unwrap()).await;
    fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
    nothing(&queue).await;
    delivery.complete().await.unwrap();
}

/// Nothing to receive is an answer, not an error, and comes at once.
pub async fn nothing_is_an_answer(fixture: &Fixture) {
    let queue = fixture.queue().await;
    assert!(queue.receive().one().await.unwrap().is_none());
    assert!(queue.receive().max(10).many().await.unwrap().is_empty());
    assert!(queue.receive().and_delete().await.unwrap().is_empty());
}

/// A receive takes the first messages that are available, no more than asked for.
pub async fn receive_takes_the_first_available(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send_batch((0..5).map(|n| n.to_string())).await.unwrap();
    let held = next(&queue).await;
    let some = queue.receive().max(3).many().await.unwrap();
    assert_eq!(some.iter().map(text).collect::<Vec<_>>(), ["1", "2", "3"]);
    let rest = queue.receive().max(3).many().await.unwrap();
    assert_eq!(rest.iter().map(text).collect::<Vec<_>>(), ["4"]);
    assert_eq!(text(&held), "0");
}

/// What is received and deleted is gone the moment it is given out.
pub async fn received_and_deleted_is_gone(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["one", "two"]).await.unwrap();
    let received = queue.receive().max(2).and_delete().await;
    if fixture.loses_answers() && matches!(received, Err(Error::Unknown(_))) {
        // Gone or still there, but not for somebody who was not told.
        assert_eq!(queue.info().await.unwrap().counts.locked, 0);
        return;
    }
    let received = received.unwrap();
    let bodies: Vec<_> = received.iter().map(|r| r.message().unwrap().text().unwrap()).collect();
    assert_eq!(bodies, ["one", "two"]);
    assert_eq!(received[0].sequence(), sent[0]);
    fixture.advance(LOCK).await;
    nothing(&queue).await;
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.size_bytes, info.totals.completed), (0, 2));
}

/// D4: a completed message never comes again.
pub async fn a_completed_message_never_comes_again(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    next(&queue).await.complete().await.unwrap();
    fixture.advance(LOCK * 2).await;
    nothing(&queue).await;
    nothing(&queue.dead_letters()).await;
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
}

/// D5: a delivery is settled once; every later settlement has lost its lock.
pub async fn a_delivery_is_settled_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let ends = [
        Disposition::Complete,
        Disposition::Abandon { delay_ms: None },
        Disposition::Abandon { delay_ms: Some(60_000) },
        Disposition::Release,
        Disposition::Defer,
        Disposition::DeadLetter,
    ];
    for first in ends {
        let sequence = queue.send("one").await.unwrap();
        let token = next(&queue).await.keep();
        settle(&queue, token, first).await.unwrap();
        let before = queue.info().await.unwrap();
        for second in ends {
            let refused = settle(&queue, token, second).await;
            assert_eq!(refused, Err(Refusal::LockLost(sequence)), "{first:?}, then {second:?}");
        }
        assert_eq!(queue.info().await.unwrap(), before, "{first:?}");
        queue.purge(None).await.unwrap();
        queue.dead_letters().purge(None).await.unwrap();
    }
}

/// D5: completing after the lock ran out is refused, whether or not another has the message.
pub async fn stale_complete_is_refused(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sequence = queue.send("one").await.unwrap();
    let stale = next(&queue).await.keep();
    fixture.advance(LOCK).await;
    let refused = settle(&queue, stale, Disposition::Complete).await;
    assert_eq!(refused, Err(Refusal::LockLost(sequence)), "nobody has it");
    let fresh = next(&queue).await;
    let refused = settle(&queue, stale, Disposition::Complete).await;
    assert_eq!(refused, Err(Refusal::LockLost(sequence)), "another has it");
    fresh.complete().await.unwrap();
    let refused = settle(&queue, stale, Disposition::Complete).await;
    assert_eq!(refused, Err(Refusal::LockLost(sequence)), "it is gone");
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
}

/// L2, L3, L5: a lock lasts its whole time, then the message comes again, under a higher number.
pub async fn lock_expiry_redelivers_with_a_higher_number(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let mut last = None;
    for count in 1..=3 {
        let delivery = next(&queue).await;
        assert_eq!(delivery.deliveries(), count);
        assert!(last < Some(delivery.token().number), "the number does not grow");
        last = Some(delivery.token().number);
        delivery.keep();
        fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
        nothing(&queue).await;
        fixture.advance(ms(500)).await;
    }
    let standing = next(&queue).await.received().view().message.standing;
    assert_eq!((standing.crashes, standing.failures, standing.releases), (3, 0, 0));
}

/// A renewal gives a whole lock duration from then on.
pub async fn renewing_keeps_the_lock(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let mut delivery = next(&queue).await;
    for _ in 0..3 {
        fixture.advance(LOCK.checked_sub(ms(500)).unwrap()).await;
        delivery.renew().await.unwrap();
        let left = fixture.now().boot.ms_until(delivery.locked_until());
        assert!((1_000..=u64::from(LOCK_MS)).contains(&left), "{left} ms are left");
    }
    nothing(&queue).await;
    assert_eq!(delivery.lock_duration(), LOCK);
    delivery.complete().await.unwrap();
}

/// A lock that has run out cannot be renewed.
pub async fn a_lost_lock_cannot_be_renewed(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sequence = queue.send("one").await.unwrap();
    let mut delivery = next(&queue).await;
    fixture.advance(LOCK).await;
    assert_eq!(refusal(delivery.renew().await), Refusal::LockLost(sequence));
    let again = next(&queue).await;
    assert_eq!(refusal(delivery.renew().await), Refusal::LockLost(sequence));
    again.complete().await.unwrap();
    assert_eq!(refusal(delivery.renew().await), Refusal::LockLost(sequence));
}

/// A receive may ask for another lock duration, within the limits.
pub async fn a_receive_may_choose_its_lock(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    for bad in [limits::LOCK_MS_MIN - 1, limits::LOCK_MS_MAX + 1] {
        let receive = queue.receive().lock(Duration::from_millis(bad.into()));
        assert!(matches!(refusal(receive.one().await), Refusal::InvalidValue { .. }));
    }
    let delivery = queue.receive().lock(LOCK / 4).one().await.unwrap().unwrap();
    assert_eq!(delivery.lock_duration(), LOCK / 4);
    fixture.advance(LOCK / 4).await;
    let mut delivery = queue.receive().lock(LOCK * 2).one().await.unwrap().unwrap();
    fixture.advance(LOCK).await;
    nothing(&queue).await;
    delivery.renew().await.unwrap();
    fixture.advance(LOCK).await;
    delivery.complete().await.unwrap();
}

/// A token is bound to its queue and to its half of it.
pub async fn a_token_is_bound_to_its_queue(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let other = fixture.other_queue("other").await;
    queue.send("one").await.unwrap();
    let sequence = other.send("other").await.unwrap();
    let delivery = next(&queue).await;
    let token = delivery.token();
    for wrong in [&other, &queue.dead_letters(), &other.dead_letters()] {
        let refused = settle(wrong, token, Disposition::Complete).await;
        assert_eq!(refused, Err(Refusal::LockLost(sequence)));
    }
    delivery.complete().await.unwrap();
    assert_eq!(text(&next(&other).await), "other");
}

/// Each settlement of one request stands by itself.
pub async fn settlements_stand_by_themselves(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let sent = queue.send_batch(["a", "b", "c"]).await.unwrap();
    let deliveries = queue.receive().max(3).many().await.unwrap();
    let tokens: Vec<_> = deliveries.into_iter().map(crate::Delivery::keep).collect();
    settle(&queue, tokens[1], Disposition::Complete).await.unwrap();
    let complete = |token| bellwether_core::command::Settlement {
        token,
        disposition: Disposition::Complete,
        overlay: None,
    };
    let settlements = tokens.into_iter().map(complete).collect();
    let command = Command::Settle { from: path_of(&queue), settlements };
    let outcome = Caller::of(&fixture.bellwether()).ask(command).await.unwrap();
    assert_eq!(outcome, Outcome::Settled { refused: vec![(1, Refusal::LockLost(sent[1]))] });
    assert_eq!(queue.info().await.unwrap().totals.completed, 3);
}

/// A delivery that is dropped is abandoned; one that is kept stays locked.
pub async fn a_dropped_delivery_is_abandoned(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    drop(next(&queue).await);
    let again = next(&queue).await;
    assert_eq!(again.deliveries(), 2);
    again.keep();
    fixture.settle().await;
    nothing(&queue).await;
    let peeked = queue.peek(bellwether_core::name::SequenceNumber(0), 1).await.unwrap();
    assert!(matches!(peeked[0].state(), State::Locked(_)));
}

/// L1: ten receivers and a thousand messages: each message goes to exactly one.
pub async fn competing_receivers_share_the_messages(fixture: &Fixture) {
    const MESSAGES: usize = 1000;
    let queue = fixture.queue_with(QueueSettings::default()).await;
    let handled = Arc::new(Mutex::new(Vec::new()));
    let mut receivers = Vec::new();
    for _ in 0..10 {
        let member = fixture.bellwether().another_member().await.unwrap();
        let (queue, handled) = (member.queue("orders").unwrap(), Arc::clone(&handled));
        receivers.push(tokio::spawn(async move {
            loop {
                let some = queue.receive().max(7).wait(ms(3_600_000)).many().await.unwrap();
                for delivery in some {
                    assert_eq!(delivery.deliveries(), 1, "handed out before");
                    handled.lock().unwrap().push(text(&delivery).to_owned());
                    delivery.complete().await.unwrap();
                }
            }
        }));
    }
    for chunk in 0..10 {
        let bodies = (0..MESSAGES / 10).map(|n| (chunk * MESSAGES / 10 + n).to_string());
        queue.send_batch(bodies).await.unwrap();
    }
    at_last("all messages", async {
        while queue.info().await.unwrap().totals.completed < MESSAGES as u64 {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
    for receiver in receivers {
        receiver.abort();
        assert!(receiver.await.unwrap_err().is_cancelled(), "a receiver failed");
    }
    let mut handled = handled.lock().unwrap().clone();
    assert_eq!(handled.len(), MESSAGES);
    handled.sort_unstable();
    handled.dedup();
    assert_eq!(handled.len(), MESSAGES, "a message was handled twice");
}
