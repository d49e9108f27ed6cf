//! What a queue does about deliveries that fail: suspects and outages, as stories.

use bellwether_core::command::{Command, Disposition, Loss, Receive};
use bellwether_core::error::Refusal;
use bellwether_core::message::{MessageView, Reason};
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::{OutageInfo, Outcome};
use bellwether_core::settings::{Backoff, Failures, OutagePolicy, QueueSettings};

use super::store::{Store, dead, main, message, queue, receive, sequences, settings, token};

fn taken(store: &mut Store, member: u32, max: u32) -> Vec<MessageView> {
    store.receive(member, receive(main("q"), max))
}

fn done(store: &mut Store, view: &MessageView) {
    let settled = store.settle(main("q"), token(view), Disposition::Complete);
    assert_eq!(settled, Ok(Outcome::Done));
}

fn failed(store: &mut Store, view: &MessageView, delay_ms: Option<u64>) {
    let settled = store.settle(main("q"), token(view), Disposition::Abandon { delay_ms });
    assert_eq!(settled, Ok(Outcome::Done));
}

fn die(store: &mut Store, member: u32) {
    store.ask(member, Command::Lost { how: Loss::Died }).unwrap();
    store.pass(0);
}

fn outage(store: &mut Store) -> Option<OutageInfo> {
    match store.ask(1, Command::DescribeOutage { queue: queue("q") }) {
        Ok(Outcome::Outage(outage)) => outage,
        other => panic!("{other:?}"),
    }
}

/// M62: a death that was proved gives back at once what the dead one had locked, and counts as a
/// crash; a goodbye leaves it locked.
#[test]
fn what_the_dead_had_locked_is_there_at_once() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(); 4]);
    assert_eq!(taken(&mut store, 2, 2).len(), 2);
    die(&mut store, 2);
    for sequence in [1, 2] {
        let back = taken(&mut store, 1, 10);
        assert_eq!(sequences(&back), [sequence], "a suspect, alone");
        let standing = back[0].message.standing;
        assert_eq!((standing.crashes, standing.deliveries), (1, 1));
        done(&mut store, &back[0]);
    }
    let polite = store.join(77, 60_000);
    let passed_on = taken(&mut store, polite, 1);
    store.ask(polite, Command::Leave).unwrap();
    die(&mut store, polite);
    done(&mut store, &passed_on[0]);
}

/// M28, M29: to the millisecond: before its end a lock is good, from its end on it is not.
#[test]
fn a_lock_is_good_until_its_end_and_not_at_it() {
    for (ms, is_good) in [(997, true), (998, true), (999, true), (1000, false), (1001, false)] {
        for ticks in [false, true] {
            let mut store = Store::with_queue(settings());
            store.send_one("q");
            let token = token(&store.receive_one(main("q")));
            if ticks {
                store.pass(ms);
            } else {
                // The time is over, and nobody has looked at the clock yet.
                store.now = store.now.plus_ms(ms);
            }
            let settled = store.settle(main("q"), token, Disposition::Complete);
            let lost = Err(Refusal::LockLost(SequenceNumber(1)));
            assert_eq!(settled, if is_good { Ok(Outcome::Done) } else { lost }, "after {ms} ms");
            store.pass(2000);
            assert_eq!(taken(&mut store, 2, 10).len(), usize::from(!is_good));
        }
    }
}

/// M65: innocents that were beside a message that kills are never convicted, however often it does.
#[test]
fn only_the_one_that_kills_is_convicted() {
    let failures = Failures { crashes_max: 2, outage: None, ..Failures::default() };
    let settings = QueueSettings { deliveries_max: 50, failures, ..settings() };
    let mut store = Store::with_queue(settings);
    store.send("q", vec![message(); 8]);
    let poison = 5;
    let (mut member, mut completed) = (store.join(999, 60_000), Vec::new());
    for round in 0..40 {
        assert!(round < 39, "it does not end: {completed:?}");
        let views = taken(&mut store, member, 8);
        if views.is_empty() {
            break;
        }
        if sequences(&views).contains(&poison) {
            die(&mut store, member);
            member = store.join(1000 + round, 60_000);
            continue;
        }
        for view in views {
            done(&mut store, &view);
            completed.push(view.sequence.0);
        }
    }
    completed.sort_unstable();
    assert_eq!(completed, [1, 2, 3, 4, 6, 7, 8]);
    let letters = store.peek(dead("q"));
    assert_eq!(sequences(&letters), [poison]);
    let standing = letters[0].message.standing;
    assert_eq!((standing.reason, standing.crashes), (Reason::ConsumerCrashed, 3));
}

/// M64: with members that are never idle by themselves a suspect is not forgotten.
#[test]
fn a_suspect_does_not_starve_beside_busy_members() {
    let mut store = Store::with_queue(QueueSettings { lock_ms: 100_000, ..settings() });
    store.send("q", vec![message(); 2]);
    let first = store.receive_one(main("q"));
    assert_eq!(sequences(&taken(&mut store, 2, 1)), [2]);
    die(&mut store, 2);
    let wait = Receive { wait_ms: 60_000, ..receive(main("q"), 10) };
    let ticket = store.begin(1, 0, Command::Receive(wait));
    store.send("q", vec![message(); 3]);
    assert_eq!(store.answer(ticket), None, "it is kept free");
    done(&mut store, &first);
    let Some(Ok(Outcome::Received(suspect))) = store.answer(ticket) else { panic!("nothing") };
    assert_eq!(sequences(&suspect), [2]);
    assert!(taken(&mut store, 1, 10).is_empty(), "nothing beside it");
    done(&mut store, &suspect[0]);
    assert_eq!(sequences(&taken(&mut store, 1, 10)), [3, 4, 5]);
}

/// M61: the queue's own delay is only for those who name none.
#[test]
fn the_delay_of_the_queue_grows_and_is_never_longer_than_it_may_be() {
    let retry = Some(Backoff { first_ms: 100, max_ms: 300, jitter_percent: 0 });
    let failures = Failures { retry, ..Failures::default() };
    let mut store = Store::with_queue(QueueSettings { deliveries_max: 10, failures, ..settings() });
    store.send_one("q");
    for delay_ms in [100, 200, 300, 300] {
        let view = store.receive_one(main("q"));
        failed(&mut store, &view, None);
        store.pass(delay_ms - 1);
        assert!(taken(&mut store, 1, 1).is_empty(), "{delay_ms} ms are not over");
        store.pass(1);
    }
    let view = store.receive_one(main("q"));
    failed(&mut store, &view, Some(0));
    assert_eq!(taken(&mut store, 1, 1).len(), 1);
}

/// M66, M67: the drill. What all messages need is away for five seconds, and three deliveries are the
/// most: nothing becomes a dead letter, and afterwards everything is done.
#[test]
fn an_outage_of_five_seconds_dead_letters_nothing() {
    let retry = Some(Backoff { first_ms: 100, max_ms: 200, jitter_percent: 20 });
    let failures = Failures { retry, ..Failures::default() };
    let mut store = Store::with_queue(QueueSettings { lock_ms: 60_000, failures, ..settings() });
    store.send("q", vec![message(); 100]);
    let (mut completed, mut handed_out) = (0, 0);
    for ms in 0..30_000 {
        for view in taken(&mut store, 1, 3) {
            handed_out += 1;
            if ms < 5_000 {
                failed(&mut store, &view, None);
            } else {
                done(&mut store, &view);
                completed += 1;
            }
        }
        store.pass(1);
    }
    assert_eq!(store.info("q").counts.dead_letters, 0);
    assert_eq!((completed, outage(&mut store)), (100, None));
    assert!(handed_out < 130, "{handed_out} deliveries for 100 messages");
}

/// M66: the same without the detector, so that it is known what it is good for.
#[test]
fn without_the_detector_the_same_outage_dead_letters_everything() {
    let failures = Failures { outage: None, ..Failures::default() };
    let mut store = Store::with_queue(QueueSettings { lock_ms: 60_000, failures, ..settings() });
    store.send("q", vec![message(); 100]);
    for _ in 0..5_000 {
        for view in taken(&mut store, 1, 3) {
            failed(&mut store, &view, None);
        }
        store.pass(1);
    }
    assert_eq!(store.info("q").counts.dead_letters, 100);
}

/// M67: a message that fails for good does not keep an outage going for ever: another one is tried.
#[test]
fn an_outage_is_not_kept_up_by_one_bad_message() {
    let outage_policy = OutagePolicy { failures: 2, pause_ms_min: 100, pause_ms_max: 1_000 };
    let failures = Failures { outage: Some(outage_policy), ..Failures::default() };
    let mut store = Store::with_queue(QueueSettings { failures, ..settings() });
    store.send("q", vec![message(); 4]);
    for _ in 0..2 {
        let view = store.receive_one(main("q"));
        failed(&mut store, &view, Some(60_000));
    }
    assert!(outage(&mut store).is_some());
    store.pass(100);
    let bad = store.receive_one(main("q"));
    assert_eq!(bad.sequence.0, 3);
    failed(&mut store, &bad, None);
    store.pass(200);
    let good = store.receive_one(main("q"));
    assert_eq!(good.sequence.0, 4);
    done(&mut store, &good);
    assert_eq!(outage(&mut store), None);
}
