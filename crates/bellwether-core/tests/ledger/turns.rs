//! Priorities, keys, rates and overflow. Numbers like O3 refer to `docs/fairness.md`.

use bellwether_core::command::{Command, Disposition, Receive, ReceiveMode};
use bellwether_core::error::Refusal;
use bellwether_core::message::NewMessage;
use bellwether_core::name::Key;
use bellwether_core::outcome::{Cause, Outcome};
use bellwether_core::rank::Rank;
use bellwether_core::settings::{Order, OrderPatch, Overflow, QueueSettings, Rate, SettingsPatch};

use super::store::{
    Answer, Store, main, message, queue, receive, sequences, session, session_settings, settings,
    token,
};

fn ordered(order: Order) -> Store {
    Store::with_queue(QueueSettings { order, ..settings() })
}

fn of(key: &str) -> NewMessage {
    let key = Some(Key::new(key).unwrap());
    NewMessage { rank: Rank { key, ..Rank::default() }, ..message() }
}

fn at(priority: u8) -> NewMessage {
    NewMessage { rank: Rank { priority, key: None }, ..message() }
}

fn next(store: &mut Store) -> u64 {
    store.receive_one(main("q")).sequence.0
}

fn all(store: &mut Store) -> Vec<u64> {
    sequences(&store.receive(1, receive(main("q"), 10_000)))
}

fn wait(store: &mut Store) -> bellwether_core::name::Ticket {
    let receive = Receive { wait_ms: 60_000, ..receive(main("q"), 1) };
    store.begin(2, 0, Command::Receive(receive))
}

fn explain(store: &mut Store, sequence: u64) -> Vec<Cause> {
    let sequence = bellwether_core::name::SequenceNumber(sequence);
    match store.ask(1, Command::Explain { queue: queue("q"), sequence }) {
        Ok(Outcome::Explained(explanation)) => explanation.causes,
        other => panic!("{other:?}"),
    }
}

/// O3: a message that comes back takes its place again, among those of its priority and key.
#[test]
fn what_comes_back_takes_its_place() {
    let mut store = ordered(Order::default());
    store.send("q", vec![at(9), at(9), at(2), at(2)]);
    let first = store.receive_one(main("q"));
    store.settle(main("q"), token(&first), Disposition::Release).unwrap();
    assert_eq!(all(&mut store), [1, 2, 3, 4]);
}

/// O2: without ageing the lowest waits for ever; with it, as long as the difference in levels.
#[test]
fn age_is_worth_a_level_at_a_time() {
    for (ageing_ms, wanted) in [(None, [2, 1]), (Some(100), [1, 2]), (Some(101), [2, 1])] {
        let mut store = ordered(Order { ageing_ms, ..Order::default() });
        store.send("q", vec![at(1)]);
        store.pass(300);
        store.send("q", vec![at(4)]);
        assert_eq!(all(&mut store), wanted, "{ageing_ms:?}");
    }
}

/// O4: of ten thousand keys, and one of them with most of the messages, each is given its first
/// within one round.
#[test]
fn a_crowd_of_one_key_delays_no_other_by_more_than_a_round() {
    let mut store = ordered(Order::default()).limited(100_000, 10);
    for _ in 0..2 {
        store.send("q", (0..5_000).map(|_| of("crowd")).collect());
    }
    store.send("q", (0..9_999).map(|n| of(&n.to_string())).collect());
    let round = all(&mut store);
    assert_eq!(round.len(), 10_000);
    assert_eq!(round[0], 1, "one of the crowd");
    assert!(round[1..].iter().all(|number| *number > 10_000), "and one of each other");
}

/// O4: a key that has come and gone leaves no trace, and the queue is a plain one again.
#[test]
fn turns_end_with_the_last_message_that_has_a_rank() {
    let mut store = ordered(Order::default());
    store.send("q", vec![message(), of("a"), message(), of("a")]);
    let taken = store.receive(1, receive(main("q"), 10));
    assert_eq!(sequences(&taken), [1, 2, 3, 4]);
    for view in &taken {
        store.settle(main("q"), token(view), Disposition::Complete).unwrap();
    }
    store.send("q", vec![message(), message()]);
    assert_eq!(all(&mut store), [5, 6]);
}

/// O6: in a session queue messages keep the order of their session, whatever their rank.
#[test]
fn a_session_keeps_its_order() {
    let mut store = Store::with_queue(session_settings());
    let in_session = |new: NewMessage| NewMessage { session: Some(session("s")), ..new };
    store.send("q", vec![in_session(at(0)), in_session(of("k")), in_session(at(9))]);
    let hold = store.accept(1, None).unwrap();
    let receive = Receive { session: Some(hold), ..receive(main("q"), 10) };
    assert_eq!(sequences(&store.receive(1, receive)), [1, 2, 3]);
}

/// O7: whoever waits is served as soon as a key is under its limit, and not before; a lock that
/// runs out counts as given back.
#[test]
fn a_key_at_its_limit_waits_for_one_to_come_back() {
    let mut store = ordered(Order { key_in_flight_max: Some(1), ..Order::default() });
    store.send("q", vec![of("a"), of("a"), of("b")]);
    let first = store.receive_one(main("q"));
    let b = store.receive_one(main("q"));
    assert_eq!((first.sequence.0, b.sequence.0), (1, 3));
    assert_eq!(explain(&mut store, 2), [Cause::KeyAtLimit { in_flight: 1 }]);
    let ticket = wait(&mut store);
    store.settle(main("q"), token(&b), Disposition::Complete).unwrap();
    assert_eq!(store.answer(ticket), None, "that was another key's");
    store.settle(main("q"), token(&first), Disposition::Complete).unwrap();
    let served = store.answer(ticket).unwrap();
    let Ok(Outcome::Received(views)) = served else { panic!("{served:?}") };
    assert_eq!(sequences(&views), [2]);
    store.send("q", vec![of("a")]);
    assert_eq!(all(&mut store), [0; 0]);
    store.pass(1_000);
    assert_eq!(all(&mut store), [2], "its lock ran out, and it counts again");
}

/// O8, O9: a rate is a burst, then one by one; whoever waits is served by the clock alone.
#[test]
fn a_rate_is_kept_by_the_clock() {
    let rate = Rate { messages: 2, per_ms: 1_000 };
    let of_queue = Order { rate: Some(rate), ..Order::default() };
    let of_key = Order { key_rate: Some(rate), ..Order::default() };
    for order in [of_queue, of_key] {
        let mut store = ordered(order);
        store.send("q", (0..5).map(|_| of("a")).collect());
        assert_eq!(all(&mut store), [1, 2]);
        let causes = explain(&mut store, 3);
        assert!(
            matches!(causes[..], [Cause::RateLimited { .. } | Cause::KeyRateLimited { .. }]),
            "{causes:?}"
        );
        let ticket = wait(&mut store);
        store.pass(499);
        assert_eq!(store.answer(ticket), None);
        store.pass(1);
        assert!(store.answer(ticket).is_some());
        store.pass(3_000);
        assert_eq!(all(&mut store).len(), 2, "what was not used is not saved beyond the burst");
    }
}

/// O9: a key that sends one by one finds the bucket it has left.
#[test]
fn a_key_without_messages_is_remembered_while_it_owes_tokens() {
    let key_rate = Some(Rate { messages: 1, per_ms: 1_000 });
    let mut store = ordered(Order { key_rate, ..Order::default() });
    for _ in 0..2 {
        store.send("q", vec![of("a")]);
        let mode = ReceiveMode::ReceiveAndDelete;
        let taken = store.receive(1, Receive { mode, ..receive(main("q"), 1) });
        assert_eq!(taken.len(), 1);
        store.send("q", vec![of("a")]);
        assert_eq!(all(&mut store), [0; 0]);
        store.pass(1_000);
        assert_eq!(all(&mut store).len(), 1);
        store.pass(1_000);
    }
}

/// O9: after a restart buckets are full, and what is in flight counts.
#[test]
fn a_restart_fills_buckets_and_counts_what_is_held() {
    let rate = Some(Rate { messages: 1, per_ms: 1_000_000 });
    let order = Order { rate, key_rate: rate, key_in_flight_max: Some(1), ..Order::default() };
    let mut store = ordered(order);
    store.send("q", vec![of("a"), of("a"), of("b")]);
    assert_eq!(next(&mut store), 1);
    assert_eq!(all(&mut store), [0; 0]);
    store.restart();
    assert_eq!(all(&mut store), [3], "the one of a is held, and the queue gives one");
}

/// O8: other limits count from now on, and serve whoever waits.
#[test]
fn other_limits_serve_whoever_waits() {
    let rate = Some(Rate { messages: 1, per_ms: 1_000_000 });
    let mut store = ordered(Order { rate, ..Order::default() });
    store.send("q", vec![message(), message()]);
    assert_eq!(next(&mut store), 1);
    let ticket = wait(&mut store);
    assert_eq!(store.answer(ticket), None);
    let order = OrderPatch { rate: Some(None), ..OrderPatch::default() };
    let patch = Box::new(SettingsPatch { order, ..SettingsPatch::default() });
    store.ask(1, Command::UpdateQueue { queue: queue("q"), patch }).unwrap();
    assert!(store.answer(ticket).is_some());
}

fn send(store: &mut Store, messages: Vec<NewMessage>) -> Answer {
    store.ask(1, Command::Send { queue: queue("q"), messages: messages.into() })
}

/// O10: a send is refused whole, and told to come again when as many will have left as are too
/// many, at the pace of late.
#[test]
fn a_refused_sender_is_told_when_to_come_again() {
    let mut store = ordered(Order { messages_max: Some(4), ..Order::default() });
    let told = |answer: Answer| match answer {
        Err(Refusal::QueueBusy { retry_after_ms, .. }) => retry_after_ms,
        other => panic!("{other:?}"),
    };
    store.send("q", vec![message(), message(), message()]);
    assert_eq!(told(send(&mut store, vec![message(), message()])), 60_000, "nothing ever left");
    assert_eq!(store.info("q").counts.ready, 3, "all or none");
    for _ in 0..2 {
        store.pass(100);
        let taken = store.receive_one(main("q"));
        store.settle(main("q"), token(&taken), Disposition::Complete).unwrap();
    }
    store.send("q", vec![message(), message(), message()]);
    let soon = told(send(&mut store, vec![message(), message()]));
    assert!((100..10_000).contains(&soon), "two left in a fifth of a second: {soon}");
}

/// O11: what receivers hold is not dropped; where only that is left the sender is refused.
#[test]
fn what_is_held_makes_no_room() {
    let order = Order { messages_max: Some(2), overflow: Overflow::DropOldest, ..Order::default() };
    let mut store = ordered(order);
    store.send("q", vec![message(), message()]);
    assert_eq!(next(&mut store), 1);
    store.send("q", vec![message()]);
    assert_eq!(next(&mut store), 3, "the second made room");
    let refused = send(&mut store, vec![message()]);
    assert!(matches!(refused, Err(Refusal::QueueBusy { .. })), "{refused:?}");
    assert_eq!(store.info("q").totals.shed, 1);
    store.restart();
    let info = store.info("q");
    assert_eq!((info.totals.sent, info.totals.shed, info.counts.locked), (3, 1, 2));
}

/// O12: where the other queue takes nothing either, the sender is refused.
#[test]
fn a_spill_needs_room_too() {
    let mut store = Store::new();
    store.create("b", settings());
    let order = Order {
        messages_max: Some(1),
        overflow: Overflow::SpillTo(queue("b")),
        ..Order::default()
    };
    store.create("q", QueueSettings { order, ..settings() });
    store.send("q", vec![message(), at(9)]);
    assert_eq!((store.info("q").counts.ready, store.info("b").counts.ready), (1, 1));
    let order = OrderPatch { messages_max: Some(Some(1)), ..OrderPatch::default() };
    let patch = Box::new(SettingsPatch { order, ..SettingsPatch::default() });
    store.ask(1, Command::UpdateQueue { queue: queue("b"), patch }).unwrap();
    let refused = send(&mut store, vec![message()]);
    assert!(matches!(refused, Err(Refusal::QueueBusy { .. })), "{refused:?}");
}

/// O15: what keeps a message is told: those of higher priority, other keys, its own before it.
#[test]
fn what_keeps_a_message_is_told() {
    let mut store = ordered(Order::default());
    store.send("q", vec![of("a"), of("b"), of("a"), at(9), at(8)]);
    assert_eq!(
        explain(&mut store, 3),
        [
            Cause::BehindPriority { messages: 2 },
            Cause::TakesTurns { keys: 1 },
            Cause::Behind { messages: 1 }
        ]
    );
    assert_eq!(explain(&mut store, 4), []);
}
