//! Why is it not being delivered?

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::Refusal;
use bellwether_core::message::{NewMessage, Reason};
use bellwether_core::name::{MemberId, Part, SequenceNumber};
use bellwether_core::outcome::{Cause, Explanation, Holder, Outcome};
use bellwether_core::settings::{QueueSettings, SettingsPatch, Status};
use bellwether_core::time::WallTime;

use super::store::{
    Store, main, message, queue, receive, session, session_settings, settings, token,
};

fn ask(store: &mut Store, sequence: u64) -> Result<Explanation, Refusal> {
    let sequence = SequenceNumber(sequence);
    match store.ask(2, Command::Explain { queue: queue("q"), sequence })? {
        Outcome::Explained(explanation) => Ok(explanation),
        other => panic!("{other:?}"),
    }
}

fn why(store: &mut Store, sequence: u64) -> Vec<Cause> {
    ask(store, sequence).unwrap().causes
}

fn pause(store: &mut Store) {
    let patch = SettingsPatch { status: Some(Status::ReceiveDisabled), ..SettingsPatch::default() };
    store.ask(1, Command::UpdateQueue { queue: queue("q"), patch: Box::new(patch) }).unwrap();
}

fn holder(member: u128, remaining_ms: u64) -> Holder {
    Holder { member: Some(MemberId(member)), remaining_ms }
}

#[test]
fn the_next_message_has_nothing_before_it_and_the_third_has_two() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(), message(), message()]);
    assert_eq!(why(&mut store, 1), []);
    assert_eq!(why(&mut store, 3), [Cause::Behind { messages: 2 }]);
    pause(&mut store);
    assert_eq!(why(&mut store, 3), [Cause::Paused, Cause::Behind { messages: 2 }]);
    let gone = ask(&mut store, 4);
    assert_eq!(gone, Err(Refusal::MessageNotFound(SequenceNumber(4))));
}

#[test]
fn what_waits_for_a_time_says_which() {
    let mut store = Store::with_queue(settings());
    let due = store.now.wall.plus_ms(500);
    store.send("q", vec![NewMessage { due: Some(due), ..message() }, message()]);
    assert_eq!(why(&mut store, 1), [Cause::Scheduled { due }]);
    let views = store.receive(1, receive(main("q"), 1));
    let later = Disposition::Abandon { delay_ms: Some(300) };
    store.settle(main("q"), token(&views[0]), later).unwrap();
    assert_eq!(why(&mut store, 2), [Cause::Delayed { due: store.now.wall.plus_ms(300) }]);
}

#[test]
fn what_a_receiver_has_names_it_and_how_long_it_has_it() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(), message()]);
    let views = store.receive(1, receive(main("q"), 2));
    store.now = store.now.plus_ms(400);
    assert_eq!(why(&mut store, 1), [Cause::Locked(holder(1, 600))]);
    store.settle(main("q"), token(&views[0]), Disposition::Defer).unwrap();
    assert_eq!(why(&mut store, 1), [Cause::Deferred]);
    store.settle(main("q"), token(&views[1]), Disposition::DeadLetter).unwrap();
    let dead = Cause::DeadLetter { reason: Reason::Application };
    let told = Explanation { part: Part::Dead, causes: vec![dead] };
    assert_eq!(ask(&mut store, 2), Ok(told), "under the number it had");
}

#[test]
fn a_message_of_a_session_waits_for_the_holder_and_for_who_stands_before_it() {
    let mut store = Store::with_queue(QueueSettings { deliveries_max: 9, ..session_settings() });
    let of = |name| NewMessage { session: Some(session(name)), ..message() };
    store.send("q", vec![of("a"), of("b"), of("a")]);
    assert_eq!(why(&mut store, 2), [], "another session's messages are not before it");
    let hold = store.accept(1, Some("a")).unwrap();
    let views = store.receive_from(1, &hold, 1);
    let later = Disposition::Abandon { delay_ms: Some(300) };
    store.settle(main("q"), token(&views[0]), later).unwrap();
    store.now = store.now.plus_ms(100);
    let held = Cause::SessionHeld(holder(1, 900));
    let waits = Cause::SessionWaits { sequence: SequenceNumber(1) };
    assert_eq!(why(&mut store, 3), [held, waits]);

    let describe = Command::DescribeSession { queue: queue("q"), session: session("a") };
    let Ok(Outcome::SessionInfo(Some(info))) = store.ask(2, describe) else { panic!() };
    assert_eq!((info.messages, info.hold), (2, Some(holder(1, 900))));
    assert_eq!(info.waits_for, Some(SequenceNumber(1)));
    let nobody = Command::DescribeSession { queue: queue("q"), session: session("c") };
    assert_eq!(store.ask(2, nobody), Ok(Outcome::SessionInfo(None)));
}

#[test]
fn an_expired_message_says_so_even_while_somebody_holds_it() {
    let mut store = Store::with_queue(QueueSettings { lock_ms: 5000, ..settings() });
    store.send("q", vec![NewMessage { ttl_ms: Some(200), ..message() }]);
    store.receive(1, receive(main("q"), 1));
    let at = WallTime(store.now.wall.0 + 200);
    store.now = store.now.plus_ms(300);
    assert_eq!(why(&mut store, 1), [Cause::Expired { at }, Cause::Locked(holder(1, 4700))]);
}
