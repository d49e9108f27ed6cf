//! Forwarding, dead letters that move, and sending them again.

use bellwether_core::command::{Command, Disposition};
use bellwether_core::error::Refusal;
use bellwether_core::limits::FORWARD_HOPS_MAX;
use bellwether_core::message::Reason;
use bellwether_core::name::{QueueName, SequenceNumber};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{QueueSettings, SettingsPatch, Status};

use super::store::{
    Store, dead, main, message, queue, receive, sequences, session_settings, settings, token,
};

fn forwarding_to(name: &str) -> QueueSettings {
    QueueSettings { forward_to: Some(queue(name)), ..settings() }
}

fn update(name: &str, patch: SettingsPatch) -> Command {
    Command::UpdateQueue { queue: queue(name), patch: Box::new(patch) }
}

fn redrive(to: Option<QueueName>, sequences: &[u64], max: u32) -> Command {
    let sequences = sequences.iter().copied().map(SequenceNumber).collect();
    Command::Redrive { queue: queue("q"), to, sequences, max }
}

/// A store with one message in the dead letters of `q`.
fn with_dead_letter(settings: QueueSettings) -> Store {
    let mut store = Store::with_queue(settings);
    store.send_one("q");
    let view = store.receive_one(main("q"));
    store.settle(main("q"), token(&view), Disposition::DeadLetter).unwrap();
    store
}

#[test]
fn a_message_moves_through_four_queues_and_no_more() {
    let mut store = Store::with_queue(settings());
    let mut target = "q".to_owned();
    for hop in 1..=FORWARD_HOPS_MAX {
        let name = format!("h{hop}");
        store.create(&name, forwarding_to(&target));
        target = name;
    }
    store.send_one("h4");
    assert_eq!(store.peek(main("q")).len(), 1, "four hops are allowed");
    store.create("h5", forwarding_to("h4"));
    store.send_one("h5");
    let stopped = store.peek(dead("h1"));
    assert_eq!(stopped[0].message.standing.reason, Reason::MaxTransferHopCountExceeded);
    let info = store.info("h4");
    assert_eq!((info.totals.sent, info.totals.forwarded, info.counts.ready), (2, 2, 0), "D8");
}

#[test]
fn a_ring_ends_and_tells_the_numbers_it_gave() {
    let mut store = Store::with_queue(settings());
    store.create("p", forwarding_to("q"));
    let patch = SettingsPatch { forward_to: Some(Some(queue("p"))), ..SettingsPatch::default() };
    store.ask(1, update("q", patch)).unwrap();
    let numbers = store.send("q", vec![message(), message()]);
    assert_eq!(numbers, [1, 4], "the ring took the numbers in between");
    assert_eq!(store.peek(dead("q")).len(), 2);
}

#[test]
fn a_target_that_does_not_take_it_leaves_it_in_the_sources_dead_letters() {
    for (target, reason) in [
        (
            QueueSettings { status: Status::SendDisabled, ..settings() },
            Reason::ForwardTargetUnavailable,
        ),
        (QueueSettings { size_bytes_max: 5, ..settings() }, Reason::ForwardTargetUnavailable),
        (session_settings(), Reason::SessionIdIsNull),
    ] {
        let mut store = Store::new();
        store.create("t", target);
        store.create("q", forwarding_to("t"));
        store.send_one("q");
        assert_eq!(store.peek(dead("q"))[0].message.standing.reason, reason);
    }
}

#[test]
fn what_waits_and_what_comes_back_moves_on_when_forwarding_is_switched_on() {
    let mut store = Store::with_queue(settings());
    store.create("t", settings());
    store.send("q", vec![message(), message()]);
    let locked = store.receive_one(main("q"));
    let patch = SettingsPatch { forward_to: Some(Some(queue("t"))), ..SettingsPatch::default() };
    store.ask(1, update("q", patch)).unwrap();
    store.tick();
    assert_eq!(store.peek(main("t")).len(), 1);
    let back = Disposition::Abandon { delay_ms: None };
    store.settle(main("q"), token(&locked), back).unwrap();
    assert_eq!(store.peek(main("t")).len(), 2);
}

#[test]
fn dead_letters_move_to_where_they_are_sent_and_do_not_expire_again() {
    let mut store = Store::new();
    store.create("graveyard", settings());
    store.create(
        "q",
        QueueSettings {
            ttl_ms: Some(100),
            dead_letter_expired: true,
            forward_dead_letters_to: Some(queue("graveyard")),
            ..settings()
        },
    );
    store.send_one("q");
    store.pass(10_000);
    let views = store.peek(main("graveyard"));
    assert_eq!(views[0].message.standing.reason, Reason::TtlExpired);
    assert_eq!(views[0].message.source.0, 2, "whose dead letter it was");
    assert!(store.peek(dead("q")).is_empty());
    assert_eq!(store.info("q").totals.forwarded, 1);
}

#[test]
fn a_redriven_message_is_sent_anew() {
    let mut store = with_dead_letter(settings());
    assert_eq!(store.ask(1, redrive(None, &[], 10)), Ok(Outcome::Count(1)));
    let view = store.receive_one(main("q"));
    assert_eq!(view.sequence.0, 2, "a new number");
    let standing = view.message.standing;
    assert_eq!((standing.deliveries, standing.reason), (0, Reason::None), "counts from zero");
    let info = store.info("q");
    assert_eq!((info.totals.sent, info.counts.dead_letters), (1, 0), "D8: it never left");
}

#[test]
fn redriving_elsewhere_is_refused_where_sending_would_be() {
    let mut store = with_dead_letter(QueueSettings { ttl_ms: Some(500), ..settings() });
    store.create("full", QueueSettings { size_bytes_max: 9, ..settings() });
    store.create("other", forwarding_to("q"));
    store.create("t", settings());
    store.pass(600);
    let to = |name: &str| Some(queue(name));
    let full = Refusal::QueueFull { queue: queue("full"), size_bytes_max: 9 };
    assert_eq!(store.ask(1, redrive(to("full"), &[], 10)), Err(full));
    let missing = Refusal::MessageNotFound(SequenceNumber(7));
    assert_eq!(store.ask(1, redrive(to("t"), &[1, 7], 10)), Err(missing), "all or none");
    assert_eq!(store.ask(1, redrive(to("t"), &[1], 10)), Ok(Outcome::Count(1)));
    store.tick();
    let views = store.receive(1, receive(main("t"), 9));
    assert_eq!(sequences(&views), [1], "it has not expired a second time");
    assert_eq!(views[0].message.standing.hops, 0);
}

#[test]
fn nothing_is_dead_lettered_twice_out_of_the_dead_letters() {
    let mut store = with_dead_letter(settings());
    for _ in 0..5 {
        let view = store.receive_one(dead("q"));
        let back = Disposition::Abandon { delay_ms: None };
        store.settle(dead("q"), token(&view), back).unwrap();
    }
    assert_eq!(store.info("q").counts.dead_letters, 1);
}
