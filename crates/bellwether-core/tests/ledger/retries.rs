//! A request made again gets the first outcome.

use bellwether_core::command::{Command, Disposition, Receive, Request, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits::KEPT_OUTCOMES_MAX;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{MemberSlot, RequestNumber, SequenceNumber, Ticket};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::SettingsPatch;

use super::store::{
    Store, acquire, main, message, queue, receive, session, session_settings, settings, token,
};

#[test]
fn d3_a_send_made_again_sends_once() {
    let mut store = Store::with_queue(settings());
    let send = || Command::Send { queue: queue("q"), messages: vec![message(), message()].into() };
    let first = store.ask_numbered(1, 5, send());
    assert_eq!(store.ask_numbered(1, 5, send()), first);
    store.restart();
    assert_eq!(store.ask_numbered(1, 5, send()), first, "also after a restart");
    assert_eq!(store.info("q").totals.sent, 2);
    assert_ne!(store.ask_numbered(2, 5, send()), first, "another member's five is another one");
}

#[test]
fn d6_a_settle_made_again_succeeds_and_another_settle_of_it_does_not() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let token = token(&store.receive_one(main("q")));
    let settle = |disposition| Command::Settle {
        from: main("q"),
        settlements: vec![Settlement { token, disposition, overlay: None }].into(),
    };
    let done = Ok(Outcome::Settled { refused: Vec::new() });
    assert_eq!(store.ask_numbered(1, 5, settle(Disposition::Complete)), done);
    assert_eq!(store.ask_numbered(1, 5, settle(Disposition::Complete)), done);
    let lost = vec![(0, Refusal::LockLost(SequenceNumber(1)))];
    let second = store.ask_numbered(1, 6, settle(Disposition::Complete));
    assert_eq!(second, Ok(Outcome::Settled { refused: lost }));
}

#[test]
fn a_receive_made_again_hands_out_what_still_stands() {
    let mut store = Store::with_queue(settings());
    store.send("q", vec![message(); 3]);
    let ask = || Command::Receive(receive(main("q"), 2));
    let Ok(Outcome::Received(first)) = store.ask_numbered(1, 5, ask()) else { panic!() };
    let again = |store: &mut Store| match store.ask_numbered(1, 5, ask()) {
        Ok(Outcome::Received(views)) => views,
        other => panic!("{other:?}"),
    };
    assert_eq!(again(&mut store), first, "under the same tokens");
    store.settle(main("q"), token(&first[0]), Disposition::Complete).unwrap();
    assert_eq!(again(&mut store), first[1..]);
    store.pass(1000);
    assert!(again(&mut store).is_empty(), "what was lost is not handed out under an old token");
}

/// By the clock: whether a timer got to it is nobody's business, and a settlement would be refused.
#[test]
fn a_receive_made_again_does_not_hand_out_what_ended_in_this_moment() {
    let mut store = Store::with_queue(settings());
    store.send_one("q");
    let ask = || Command::Receive(receive(main("q"), 1));
    let Ok(Outcome::Received(first)) = store.ask_numbered(1, 5, ask()) else { panic!() };
    let tokens = vec![token(&first[0])];
    store.ask(1, Command::RenewLocks { from: main("q"), tokens, lock_ms: Some(0) }).unwrap();
    assert_eq!(store.ask_numbered(1, 5, ask()), Ok(Outcome::Received(Vec::new())));

    let mut store = Store::with_queue(session_settings());
    store.send("q", vec![NewMessage { session: Some(session("s")), ..message() }]);
    let under = store.accept(1, Some("s"));
    let ask = || Command::Receive(Receive { session: under.clone(), ..receive(main("q"), 1) });
    let Ok(Outcome::Received(first)) = store.ask_numbered(1, 5, ask()) else { panic!() };
    assert_eq!(first.len(), 1);
    store.now = store.now.plus_ms(settings().lock_ms.into());
    assert_eq!(store.ask_numbered(1, 5, ask()), Ok(Outcome::Received(Vec::new())));
}

#[test]
fn a_wish_made_again_waits_in_the_place_of_the_first() {
    let mut store = Store::with_queue(settings());
    let wish = || Command::Receive(Receive { wait_ms: 5000, ..receive(main("q"), 1) });
    let first = store.begin(1, 5, wish());
    let second = store.begin(1, 5, wish());
    assert_eq!(store.answer(first), Some(Ok(Outcome::Received(Vec::new()))), "it waits no more");
    store.send_one("q");
    let answer = store.answer(second);
    assert!(matches!(&answer, Some(Ok(Outcome::Received(views))) if views.len() == 1));
    assert_eq!(Some(store.ask_numbered(1, 5, wish())), answer);
}

/// E4: a holder trusts a grant from when it asked for it. Asking again must not make an old grant
/// young.
#[test]
fn e5_an_acquire_made_again_after_the_lease_has_passed_on_is_not_granted() {
    let mut store = Store::new();
    let ask = || Command::Acquire(acquire("l", 1));
    let first = store.ask_numbered(1, 5, ask());
    assert_eq!(store.ask_numbered(1, 5, ask()), first, "a lost answer is asked for again");
    store.pass(1050);
    store.acquire(2, "l", 2).unwrap();
    assert!(matches!(store.ask_numbered(1, 5, ask()), Err(Refusal::Lease(_))));
}

#[test]
fn an_update_made_again_does_not_undo_a_later_one() {
    let mut store = Store::with_queue(settings());
    let set = |lock_ms| Command::UpdateQueue {
        queue: queue("q"),
        patch: Box::new(SettingsPatch { lock_ms: Some(lock_ms), ..SettingsPatch::default() }),
    };
    store.ask_numbered(1, 5, set(2000)).unwrap();
    store.ask_numbered(2, 5, set(3000)).unwrap();
    store.ask_numbered(1, 5, set(2000)).unwrap();
    assert_eq!(store.info("q").settings.lock_ms, 3000);
}

/// A member that has heard everything may go on for ever; a copy of what it has heard about is
/// not done again.
#[test]
fn outcomes_are_forgotten_when_they_were_heard() {
    let mut store = Store::with_queue(settings());
    let mut ticket = Ticket(1_000_000);
    let mut ask = |number: u64, heard: u64| {
        let request = Request {
            member: MemberSlot(1),
            number: RequestNumber(number),
            answered_below: RequestNumber(heard),
            command: Command::TouchLease { lease: super::store::lease("l") },
            fence: None,
        };
        ticket.0 += 1;
        store.apply(ticket, &request);
        store.answer(ticket).unwrap()
    };
    let last = KEPT_OUTCOMES_MAX as u64;
    for number in 1..=last {
        assert_eq!(ask(number, 0), Ok(Outcome::Done));
    }
    assert!(matches!(ask(last + 1, 0), Err(Refusal::TooMany { .. })));
    assert_eq!(ask(last + 1, last + 1), Ok(Outcome::Done));
    assert!(matches!(ask(3, 0), Err(Refusal::InvalidValue { what: "request number", .. })));
}
