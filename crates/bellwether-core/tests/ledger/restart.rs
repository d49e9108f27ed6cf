//! Restarts: what was answered stays, what was held is held for a full duration.

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::ledger::Effects;
use bellwether_core::message::NewMessage;
use bellwether_core::outcome::{Beat, LeaseState, Outcome};

use super::store::{
    Store, lease, main, message, queue, receive, session, session_settings, settings, token,
};

#[test]
fn l4_a_lock_keeps_its_token_for_a_full_duration() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let view = store.receive_one(main("q"));
    store.pass(900);
    store.restart();
    store.pass(999);
    assert!(store.receive(2, receive(main("q"), 1)).is_empty());
    store.settle(main("q"), token(&view), Disposition::Complete).unwrap();
    assert_eq!(store.info("q").totals.completed, 1, "D4");
    store.restart();
    assert!(store.peek(main("q")).is_empty());
}

/// Reading a long journal takes longer than a lock; the duration counts from when the store is
/// open.
#[test]
fn l4_the_duration_counts_from_the_start_not_from_the_reading() {
    let mut store = Store::with_queue(session_settings());
    let first = NewMessage { session: Some(session("a")), ..message() };
    store.send("q", vec![first]);
    let hold = store.accept(1, None).unwrap();
    let views = store.receive_from(1, &hold, 1);
    let term = store.acquire(1, "l", 1).unwrap();
    let mut slow = store.reread();
    store.now = store.now.plus_ms(30_000);
    slow.begin_frame(store.frame + 1);
    slow.start(store.now, &mut Effects::default());
    store.ledger = slow;
    store.frame += 2;
    store.ledger.begin_frame(store.frame);
    store.pass(999);
    store.settle(main("q"), token(&views[0]), Disposition::Complete).unwrap();
    assert_eq!(store.beat(1, &[("l", term)]), Beat::default());
}

#[test]
fn l5_counts_survive_and_a_token_of_the_former_life_does_not_fit_a_new_delivery() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let old = store.receive_one(main("q"));
    let back = Disposition::Abandon { delay_ms: None };
    store.settle(main("q"), token(&old), back).unwrap();
    store.restart();
    let new = store.receive_one(main("q"));
    assert_eq!(new.message.standing.deliveries, 1);
    assert!(new.message.standing.number > old.message.standing.number, "L2");
    assert!(token(&new).incarnation > token(&old).incarnation);
}

#[test]
fn l8_numbers_are_not_given_out_again() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let view = store.receive_one(main("q"));
    store.settle(main("q"), token(&view), Disposition::Complete).unwrap();
    store.restart();
    assert_eq!(store.send_one("q"), 2);
}

#[test]
fn l7_a_session_is_held_on_and_its_messages_with_it() {
    let mut store = Store::with_queue(session_settings());
    let first = NewMessage { session: Some(session("a")), ..message() };
    store.send("q", vec![first]);
    let hold = store.accept(1, None).unwrap();
    let views = store.receive_from(1, &hold, 1);
    store.restart();
    assert_eq!(store.accept(2, Some("a")), None);
    store.pass(900);
    let renew = Command::RenewSession { queue: queue("q"), token: hold };
    store.ask(1, renew).unwrap();
    store.pass(900);
    store.settle(main("q"), token(&views[0]), Disposition::Complete).unwrap();
}

#[test]
fn e8_a_lease_is_honoured_for_a_full_duration_and_its_holder_keeps_its_term() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    store.pass(1000);
    store.restart();
    let held = LeaseRefusal::Held { lease: lease("l"), term };
    store.pass(1049);
    assert_eq!(store.acquire(2, "l", 2), Err(Refusal::from(held)));
    assert_eq!(store.beat(1, &[("l", term)]), Beat::default(), "it re-attaches");
    store.pass(1049);
    assert_eq!(store.lease("l").state, LeaseState::Leased);
    store.pass(1);
    assert!(store.acquire(2, "l", 2).unwrap() > term, "E1");
}

#[test]
fn e9_a_released_lease_is_free_after_a_restart() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    let id = bellwether_core::name::LeaseId(1);
    let release = Command::ReleaseLease { lease: lease("l"), id, successor: None };
    store.ask(1, release).unwrap();
    store.restart();
    assert!(store.acquire(2, "l", 2).unwrap() > term);
}

/// It lived in the process that had the store open, and that process has ended.
#[test]
fn a_member_without_end_ends_with_its_process() {
    let mut store = Store::new();
    let embedded = store.join(9, u64::MAX);
    store.pass(10_000_000);
    assert!(store.ask(embedded, Command::ListMembers).is_ok());
    store.restart();
    assert_eq!(store.ask(embedded, Command::ListMembers), Err(Refusal::MemberGone));
}

#[test]
fn a_waiting_wish_is_not_written_down() {
    let mut store = Store::with_queue(settings());
    let wish = bellwether_core::command::Receive { wait_ms: 5000, ..receive(main("q"), 1) };
    store.begin(1, 5, Command::Receive(wish));
    store.restart();
    store.send_one("q");
    assert_eq!(store.info("q").counts.ready, 1);
    let first = store.ask_numbered(1, 5, Command::Receive(receive(main("q"), 1)));
    assert!(matches!(first, Ok(Outcome::Received(views)) if views.len() == 1));
}
