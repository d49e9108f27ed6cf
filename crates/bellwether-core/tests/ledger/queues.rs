//! Queues: creating, changing, purging, idling away.

use bellwether_core::command::{Command, Receive};
use bellwether_core::error::Refusal;
use bellwether_core::message::NewMessage;
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{QueueSettings, SettingsPatch, Status};

use super::store::{Store, main, message, queue, receive, sequences, settings};

#[test]
fn two_who_create_the_same_queue_both_succeed_and_the_first_settings_stay() {
    let mut store = Store::with_queue(settings());
    let other = QueueSettings { lock_ms: 7777, ..settings() };
    let create =
        |name: &str| Command::CreateQueue { queue: queue(name), settings: Box::new(other.clone()) };
    assert_eq!(store.ask(2, create("q")), Ok(Outcome::QueueCreated { existed: true }));
    assert_eq!(store.ask(2, create("Q")), Ok(Outcome::QueueCreated { existed: true }));
    assert_eq!(store.info("q").settings.lock_ms, 1000);
}

#[test]
fn a_target_must_exist_and_be_another_queue() {
    let mut store = Store::new();
    for target in ["q", "nowhere"] {
        let settings = QueueSettings { forward_to: Some(queue(target)), ..settings() };
        let create = Command::CreateQueue { queue: queue("q"), settings: Box::new(settings) };
        let refused = store.ask(1, create);
        assert!(matches!(refused, Err(Refusal::InvalidValue { what: "forward_to", .. })));
    }
}

#[test]
fn a_purge_skips_what_is_locked() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(); 4]);
    store.receive(1, receive(main("q"), 2));
    let purge = |max| Command::Purge { from: main("q"), before: None, max };
    assert_eq!(store.ask(1, purge(1)), Ok(Outcome::Count(1)));
    assert_eq!(sequences(&store.peek(main("q"))), [1, 2, 4]);
    assert_eq!(store.ask(1, purge(9)), Ok(Outcome::Count(1)));
    assert_eq!(store.info("q").totals.purged, 2, "D8");
}

#[test]
fn a_purge_takes_only_what_is_old_enough() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    store.pass(100);
    let before = Some(store.now.wall);
    store.send_one("q");
    let purge = Command::Purge { from: main("q"), before, max: 9 };
    assert_eq!(store.ask(1, purge), Ok(Outcome::Count(1)));
    assert_eq!(sequences(&store.peek(main("q"))), [2]);
}

#[test]
fn those_who_wait_are_served_when_receiving_is_allowed_again() {
    let mut store = Store::with_queue(settings());
    let wish = Receive { wait_ms: 5000, ..receive(main("q"), 1) };
    let ticket = store.begin(1, 0, Command::Receive(wish));
    let mut set = |status| {
        let patch = SettingsPatch { status: Some(status), ..SettingsPatch::default() };
        store.ask(1, Command::UpdateQueue { queue: queue("q"), patch: Box::new(patch) }).unwrap();
        if status == Status::ReceiveDisabled {
            store.send_one("q");
        }
        store.answer(ticket)
    };
    assert_eq!(set(Status::ReceiveDisabled), None);
    assert!(matches!(set(Status::Active), Some(Ok(Outcome::Received(views))) if views.len() == 1));
}

#[test]
fn a_queue_nobody_uses_goes_and_any_use_keeps_it() {
    let uses: [fn(&mut Store); 4] = [
        |store| assert_eq!(store.send_one("q"), 1),
        |store| assert!(store.receive(1, receive(main("q"), 1)).is_empty()),
        |store| assert!(store.peek(main("q")).is_empty()),
        |store| {
            let patch = Box::default();
            store.ask(1, Command::UpdateQueue { queue: queue("q"), patch }).unwrap();
        },
    ];
    for keep in uses {
        let mut store =
            Store::with_queue(QueueSettings { delete_idle_ms: Some(2000), ..settings() });
        store.pass(1500);
        keep(&mut store);
        store.pass(1999);
        store.info("q");
        store.pass(1);
        let gone = store.ask(1, Command::DescribeQueue { queue: queue("q") });
        assert_eq!(gone, Err(Refusal::QueueNotFound(queue("q"))));
    }
}

#[test]
fn a_queue_somebody_waits_for_is_in_use() {
    let mut store = Store::with_queue(QueueSettings { delete_idle_ms: Some(2000), ..settings() });
    let wish = Receive { wait_ms: 3000, ..receive(main("q"), 1) };
    store.begin(1, 0, Command::Receive(wish));
    store.pass(4999);
    store.info("q");
    store.pass(1);
    assert!(store.ask(1, Command::DescribeQueue { queue: queue("q") }).is_err());
}

#[test]
fn those_who_wait_hear_that_the_queue_has_gone() {
    let mut store = Store::with_queue(settings());
    let wish = Receive { wait_ms: 3000, ..receive(main("q"), 1) };
    let ticket = store.begin(1, 0, Command::Receive(wish));
    store.ask(2, Command::DeleteQueue { queue: queue("q") }).unwrap();
    assert_eq!(store.answer(ticket), Some(Err(Refusal::QueueNotFound(queue("q")))));
}

/// At the limit senders are refused and receivers go on.
#[test]
fn at_the_memory_limit_senders_are_told_to_come_again() {
    let mut store = Store::with_queue(settings());
    let mut count = 0;
    let busy = loop {
        let send = Command::Send { queue: queue("q"), messages: vec![message(); 10_000].into() };
        match store.ask(1, send) {
            Ok(_) => count += 10_000,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(busy, Refusal::Busy { retry_after_ms: 100 });
    assert_eq!(store.ledger.message_count(), count);
    assert_eq!(store.receive(1, receive(main("q"), 1)).len(), 1);
}

/// Sends ten thousand messages with ids not used before, and takes them away again.
fn send_many(store: &mut Store, last_id: &mut u128) -> Result<Outcome, Refusal> {
    let messages = (0..10_000).map(|_| {
        *last_id += 1;
        NewMessage { id_hash: *last_id, ..message() }
    });
    let send = Command::Send { queue: queue("q"), messages: messages.collect() };
    let sent = store.ask(1, send);
    store.ask(1, Command::Purge { from: main("q"), before: None, max: 10_000 }).unwrap();
    sent
}

/// V1: remembered ids are memory, and forgotten as fast as they come.
#[test]
fn ids_are_forgotten_as_fast_as_they_come() {
    let settings = QueueSettings { duplicate_window_ms: Some(2_000), ..settings() };
    let mut store = Store::with_queue(settings);
    let mut last_id = 0;
    for second in 0..60 {
        send_many(&mut store, &mut last_id).unwrap_or_else(|refusal| panic!("{second}: {refusal}"));
        store.pass(1_000);
    }
}

/// V1: whoever wants memory back shortens the window, and gets it.
#[test]
fn a_shorter_window_forgets_what_it_no_longer_covers() {
    let week_ms = 7 * 24 * 3600 * 1000;
    let settings = QueueSettings { duplicate_window_ms: Some(week_ms), ..settings() };
    let mut store = Store::with_queue(settings);
    let mut last_id = 0;
    while send_many(&mut store, &mut last_id).is_ok() {}
    store.pass(60_000);
    let busy = Err(Refusal::Busy { retry_after_ms: 100 });
    assert_eq!(send_many(&mut store, &mut last_id), busy);
    let patch = SettingsPatch { duplicate_window_ms: Some(30_000), ..SettingsPatch::default() };
    store.ask(1, Command::UpdateQueue { queue: queue("q"), patch: Box::new(patch) }).unwrap();
    store.pass(1_000);
    send_many(&mut store, &mut last_id).unwrap();
}
