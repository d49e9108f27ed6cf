//! Sending: batches, schedules, times-to-live, duplicates, limits.

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::{Operation, Refusal};
use bellwether_core::limits;
use bellwether_core::message::{NewMessage, Reason};
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::{Barrier, Outcome};
use bellwether_core::settings::{Durability, QueueSettings};
use bellwether_core::time::WallTime;

use super::store::{
    Store, dead, main, message, queue, receive, sequences, session_settings, settings, token,
};

#[test]
fn one_bad_message_and_none_is_stored() {
    let small = QueueSettings { message_bytes_max: 20, ..settings() };
    let mut store = Store::with_queue(small);
    let large = NewMessage { content_bytes: 21, ..message() };
    let messages = vec![message(), large, message()];
    let sent = store.ask(1, Command::Send { queue: queue("q"), messages: messages.into() });
    assert!(matches!(sent, Err(Refusal::TooLarge { bytes: 21, bytes_max: 20, .. })));
    assert_eq!(store.info("q").totals.sent, 0);
    assert_eq!(store.send("q", vec![message(), message()]), [1, 2]);
}

#[test]
fn a_session_queue_refuses_messages_without_session() {
    let mut store = Store::with_queue(session_settings());
    let sent = store.ask(1, Command::Send { queue: queue("q"), messages: vec![message()].into() });
    assert_eq!(sent, Err(Refusal::SessionRequired(queue("q"))));
}

#[test]
fn a_full_queue_refuses_its_sender_and_dead_letters_count() {
    let mut store = Store::with_queue(QueueSettings { size_bytes_max: 25, ..settings() });
    store.send("q", vec![message(), message()]);
    let first = store.receive_one(main("q"));
    store.settle(main("q"), token(&first), Disposition::DeadLetter).unwrap();
    let full = Err(Refusal::QueueFull { queue: queue("q"), size_bytes_max: 25 });
    let send = Command::Send { queue: queue("q"), messages: vec![message()].into() };
    assert_eq!(store.ask(1, send.clone()), full);
    let first = store.receive_one(dead("q"));
    store.settle(dead("q"), token(&first), Disposition::Complete).unwrap();
    assert!(store.ask(1, send).is_ok());
}

#[test]
fn d10_on_a_full_disk_senders_are_refused_and_settling_goes_on() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    store.ledger.set_disk_full(true);
    let send = Command::Send { queue: queue("q"), messages: vec![message()].into() };
    assert_eq!(store.ask(1, send.clone()), Err(Refusal::DiskFull));
    let view = store.receive_one(main("q"));
    store.settle(main("q"), token(&view), Disposition::Complete).unwrap();
    store.ledger.set_disk_full(false);
    assert!(store.ask(1, send).is_ok());
}

#[test]
fn a_scheduled_message_becomes_ready_under_a_new_number() {
    let mut store = Store::with_queue(settings());
    let due = store.now.wall.plus_ms(500);
    let later = NewMessage { due: Some(due), ..message() };
    assert_eq!(store.send("q", vec![later, message()]), [1, 2]);
    assert_eq!(sequences(&store.receive(1, receive(main("q"), 10))), [2]);
    store.pass(500);
    let views = store.receive(1, receive(main("q"), 10));
    assert_eq!(sequences(&views), [3], "it is appended as if it were new");
    assert_eq!((views[0].message.origin, views[0].message.enqueued_at), (SequenceNumber(1), due));
    assert_eq!(store.info("q").totals.sent, 2, "counted once");
}

#[test]
fn a_scheduled_message_is_cancelled_before_it_is_due_and_not_after() {
    let mut store = Store::with_queue(settings());
    let due = Some(store.now.wall.plus_ms(500));
    let later = NewMessage { due, ..message() };
    store.send("q", vec![later.clone(), later, message()]);
    let cancel = |numbers: &[u64]| Command::Cancel {
        queue: queue("q"),
        sequences: numbers.iter().copied().map(SequenceNumber).collect(),
    };
    let not_found = |n| Err(Refusal::MessageNotFound(SequenceNumber(n)));
    assert_eq!(store.ask(1, cancel(&[1, 3])), not_found(3), "all or none");
    assert_eq!(store.ask(1, cancel(&[1])), Ok(Outcome::Count(1)));
    store.pass(500);
    assert_eq!(store.ask(1, cancel(&[2])), not_found(2));
    assert_eq!(store.info("q").totals.cancelled, 1);
}

#[test]
fn a_time_in_the_past_is_now() {
    let mut store = Store::with_queue(settings());
    let past = NewMessage { due: Some(WallTime(5)), ..message() };
    store.send("q", vec![past]);
    assert_eq!(store.receive_one(main("q")).sequence.0, 1);
}

#[test]
fn a_longer_time_to_live_is_cut_to_the_queues() {
    let mut store = Store::with_queue(QueueSettings { ttl_ms: Some(500), ..settings() });
    let long = NewMessage { ttl_ms: Some(9_000), ..message() };
    let short = NewMessage { ttl_ms: Some(100), ..message() };
    store.send("q", vec![long, short, message()]);
    let end = |ms| store.now.wall.plus_ms(ms);
    let ends = [end(500), end(100), end(500)];
    let views = store.peek(main("q"));
    assert_eq!(views.iter().map(|v| v.message.expires_at).collect::<Vec<_>>(), ends);
}

#[test]
fn what_expires_is_dropped_or_becomes_a_dead_letter() {
    for dead_letter_expired in [false, true] {
        let ttl = QueueSettings { ttl_ms: Some(500), dead_letter_expired, ..settings() };
        let mut store = Store::with_queue(ttl);
        store.send_one("q");
        store.pass(500);
        assert!(store.receive(1, receive(main("q"), 1)).is_empty());
        let dead = store.peek(dead("q"));
        let reasons: Vec<Reason> = dead.iter().map(|v| v.message.standing.reason).collect();
        let expected: &[Reason] = if dead_letter_expired { &[Reason::TtlExpired] } else { &[] };
        assert_eq!(reasons, expected);
        assert_eq!(store.info("q").totals.expired, u64::from(!dead_letter_expired), "D8");
    }
}

#[test]
fn a_locked_message_may_be_completed_late_but_does_not_come_back() {
    let ttl = QueueSettings { ttl_ms: Some(500), dead_letter_expired: true, ..settings() };
    let mut store = Store::with_queue(ttl);
    store.send("q", vec![message(), message()]);
    let views = store.receive(1, receive(main("q"), 2));
    store.pass(600);
    store.settle(main("q"), token(&views[0]), Disposition::Complete).unwrap();
    let back = Disposition::Abandon { delay_ms: None };
    store.settle(main("q"), token(&views[1]), back).unwrap();
    assert!(store.peek(main("q")).is_empty());
    assert_eq!(store.peek(dead("q"))[0].message.standing.reason, Reason::TtlExpired);
}

#[test]
fn an_id_seen_within_the_window_is_dropped_even_after_the_first_was_consumed() {
    let mut store =
        Store::with_queue(QueueSettings { duplicate_window_ms: Some(1000), ..settings() });
    let with_id = |id| NewMessage { id_hash: id, ..message() };
    assert_eq!(store.send("q", vec![with_id(7), with_id(7), with_id(0), with_id(0)]), [1, 0, 2, 3]);
    for view in store.receive(1, receive(main("q"), 3)) {
        store.settle(main("q"), token(&view), Disposition::Complete).unwrap();
    }
    store.pass(999);
    assert_eq!(store.send("q", vec![with_id(7)]), [0]);
    store.restart();
    assert_eq!(store.send("q", vec![with_id(7)]), [0], "also after a restart");
    store.pass(1);
    assert_eq!(store.send("q", vec![with_id(7)]), [4]);
    assert_eq!(store.info("q").totals.duplicates, 3);
}

#[test]
fn scheduled_messages_take_part_in_both_directions() {
    let mut store =
        Store::with_queue(QueueSettings { duplicate_window_ms: Some(1000), ..settings() });
    let due = Some(store.now.wall.plus_ms(500));
    let now = NewMessage { id_hash: 7, ..message() };
    let later = NewMessage { due, ..now.clone() };
    assert_eq!(store.send("q", vec![later.clone(), now.clone()]), [1, 0]);
    let other = NewMessage { id_hash: 8, ..now };
    assert_eq!(store.send("q", vec![other.clone(), NewMessage { due, ..other }]), [2, 0]);
}

#[test]
fn a_status_refuses_what_it_forbids_and_messages_stay() {
    let off = QueueSettings { status: bellwether_core::settings::Status::Disabled, ..settings() };
    let mut store = Store::with_queue(off);
    let refused = |operation| Err(Refusal::QueueDisabled { queue: queue("q"), operation });
    let send = Command::Send { queue: queue("q"), messages: vec![message()].into() };
    assert_eq!(store.ask(1, send), refused(Operation::Send));
    let receive = Command::Receive(receive(main("q"), 1));
    assert_eq!(store.ask(1, receive), refused(Operation::Receive));
}

/// What a power cut could undo is shown to nobody.
#[test]
fn d1_a_message_is_ready_when_its_send_is_flushed() {
    let mut store = Store::with_queue(settings());
    store.flushes = false;
    let send = Command::Send { queue: queue("q"), messages: vec![message()].into() };
    let ticket = store.begin(1, 0, send);
    assert_eq!(store.barrier(ticket), Barrier::Durable);
    assert!(store.receive(1, receive(main("q"), 1)).is_empty());
    store.flush();
    assert_eq!(store.receive(1, receive(main("q"), 1)).len(), 1);
}

#[test]
fn a_relaxed_queue_answers_before_the_flush() {
    let relaxed = QueueSettings { durability: Durability::Relaxed, ..settings() };
    let mut store = Store::with_queue(relaxed);
    let send = Command::Send { queue: queue("q"), messages: vec![message()].into() };
    let ticket = store.begin(1, 0, send);
    assert_eq!(store.barrier(ticket), Barrier::Appended);
}

#[test]
fn a_request_names_a_bounded_number_of_things() {
    let mut store = Store::with_queue(settings());
    let sequences = vec![SequenceNumber(1); limits::BATCH_MESSAGES_MAX + 1];
    let cancel = Command::Cancel { queue: queue("q"), sequences };
    assert!(matches!(store.ask(1, cancel), Err(Refusal::TooMany { .. })));
}
