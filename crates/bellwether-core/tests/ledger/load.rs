//! How much there is to do, and who is at it.

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::Refusal;
use bellwether_core::message::NewMessage;
use bellwether_core::outcome::{Busy, Load, Outcome};
use bellwether_core::settings::{SettingsPatch, Status};

use super::store::{Store, main, message, queue, receive, settings, token};

fn load(store: &mut Store) -> Load {
    match store.ask(0, Command::ReadLoad { queue: queue("q") }) {
        Ok(Outcome::Load(load)) => *load,
        other => panic!("{other:?}"),
    }
}

fn busy(store: &mut Store) -> Vec<(u128, u32)> {
    load(store).busy.iter().map(|Busy { member, deliveries }| (member.0, *deliveries)).collect()
}

#[test]
fn who_has_messages_is_busy_until_they_are_settled() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(); 5]);
    assert_eq!(busy(&mut store), []);
    let first = store.receive(1, receive(main("q"), 2));
    store.receive(2, receive(main("q"), 1));
    assert_eq!(busy(&mut store), [(1, 2), (2, 1)]);
    store.settle(main("q"), token(&first[0]), Disposition::Complete).unwrap();
    store.settle(main("q"), token(&first[1]), Disposition::Defer).unwrap();
    assert_eq!(busy(&mut store), [(2, 1)]);
    let seen = load(&mut store);
    assert_eq!((seen.counts.ready, seen.counts.locked), (2, 1));
    assert_eq!((seen.totals.sent, seen.totals.completed), (5, 1));
    store.pass(1000);
    assert_eq!(busy(&mut store), [], "its lock ran out");
}

#[test]
fn the_oldest_is_the_oldest_of_those_that_wait_for_a_receiver() {
    let mut store = Store::with_queue(settings());
    assert_eq!(load(&mut store).oldest_ms, None);
    let due = store.now.wall.plus_ms(60_000);
    store.send("q", vec![NewMessage { due: Some(due), ..message() }]);
    store.pass(100);
    assert_eq!(load(&mut store).oldest_ms, None, "it waits for its time");
    store.send("q", vec![message()]);
    store.pass(200);
    store.send("q", vec![message()]);
    store.pass(50);
    assert_eq!(load(&mut store).oldest_ms, Some(250));
    store.receive(1, receive(main("q"), 1));
    assert_eq!(load(&mut store).oldest_ms, Some(50));
}

#[test]
fn a_queue_that_nobody_may_receive_from_is_paused() {
    let mut store = Store::with_queue(settings());
    let set = |store: &mut Store, status| {
        let patch = Box::new(SettingsPatch { status: Some(status), ..SettingsPatch::default() });
        store.ask(1, Command::UpdateQueue { queue: queue("q"), patch }).unwrap();
        load(store).is_paused
    };
    assert!(!set(&mut store, Status::SendDisabled));
    assert!(set(&mut store, Status::ReceiveDisabled));
    assert!(set(&mut store, Status::Disabled));
    let nowhere = store.ask(0, Command::ReadLoad { queue: queue("x") });
    assert_eq!(nowhere, Err(Refusal::QueueNotFound(queue("x"))));
}
