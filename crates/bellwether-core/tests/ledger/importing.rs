//! Messages that lived in another store.

use bellwether_core::command::{Command, Imported, NewContent, Resting};
use bellwether_core::error::{Operation, Refusal};
use bellwether_core::message::{NewMessage, Reason};
use bellwether_core::name::{QueuePath, SequenceNumber};
use bellwether_core::outcome::{Outcome, Sequences};
use bellwether_core::rank::Rank;
use bellwether_core::settings::{QueueSettings, Status};
use bellwether_core::time::WallTime;

use super::store::{Answer, Store, dead, main, message, queue, session_settings, settings};

const YESTERDAY: WallTime = WallTime(900_000);

fn imported(state: Resting) -> Imported {
    Imported {
        content: NewContent { index: 0, bytes: 10 },
        overlay: None,
        id_hash: 0,
        session: None,
        rank: Rank::default(),
        enqueued_at: YESTERDAY,
        expires_at: WallTime::NEVER,
        state,
        deliveries: 2,
        failures: 1,
        crashes: 1,
        releases: 3,
        reason: Reason::None,
    }
}

fn import(store: &mut Store, to: QueuePath, messages: Vec<Imported>) -> Answer {
    store.ask(1, Command::Import { to, messages })
}

#[test]
fn a_message_goes_on_as_it_was_under_a_new_number() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message()]);
    let due = store.now.wall.plus_ms(500);
    let states =
        [Resting::Ready, Resting::Deferred, Resting::Scheduled { due }, Resting::Delayed { due }];
    let given = import(&mut store, main("q"), states.map(imported).to_vec());
    let numbers = Sequences::List((2..=5).map(SequenceNumber).collect());
    assert_eq!(given, Ok(Outcome::Sent(numbers)));
    store.restart();
    let views = store.peek(main("q"));
    for (view, state) in views[1..].iter().zip(states) {
        assert_eq!(view.message.enqueued_at, YESTERDAY);
        let standing = view.message.standing;
        assert_eq!(standing.state, state.into());
        assert_eq!((standing.deliveries, standing.failures, standing.crashes), (2, 1, 1));
        assert_eq!(standing.releases, 3);
    }
    let totals = store.info("q").totals;
    assert_eq!(totals.sent, 5, "M40: what is there came in");
}

#[test]
fn a_dead_letter_keeps_its_reason_and_its_words() {
    let mut store = Store::with_queue(settings());
    let reason = Reason::MaxDeliveryCountExceeded;
    let mut letter = imported(Resting::Ready);
    letter.reason = reason;
    letter.overlay = Some(NewContent { index: 1, bytes: 7 });
    import(&mut store, dead("q"), vec![letter]).unwrap();
    let views = store.peek(dead("q"));
    assert_eq!(views[0].message.standing.reason, reason);
    assert_eq!(views[0].contents().count(), 2, "the content and what was changed");
    let redrive = Command::Redrive { queue: queue("q"), to: None, sequences: Vec::new(), max: 9 };
    assert_eq!(store.ask(1, redrive), Ok(Outcome::Count(1)));
}

#[test]
fn a_paused_queue_is_imported_into_and_a_duplicate_is_not_dropped() {
    let paused =
        QueueSettings { status: Status::Disabled, duplicate_window_ms: Some(60_000), ..settings() };
    let mut store = Store::with_queue(paused);
    let twin = Imported { id_hash: 7, ..imported(Resting::Ready) };
    import(&mut store, main("q"), vec![twin.clone(), twin]).unwrap();
    assert_eq!(store.peek(main("q")).len(), 2);
    let again = NewMessage { id_hash: 7, ..message() };
    let send = Command::Send { queue: queue("q"), messages: vec![again].into() };
    let refused = Refusal::QueueDisabled { queue: queue("q"), operation: Operation::Send };
    assert_eq!(store.ask(1, send), Err(refused), "senders still wait");
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut store = Store::with_queue(session_settings());
    let refused = import(&mut store, main("q"), vec![imported(Resting::Ready)]);
    assert_eq!(refused, Err(Refusal::SessionRequired(queue("q"))));
    let mut letter = imported(Resting::Scheduled { due: WallTime(1) });
    letter.reason = Reason::Application;
    for letter in [imported(Resting::Ready), letter] {
        let refused = import(&mut store, dead("q"), vec![letter]);
        assert!(matches!(refused, Err(Refusal::InvalidValue { .. })), "{refused:?}");
    }
    assert!(store.peek(main("q")).is_empty() && store.peek(dead("q")).is_empty());
}

#[test]
fn a_message_is_removed_by_its_number_unless_somebody_has_it() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(), message(), message()]);
    store.receive_one(main("q"));
    let sequences = [1, 2, 2, 7].map(SequenceNumber).to_vec();
    let remove = Command::Remove { from: main("q"), sequences };
    assert_eq!(store.ask(1, remove), Ok(Outcome::Count(1)), "one is locked, one gone, one unknown");
    let info = store.info("q");
    assert_eq!((info.counts.ready, info.counts.locked, info.totals.purged), (1, 1, 1));
}
