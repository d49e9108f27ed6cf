//! What is counted, and that looking changes nothing.

use bellwether_core::command::{Command, Disposition, Receive, ReceiveMode};
use bellwether_core::message::Reason;
use bellwether_core::name::QueueId;
use bellwether_core::outcome::LeaseState;
use bellwether_core::settings::QueueSettings;
use bellwether_core::stats::{Activity, QueueStats};

use super::store::{Store, main, message, receive, settings, token};

fn stats(store: &Store) -> QueueStats {
    store.ledger.queue_stats(QueueId(0), 10).remove(0)
}

fn dead_lettered(activity: &Activity, reason: Reason) -> u64 {
    activity.dead_lettered().find(|(known, _)| *known == reason).unwrap().1
}

#[test]
fn every_end_of_a_delivery_has_its_own_counter() {
    let mut store = Store::with_queue(QueueSettings { deliveries_max: 3, ..settings() });
    store.send("q", vec![message(); 5]);
    let deliver = |store: &mut Store, how| {
        let token = token(&store.receive_one(main("q")));
        store.settle(main("q"), token, how).unwrap();
    };
    deliver(&mut store, Disposition::Complete);
    deliver(&mut store, Disposition::Abandon { delay_ms: None });
    deliver(&mut store, Disposition::Release);
    let renewed = token(&store.receive_one(main("q")));
    store.pass(1);
    let renew = Command::RenewLocks { from: main("q"), tokens: vec![renewed], lock_ms: None };
    store.ask(1, renew).unwrap();
    store.pass(1000);
    deliver(&mut store, Disposition::Abandon { delay_ms: None });
    deliver(&mut store, Disposition::Defer);
    deliver(&mut store, Disposition::DeadLetter);
    let gone = Receive { mode: ReceiveMode::ReceiveAndDelete, ..receive(main("q"), 1) };
    assert_eq!(store.receive(1, gone).len(), 1);

    let activity = stats(&store).activity;
    assert_eq!(activity.delivered, 8);
    assert_eq!((activity.abandoned, activity.released, activity.deferred), (2, 1, 1));
    assert_eq!((activity.locks_renewed, activity.locks_lost), (1, 1));
    assert_eq!(dead_lettered(&activity, Reason::MaxDeliveryCountExceeded), 1);
    assert_eq!(dead_lettered(&activity, Reason::Application), 1);
    assert_eq!(dead_lettered(&activity, Reason::TtlExpired), 0);
    assert_eq!(stats(&store).totals.completed, 2);
}

#[test]
fn what_is_completed_is_told_apart_by_how_many_deliveries_it_took() {
    let mut store = Store::with_queue(QueueSettings { deliveries_max: 100, ..settings() });
    let mut last = Activity::default();
    for deliveries in [1, 2, 3, 64, 65] {
        store.send_one("q");
        for _ in 1..deliveries {
            let token = token(&store.receive_one(main("q")));
            store.settle(main("q"), token, Disposition::Abandon { delay_ms: None }).unwrap();
        }
        let token = token(&store.receive_one(main("q")));
        store.settle(main("q"), token, Disposition::Complete).unwrap();
        last = stats(&store).activity;
    }
    let counted: Vec<_> = last.completed().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [(Some(1), 1), (Some(2), 1), (Some(4), 1), (Some(64), 1), (None, 1)]);
    assert_eq!(last.completed_deliveries(), 1 + 2 + 3 + 64 + 65);
}

#[test]
fn the_oldest_message_is_the_oldest_that_waits_for_a_receiver() {
    let mut store = Store::with_queue(settings());
    assert_eq!(stats(&store).oldest_ready, None);
    let first = store.now.wall;
    store.send_one("q");
    store.pass(500);
    let second = store.now.wall;
    store.send_one("q");
    assert_eq!(stats(&store).oldest_ready, Some(first));
    store.receive_one(main("q"));
    assert_eq!(stats(&store).oldest_ready, Some(second), "the first one is locked");
}

#[test]
fn queues_and_leases_come_in_slices_and_grants_are_counted() {
    let mut store = Store::new();
    for name in ["c", "a", "b"] {
        store.create(name, settings());
    }
    let mut names = Vec::new();
    let mut after = QueueId(0);
    while let Some(queue) = store.ledger.queue_stats(after, 1).pop() {
        after = queue.id;
        names.push(queue.name.to_string());
    }
    assert_eq!(names, ["c", "a", "b"], "in the order they were created");

    let first = store.acquire(1, "l", 1).unwrap();
    store.acquire(1, "l", 1).unwrap();
    store.acquire(1, "m", 2).unwrap();
    store.pass(2000);
    let second = store.acquire(2, "l", 3).unwrap();
    assert!(second > first);
    let leases = store.ledger.lease_stats(store.now, None, 10);
    assert_eq!(leases.iter().map(|lease| lease.grants).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((leases[0].term, leases[0].state), (second, LeaseState::Leased));
    assert_eq!(leases[1].state, LeaseState::Expired);
    assert_eq!(store.ledger.lease_stats(store.now, Some(&leases[0].name), 10), leases[1..]);
}
