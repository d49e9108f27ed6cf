//! What is asked under a term counts only while that term is held.

use bellwether_core::command::{
    Acquire, Command, Disposition, LeaseKind, Receive, ReceiveMode, Settlement,
};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
use bellwether_core::name::{LeaseId, QueuePath, SequenceNumber, Term, Ticket};
use bellwether_core::outcome::{Barrier, Outcome};
use bellwether_core::settings::{Durability, QueueSettings, SettingsPatch};

use super::store::{
    Answer, Store, acquire, lease, main, message, queue, receive, session_settings, settings, token,
};

fn fence(term: Term) -> Fence {
    Fence { election: lease("l"), term }
}

fn send() -> Command {
    Command::Send { queue: queue("q"), messages: vec![message()].into() }
}

fn settle(from: QueuePath, settlement: Settlement) -> Command {
    Command::Settle { from, settlements: Few::One(settlement) }
}

fn release(id: u128) -> Command {
    Command::ReleaseLease { lease: lease("l"), id: LeaseId(id), successor: None }
}

fn break_after(period_ms: u64) -> Command {
    Command::BreakLease { lease: lease("l"), period_ms: Some(period_ms) }
}

fn fenced(term: Term, newest: Option<Term>) -> Refusal {
    Refusal::Fenced { election: lease("l"), term, newest }
}

impl Store {
    fn under(&mut self, term: Term, command: Command) -> Answer {
        let ticket = self.begin_under(Some(fence(term)), 1, 0, command);
        self.answer(ticket).expect("an answer at once")
    }

    /// A queue with a message in it, and the term under which member one leads.
    fn led() -> (Self, Term) {
        let mut store = Self::with_queue(settings());
        store.send_one("q");
        let term = store.acquire(1, "l", 1).unwrap();
        (store, term)
    }
}

#[test]
fn a_term_counts_while_it_is_held_and_no_longer() {
    type Step = fn(&mut Store);
    // What happens after the grant, and whether a newer term was granted, the old one still counts.
    let cases: &[(&str, Step, bool)] = &[
        ("nothing", |_| {}, true),
        ("not quite 105 % of the ttl", |store| store.pass(1049), true),
        ("105 % of the ttl", |store| store.pass(1050), false),
        (
            "its time is over, and no timer has fired",
            |store| store.now = store.now.plus_ms(1050),
            false,
        ),
        (
            "it was renewed",
            |store| {
                store.pass(900);
                let held = store.lease("l").term;
                store.beat(1, &[("l", held)]);
                store.pass(900);
            },
            true,
        ),
        ("it was released", |store| drop(store.ask(1, release(1)).unwrap()), false),
        ("its member left", |store| drop(store.ask(1, Command::Leave).unwrap()), false),
        ("it is being broken", |store| drop(store.ask(2, break_after(500)).unwrap()), true),
        (
            "it was broken",
            |store| {
                store.ask(2, break_after(500)).unwrap();
                store.pass(500);
            },
            false,
        ),
        ("it was broken at once", |store| drop(store.ask(2, break_after(0)).unwrap()), false),
        (
            "another has led since",
            |store| {
                store.ask(1, release(1)).unwrap();
                store.acquire(2, "l", 2).unwrap();
            },
            false,
        ),
        (
            "it leads again, under a new term",
            |store| {
                store.ask(1, release(1)).unwrap();
                store.acquire(1, "l", 1).unwrap();
            },
            false,
        ),
        (
            "its id was changed",
            |store| {
                let (lease, id) = (lease("l"), LeaseId(1));
                store.ask(1, Command::ChangeLease { lease, id, to: LeaseId(3) }).unwrap();
            },
            false,
        ),
        ("the store was restarted", Store::restart, true),
        (
            "the store was restarted, and nobody came back",
            |store| {
                store.restart();
                store.pass(1050);
            },
            false,
        ),
        (
            "it was released, and the store restarted",
            |store| {
                store.ask(1, release(1)).unwrap();
                store.restart();
            },
            false,
        ),
    ];
    for (what, happens, counts) in cases {
        let (mut store, term) = Store::led();
        happens(&mut store);
        let newest = Some(store.lease("l").term);
        let before = store.info("q").totals.sent;
        // Member two asks: a fence is a proof for whoever shows it.
        let ticket = store.begin_under(Some(fence(term)), 2, 0, send());
        let answer = store.answer(ticket).unwrap();
        if *counts {
            assert!(matches!(answer, Ok(Outcome::Sent(_))), "{what}: {answer:?}");
        } else {
            assert_eq!(answer, Err(fenced(term, newest)), "{what}");
        }
        assert_eq!(store.info("q").totals.sent, before + u64::from(*counts), "{what}");
    }
}

#[test]
fn a_term_that_was_never_granted_does_not_count() {
    let (mut store, term) = Store::led();
    let (older, newer) = (Term(term.0 - 1), Term(term.0 + 1));
    assert_eq!(store.under(newer, send()), Err(fenced(newer, Some(term))));
    assert_eq!(store.under(older, send()), Err(fenced(older, Some(term))));
    let unknown = Fence { election: lease("other"), term };
    let ticket = store.begin_under(Some(unknown), 1, 0, send());
    let refusal = Refusal::Fenced { election: lease("other"), term, newest: None };
    assert_eq!(store.answer(ticket), Some(Err(refusal)));
    // Somebody waits for it or watches it: a name, but no grant.
    store.begin(2, 0, Command::WatchLease { lease: lease("other"), seen: 0, wait_ms: 1000 });
    let unknown = Fence { election: lease("other"), term: Term(0) };
    let ticket = store.begin_under(Some(unknown), 1, 0, send());
    assert!(matches!(store.answer(ticket), Some(Err(Refusal::Fenced { newest: None, .. }))));
}

#[test]
fn a_refusal_says_what_became_of_the_term_and_who_must_act() {
    for (newest, words) in [
        (Some(Term(8)), "term 8 was granted since; stop the work: the newer leader"),
        (Some(Term(7)), "stop the work and lead again"),
        (Some(Term(6)), "never granted here, the newest is 6; show the term"),
        (None, "nobody was ever granted election \"l\" here"),
    ] {
        let refusal = fenced(Term(7), newest);
        let text = refusal.to_string();
        assert!(text.contains(words) && text.contains("term 7"), "{text}");
        assert!(!refusal.retry(), "a term that is over never counts again");
    }
}

#[test]
fn a_standing_lease_that_is_renewed_late_counts_again_under_its_term() {
    let mut store = Store::with_queue(settings());
    let wish = Acquire { kind: LeaseKind::Standing, ..acquire("l", 1) };
    let Ok(Outcome::Granted { term, .. }) = store.ask(1, Command::Acquire(wish)) else { panic!() };
    store.pass(1000);
    assert!(store.under(term, send()).is_err());
    store.ask(1, Command::RenewLease { lease: lease("l"), id: LeaseId(1) }).unwrap();
    store.under(term, send()).unwrap();
}

/// Whatever is asked: nothing of it happens.
#[test]
fn every_change_of_a_queue_is_refused_under_a_term_that_is_over() {
    let (mut store, term) = Store::led();
    store.send_one("q");
    let dead = store.receive_one(main("q"));
    store.settle(main("q"), token(&dead), Disposition::DeadLetter).unwrap();
    let delivery = store.receive_one(main("q"));
    let (from, token) = (main("q"), token(&delivery));
    store.ask(1, release(1)).unwrap();
    let before = (store.info("q"), store.peek(main("q")));
    let mut commands: Vec<Command> = [
        Disposition::Complete,
        Disposition::Abandon { delay_ms: None },
        Disposition::Release,
        Disposition::Defer,
        Disposition::DeadLetter,
    ]
    .into_iter()
    .map(|disposition| settle(from.clone(), Settlement { token, disposition, overlay: None }))
    .collect();
    let (queue, sequences) = (queue("q"), vec![SequenceNumber(2)]);
    commands.extend([
        send(),
        Command::Cancel { queue: queue.clone(), sequences: sequences.clone() },
        Command::Purge { from: from.clone(), before: None, max: 10 },
        Command::Remove { from: from.clone(), sequences: sequences.clone() },
        Command::Redrive { queue: queue.clone(), to: None, sequences: Vec::new(), max: 10 },
        Command::RenewLocks { from: from.clone(), tokens: vec![token], lock_ms: None },
        Command::Receive(Receive { mode: ReceiveMode::ReceiveAndDelete, ..receive(from, 1) }),
        Command::UpdateQueue { queue: queue.clone(), patch: SettingsPatch::default().into() },
        Command::CreateQueue { queue: super::store::queue("new"), settings: settings().into() },
        Command::DeleteQueue { queue },
        Command::Peek { from: main("q"), sequence: SequenceNumber(0), max: 1, session: None },
    ]);
    for command in commands {
        let answer = store.under(term, command.clone());
        assert_eq!(answer, Err(fenced(term, Some(term))), "{command:?}");
    }
    assert_eq!((store.info("q"), store.peek(main("q"))), before);
    store.settle(main("q"), token, Disposition::Complete).unwrap();
}

/// The first outcome is what happened, and it happened under the term.
#[test]
fn a_request_made_again_gets_its_first_outcome_whatever_became_of_the_term() {
    let (mut store, term) = Store::led();
    let ask = |store: &mut Store, number| {
        let ticket = store.begin_under(Some(fence(term)), 1, number, send());
        store.answer(ticket).unwrap()
    };
    let first = ask(&mut store, 5);
    assert!(matches!(first, Ok(Outcome::Sent(_))));
    store.ask(1, release(1)).unwrap();
    assert_eq!(ask(&mut store, 5), first);
    assert_eq!(ask(&mut store, 6), Err(fenced(term, Some(term))), "it had not been decided");
    store.restart();
    assert_eq!(ask(&mut store, 5), first);
    assert_eq!(store.info("q").totals.sent, 2);
    // A refusal is not remembered: under a term that is held the same request is decided anew.
    let term = store.acquire(1, "l", 4).unwrap();
    let ticket = store.begin_under(Some(fence(term)), 1, 6, send());
    assert!(matches!(store.answer(ticket), Some(Ok(Outcome::Sent(_)))));
}

fn wait_for_message(store: &mut Store, term: Term) -> Ticket {
    let wish = Receive { wait_ms: 60_000, ..receive(main("empty"), 1) };
    store.begin_under(Some(fence(term)), 2, 0, Command::Receive(wish))
}

#[test]
fn who_waits_under_a_term_hears_at_once_that_it_is_over() {
    type Step = fn(&mut Store);
    let ends: &[Step] = &[
        |store| drop(store.ask(1, release(1)).unwrap()),
        |store| drop(store.ask(2, break_after(0)).unwrap()),
        |store| store.pass(1050),
    ];
    for end in ends {
        let (mut store, term) = Store::led();
        store.create("empty", settings());
        store.create("sessions", session_settings());
        let accept =
            Command::AcceptSession { queue: queue("sessions"), session: None, wait_ms: 60_000 };
        let waiting = [
            wait_for_message(&mut store, term),
            store.begin_under(Some(fence(term)), 2, 0, accept),
        ];
        for ticket in waiting {
            assert_eq!(store.answer(ticket), None);
        }
        end(&mut store);
        for ticket in waiting {
            assert_eq!(store.answer(ticket), Some(Err(fenced(term, Some(term)))));
        }
    }
}

/// Between the end of a term and the timer that tells of it nothing is handed out under it.
#[test]
fn who_waited_is_not_served_under_a_term_that_has_run_out_in_this_moment() {
    let (mut store, term) = Store::led();
    store.create("empty", settings());
    let first = wait_for_message(&mut store, term);
    let wish = Receive { wait_ms: 60_000, ..receive(main("empty"), 1) };
    let second = store.begin(2, 0, Command::Receive(wish));
    store.now = store.now.plus_ms(1050);
    store.send_one("empty");
    assert_eq!(store.answer(first), Some(Err(fenced(term, Some(term)))));
    let served = store.answer(second);
    assert!(
        matches!(&served, Some(Ok(Outcome::Received(views))) if views.len() == 1),
        "{served:?}"
    );
}

/// What a member held ends together, whatever the names are: nothing is granted under a term that
/// ends in the same step.
#[test]
fn who_waited_is_not_granted_a_lease_under_a_term_that_ends_with_it() {
    for other in ["k", "m"] {
        let mut store = Store::new();
        let term = store.acquire(1, "l", 1).unwrap();
        store.acquire(1, other, 1).unwrap();
        let wish = Acquire { wait_ms: 60_000, ..acquire(other, 2) };
        let ticket = store.begin_under(Some(fence(term)), 2, 0, Command::Acquire(wish));
        assert_eq!(store.answer(ticket), None);
        store.ask(1, Command::Leave).unwrap();
        assert_eq!(store.answer(ticket), Some(Err(fenced(term, Some(term)))), "{other}");
    }
}

/// Nobody hears that a term is over before that is durable: after a power cut it might not be.
#[test]
fn a_refusal_waits_for_what_ended_the_term() {
    let (mut store, term) = Store::led();
    let relaxed = QueueSettings { durability: Durability::Relaxed, ..settings() };
    store.create("relaxed", relaxed);
    store.ask(1, release(1)).unwrap();
    let send = Command::Send { queue: queue("relaxed"), messages: vec![message()].into() };
    let ticket = store.begin_under(Some(fence(term)), 1, 0, send);
    assert_eq!(store.barrier(ticket), Barrier::Durable);
}
