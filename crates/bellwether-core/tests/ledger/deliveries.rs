//! Receiving and settling: locks, counts, dead letters, deferral, those who wait.

use bellwether_core::command::{Command, Disposition, NewContent, Receive, ReceiveMode};
use bellwether_core::error::Refusal;
use bellwether_core::message::{Reason, State};
use bellwether_core::name::{LockToken, QueuePath, SequenceNumber};
use bellwether_core::outcome::{Barrier, Outcome};
use bellwether_core::settings::QueueSettings;

use super::store::{Store, dead, main, message, queue, receive, sequences, settings, token};

const BACK: Disposition = Disposition::Abandon { delay_ms: None };

fn deferred(from: QueuePath, numbers: &[u64]) -> Command {
    let sequences = numbers.iter().copied().map(SequenceNumber).collect();
    Command::ReceiveDeferred { from, session: None, sequences, mode: ReceiveMode::PeekLock }
}

fn renew(tokens: Vec<LockToken>) -> Command {
    Command::RenewLocks { from: main("q"), tokens, lock_ms: None }
}

#[test]
fn l1_a_locked_message_is_nobody_elses_until_the_lock_ends() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let first = store.receive_one(main("q"));
    store.pass(999);
    assert!(store.receive(2, receive(main("q"), 1)).is_empty(), "L3: not early");
    store.pass(1);
    let second = store.receive_one(main("q"));
    assert!(second.message.standing.number > first.message.standing.number, "L2");
    assert_eq!((second.message.standing.deliveries, second.message.standing.crashes), (1, 1));
}

#[test]
fn d5_a_stale_token_is_refused_and_changes_nothing() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let stale = token(&store.receive_one(main("q")));
    store.pass(1000);
    let fresh = token(&store.receive_one(main("q")));
    let lost = Err(Refusal::LockLost(SequenceNumber(1)));
    for disposition in [Disposition::Complete, BACK, Disposition::Defer, Disposition::DeadLetter] {
        assert_eq!(store.settle(main("q"), stale, disposition), lost);
    }
    let refused = vec![(0, Refusal::LockLost(SequenceNumber(1)))];
    let renewed = store.ask(1, renew(vec![stale]));
    assert_eq!(renewed, Ok(Outcome::Renewed { lock_ms: 1000, refused }));
    store.settle(main("q"), fresh, Disposition::Complete).unwrap();
    assert_eq!(
        store.settle(main("q"), fresh, Disposition::Complete),
        lost,
        "a delivery is settled once"
    );
}

/// The clock decides, not whoever gets round to looking at it.
#[test]
fn d5_a_lock_that_ran_out_is_lost_before_any_tick() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let view = store.receive_one(main("q"));
    store.now = store.now.plus_ms(1000);
    let lost = Err(Refusal::LockLost(SequenceNumber(1)));
    assert_eq!(store.settle(main("q"), token(&view), Disposition::Complete), lost);
}

#[test]
fn d5_a_queue_created_again_knows_no_token_of_the_old_one() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let old = token(&store.receive_one(main("q")));
    store.ask(1, Command::DeleteQueue { queue: queue("q") }).unwrap();
    store.create("q", settings());
    store.send_one("q");
    store.receive_one(main("q"));
    let lost = Err(Refusal::LockLost(SequenceNumber(1)));
    assert_eq!(store.settle(main("q"), old, Disposition::Complete), lost);
}

#[test]
fn a_renewal_starts_the_lock_anew() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(), message()]);
    let long = Receive { lock_ms: Some(5000), ..receive(main("q"), 1) };
    let mut tokens: Vec<LockToken> = store.receive(1, long).iter().map(token).collect();
    tokens.push(token(&store.receive_one(main("q"))));
    store.pass(900);
    let renewed = Outcome::Renewed { lock_ms: 1000, refused: Vec::new() };
    assert_eq!(store.ask(1, renew(tokens.clone())), Ok(renewed), "the shortest is told");
    store.pass(900);
    assert!(store.settle(main("q"), tokens[1], Disposition::Complete).is_ok());
}

#[test]
fn after_the_last_failure_a_message_is_a_dead_letter_with_its_reason() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    for count in 0..3 {
        let view = store.receive_one(main("q"));
        assert_eq!(view.message.standing.deliveries, count, "a receiver sees one more");
        store.settle(main("q"), token(&view), BACK).unwrap();
    }
    assert!(store.receive(1, receive(main("q"), 1)).is_empty(), "no fourth");
    let views = store.peek(dead("q"));
    let standing = views[0].message.standing;
    assert_eq!(standing.reason, Reason::MaxDeliveryCountExceeded);
    assert_eq!((standing.failures, standing.crashes, standing.releases), (3, 0, 0));
    assert_eq!(store.info("q").totals.dead_lettered, 1);
}

#[test]
fn a_crash_counts_like_a_failure_and_a_release_does_not() {
    let mut store = Store::with_queue(QueueSettings { deliveries_max: 2, ..settings() });
    store.send_one("q");
    for _ in 0..5 {
        let view = store.receive_one(main("q"));
        store.settle(main("q"), token(&view), Disposition::Release).unwrap();
    }
    store.receive_one(main("q"));
    store.pass(1000);
    let view = store.receive_one(main("q"));
    store.settle(main("q"), token(&view), BACK).unwrap();
    let standing = store.peek(dead("q"))[0].message.standing;
    assert_eq!((standing.failures, standing.crashes, standing.releases), (1, 1, 5));
    assert_eq!(standing.number.0, 7, "every hand-out has a number of its own");
}

#[test]
fn a_message_that_comes_back_returns_to_its_place() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(); 4]);
    let views = store.receive(1, receive(main("q"), 2));
    store.settle(main("q"), token(&views[0]), BACK).unwrap();
    assert_eq!(sequences(&store.receive(2, receive(main("q"), 9))), [1, 3, 4]);
}

#[test]
fn a_delayed_retry_comes_back_when_it_is_due() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let view = store.receive_one(main("q"));
    let later = Disposition::Abandon { delay_ms: Some(400) };
    store.settle(main("q"), token(&view), later).unwrap();
    store.pass(399);
    assert!(store.receive(1, receive(main("q"), 1)).is_empty());
    store.pass(1);
    assert_eq!(store.receive_one(main("q")).sequence, view.sequence, "it keeps its number");
}

#[test]
fn a_deferred_message_is_given_out_by_number_only() {
    let ttl = QueueSettings { ttl_ms: Some(500), ..settings() };
    let mut store = Store::with_queue(ttl);
    store.send("q", vec![message(), message()]);
    let view = store.receive_one(main("q"));
    store.settle(main("q"), token(&view), Disposition::Defer).unwrap();
    store.pass(600);
    assert_eq!(store.info("q").counts.deferred, 1, "it never expires");
    let missing = Err(Refusal::MessageNotFound(SequenceNumber(2)));
    assert_eq!(store.ask(1, deferred(main("q"), &[1, 2])), missing, "all or none");
    let received = store.ask(1, deferred(main("q"), &[1])).unwrap();
    let Outcome::Received(views) = received else { panic!("{received:?}") };
    let locked = Err(Refusal::MessageNotFound(SequenceNumber(1)));
    assert_eq!(store.ask(2, deferred(main("q"), &[1])), locked);
    store.settle(main("q"), token(&views[0]), BACK).unwrap();
    assert_eq!(store.peek(main("q"))[0].message.standing.state, State::Deferred, "aside again");
}

#[test]
fn changed_properties_stay_with_the_message() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let view = store.receive_one(main("q"));
    let overlay = Some(NewContent { index: 0, bytes: 5 });
    store.settle_with(main("q"), token(&view), Disposition::DeadLetter, overlay).unwrap();
    let view = store.receive_one(dead("q"));
    assert_eq!(view.message.standing.reason, Reason::Application);
    assert_ne!(view.message.standing.overlay.0, 0);
    assert_eq!(store.info("q").counts.size_bytes, 15);
    let again = store.settle(dead("q"), token(&view), Disposition::DeadLetter);
    assert!(
        matches!(again, Err(Refusal::InvalidValue { .. })),
        "a dead letter has no dead letters"
    );
    store.settle(dead("q"), token(&view), Disposition::Complete).unwrap();
    assert_eq!(store.info("q").counts.size_bytes, 0);
}

#[test]
fn receive_and_delete_leaves_nothing() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let gone = Receive { mode: ReceiveMode::ReceiveAndDelete, ..receive(main("q"), 1) };
    let ticket = store.begin(1, 0, Command::Receive(gone));
    assert!(matches!(store.answer(ticket), Some(Ok(Outcome::Received(views))) if views.len() == 1));
    assert_eq!(store.barrier(ticket), Barrier::Durable);
    assert_eq!(store.info("q").totals.completed, 1);
}

#[test]
fn l10_peeking_changes_nothing() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(), message()]);
    store.receive_one(main("q"));
    let before = (store.info("q"), store.peek(main("q")));
    assert_eq!(before.1.len(), 2, "locked ones are shown");
    assert_eq!((store.info("q"), store.peek(main("q"))), before);
}

/// No wake-everybody-and-race.
#[test]
fn those_who_wait_are_served_in_the_order_they_came() {
    let mut store = Store::with_queue(settings());
    let wish = |max| Receive { wait_ms: 10_000, ..receive(main("q"), max) };
    let first = store.begin(1, 0, Command::Receive(wish(2)));
    let second = store.begin(2, 0, Command::Receive(wish(2)));
    assert_eq!((store.answer(first), store.answer(second)), (None, None));
    store.send("q", vec![message(); 3]);
    let numbers = |answer: Option<_>| match answer {
        Some(Ok(Outcome::Received(views))) => sequences(&views),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers(store.answer(first)), [1, 2]);
    assert_eq!(numbers(store.answer(second)), [3]);
}

#[test]
fn a_wish_withdrawn_takes_nothing_and_one_that_waits_in_vain_hears_so() {
    let mut store = Store::with_queue(settings());
    let wish = Receive { wait_ms: 500, ..receive(main("q"), 1) };
    let first = store.begin(1, 0, Command::Receive(wish.clone()));
    let second = store.begin(2, 0, Command::Receive(wish));
    assert!(store.ledger.withdraw(first));
    assert!(!store.ledger.withdraw(first), "once");
    store.pass(500);
    assert_eq!(store.answer(second), Some(Ok(Outcome::Received(Vec::new()))));
    assert_eq!(store.answer(first), None);
    store.send_one("q");
    assert_eq!(store.info("q").counts.ready, 1);
}

/// A lane full of messages that expire together must not hide the one behind them.
#[test]
fn those_who_wait_are_served_past_thousands_that_expired() {
    let mut store = Store::with_queue(settings());
    let short = bellwether_core::message::NewMessage { ttl_ms: Some(10), ..message() };
    store.send("q", vec![short; 5000]);
    store.send_one("q");
    store.now = store.now.plus_ms(10);
    let wish = Receive { wait_ms: 500, ..receive(main("q"), 1) };
    let ticket = store.begin(1, 0, Command::Receive(wish));
    store.tick();
    let answer = store.answer(ticket);
    let Some(Ok(Outcome::Received(views))) = answer else { panic!("{answer:?}") };
    assert_eq!(sequences(&views), [5001]);
}

/// M53.
#[test]
fn who_does_not_settle_is_handed_no_more_and_others_are() {
    let mut store = Store::with_queue(settings()).limited(3, 9);
    let too_many =
        Err(Refusal::TooMany { what: "deliveries that one member has not settled", max: 3 });
    store.send("q", vec![message(); 9]);
    let wanted = |max, wait_ms| Command::Receive(Receive { wait_ms, ..receive(main("q"), max) });
    let views = store.receive(1, receive(main("q"), 5));
    assert_eq!(sequences(&views), [1, 2, 3], "as many as it may have");
    assert_eq!(store.ask(1, wanted(1, 0)), too_many);
    assert_eq!(store.ask(1, wanted(1, 60_000)), too_many, "waiting does not help");
    assert_eq!(sequences(&store.receive(2, receive(main("q"), 1))), [4], "another one");
    let mode = ReceiveMode::ReceiveAndDelete;
    let deleted = store.receive(1, Receive { mode, ..receive(main("q"), 1) });
    assert_eq!(sequences(&deleted), [5], "there is nothing to settle");

    // However a delivery ends, there is room for another one.
    for (nth, how) in [Disposition::Complete, BACK, Disposition::Defer].into_iter().enumerate() {
        store.settle(main("q"), token(&views[nth]), how).unwrap();
        assert_eq!(store.receive(1, receive(main("q"), 9)).len(), 1, "{how:?}");
    }
    assert_eq!(store.ask(1, deferred(main("q"), &[3])), too_many);
    store.restart();
    let mut store = store.limited(3, 9);
    assert_eq!(store.ask(1, wanted(1, 0)), too_many, "a restart forgives nothing");
    store.pass(1000);
    assert_eq!(store.receive(1, receive(main("q"), 1)).len(), 1, "the locks ran out");
}

/// Who waits when it has not settled, because it took more elsewhere meanwhile, does not keep those
/// behind it waiting.
#[test]
fn a_demand_of_one_who_has_too_many_does_not_stand_in_the_way() {
    let mut store = Store::with_queue(settings()).limited(1, 9);
    store.create("other", settings());
    let wait = |name| Command::Receive(Receive { wait_ms: 60_000, ..receive(main(name), 1) });
    let greedy = store.begin(1, 0, wait("q"));
    let patient = store.begin(2, 0, wait("q"));
    store.send_one("other");
    store.receive_one(main("other"));
    store.send_one("q");
    let told = store.answer(greedy).unwrap();
    assert!(matches!(told, Err(Refusal::TooMany { max: 1, .. })), "{told:?}");
    assert!(matches!(store.answer(patient), Some(Ok(Outcome::Received(_)))));
    // A queue that is deleted takes its deliveries along.
    store.ask(1, Command::DeleteQueue { queue: queue("other") }).unwrap();
    store.send_one("q");
    assert_eq!(store.receive(1, receive(main("q"), 1)).len(), 1);
}
