//! Sessions: order, holds, state.

use bellwether_core::command::{Command, Disposition, NewContent, Receive};
use bellwether_core::error::Refusal;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{QueuePath, SequenceNumber, SessionToken};
use bellwether_core::outcome::{Outcome, SessionHold};

use super::store::{
    Answer, Store, main, message, queue, receive, sequences, session, session_settings, token,
};

const BACK: Disposition = Disposition::Abandon { delay_ms: None };
const LATER: Disposition = Disposition::Abandon { delay_ms: Some(300) };

/// Messages of these sessions, in order.
fn of(names: &[&str]) -> Vec<NewMessage> {
    names.iter().map(|name| NewMessage { session: Some(session(name)), ..message() }).collect()
}

fn close(token: &SessionToken) -> Command {
    Command::CloseSession { queue: queue("q"), token: token.clone() }
}

#[test]
fn a_session_is_first_in_first_out_and_one_holders() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "b", "a", "b"]));
    let a = store.accept(1, None).unwrap();
    assert_eq!(a.session, session("a"), "the oldest first");
    assert_eq!(store.accept(2, Some("a")), None, "it is held");
    let b = store.accept(2, None).unwrap();
    assert_eq!(sequences(&store.receive_from(1, &a, 9)), [1, 3]);
    assert_eq!(sequences(&store.receive_from(2, &b, 9)), [2, 4]);
    assert_eq!(store.accept(1, None), None);
    store.send("q", of(&["a"]));
    assert_eq!(sequences(&store.receive_from(1, &a, 9)), [5], "future messages too");
}

#[test]
fn what_is_abandoned_comes_next() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "a", "a"]));
    let hold = store.accept(1, None).unwrap();
    let views = store.receive_from(1, &hold, 1);
    store.settle(main("q"), token(&views[0]), BACK).unwrap();
    assert_eq!(sequences(&store.receive_from(1, &hold, 2)), [1, 2]);
}

#[test]
fn closing_does_not_count() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "a"]));
    let hold = store.accept(1, None).unwrap();
    let views = store.receive_from(1, &hold, 2);
    store.ask(1, close(&hold)).unwrap();
    let lost = Err(Refusal::LockLost(SequenceNumber(1)));
    assert_eq!(store.settle(main("q"), token(&views[0]), Disposition::Complete), lost, "L7");
    let standing = store.peek(main("q"))[0].message.standing;
    assert_eq!((standing.deliveries, standing.releases), (0, 1));
    assert_eq!(store.ask(1, close(&hold)), Err(Refusal::SessionLost(session("a"))));
}

#[test]
fn the_end_of_a_hold_counts() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "a"]));
    let hold = store.accept(1, None).unwrap();
    store.receive_from(1, &hold, 1);
    let wish = Receive { session: Some(hold.clone()), ..receive(main("q"), 1) };
    store.receive_from(1, &hold, 1);
    let waiting = store.begin(1, 0, Command::Receive(Receive { wait_ms: 9_000, ..wish }));
    let renew = Command::RenewSession { queue: queue("q"), token: hold.clone() };
    store.pass(900);
    store.ask(1, renew.clone()).unwrap();
    store.pass(999);
    assert_eq!(store.answer(waiting), None);
    store.pass(1);
    let lost = Err(Refusal::SessionLost(session("a")));
    assert_eq!(store.answer(waiting), Some(lost.clone()));
    assert_eq!(store.ask(1, renew), lost);
    let views = store.peek(main("q"));
    assert!(views.iter().all(|view| view.message.standing.crashes == 1));
}

/// L6 as the house amends it: a retry that waits holds back everything behind it.
#[test]
fn l6_a_delayed_retry_blocks_its_lane() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "a", "b"]));
    let hold = store.accept(1, None).unwrap();
    let first = token(&store.receive_from(1, &hold, 1)[0]);
    store.settle(main("q"), first, LATER).unwrap();
    assert!(store.receive_from(1, &hold, 9).is_empty());
    store.ask(1, close(&hold)).unwrap();
    assert_eq!(store.accept(1, None).unwrap().session, session("b"), "a has nothing to give");
    store.pass(300);
    let hold = store.accept(2, Some("a")).unwrap();
    assert_eq!(sequences(&store.receive_from(2, &hold, 9)), [1, 2]);
}

#[test]
fn l6_a_lane_opens_when_what_blocked_it_is_purged() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a", "a"]));
    let hold = store.accept(1, None).unwrap();
    let first = token(&store.receive_from(1, &hold, 1)[0]);
    store.settle(main("q"), first, LATER).unwrap();
    let wish = Receive { session: Some(hold), wait_ms: 200, ..receive(main("q"), 1) };
    let waiting = store.begin(1, 0, Command::Receive(wish));
    assert_eq!(store.answer(waiting), None);
    let purge = Command::Purge { from: main("q"), before: None, max: 1 };
    assert_eq!(store.ask(2, purge), Ok(Outcome::Count(1)));
    let answer = store.answer(waiting);
    let Some(Ok(Outcome::Received(views))) = answer else { panic!("{answer:?}") };
    assert_eq!(sequences(&views), [2]);
}

#[test]
fn those_who_wait_for_a_session_get_the_next_free_one() {
    let mut store = Store::with_queue(session_settings());
    let accept = |name: Option<&str>| Command::AcceptSession {
        queue: queue("q"),
        session: name.map(session),
        wait_ms: 500,
    };
    let held = store.accept(1, Some("a")).unwrap();
    let next = store.begin(2, 0, accept(None));
    let named = store.begin(2, 0, accept(Some("a")));
    store.send("q", of(&["b"]));
    let got = |answer: Option<Answer>| match answer {
        Some(Ok(Outcome::Session(Some(SessionHold { token, .. })))) => token.session,
        other => panic!("{other:?}"),
    };
    assert_eq!(got(store.answer(next)), session("b"));
    assert_eq!(store.answer(named), None);
    store.ask(1, close(&held)).unwrap();
    assert_eq!(got(store.answer(named)), session("a"));
    let vain = store.begin(2, 0, accept(None));
    store.pass(500);
    assert_eq!(store.answer(vain), Some(Ok(Outcome::Session(None))));
}

#[test]
fn state_survives_an_empty_lane_and_does_not_prolong_the_hold() {
    let mut store = Store::with_queue(session_settings());
    let hold = store.accept(1, Some("a")).unwrap();
    let set = |state| Command::SetSessionState { queue: queue("q"), token: hold.clone(), state };
    store.pass(600);
    store.ask(1, set(Some(NewContent { index: 0, bytes: 30 }))).unwrap();
    assert_eq!(store.info("q").counts.size_bytes, 30);
    store.pass(400);
    let get =
        |token: &SessionToken| Command::GetSessionState { queue: queue("q"), token: token.clone() };
    let lost = Err(Refusal::SessionLost(session("a")));
    assert_eq!(store.ask(1, get(&hold)), lost, "the state did not renew it");
    let hold = store.accept(2, Some("a")).unwrap();
    let kept = store.ask(2, get(&hold)).unwrap();
    assert!(matches!(kept, Outcome::SessionState(id, place) if id.0 != 0 && place.len == 30));
    let clear = Command::SetSessionState { queue: queue("q"), token: hold.clone(), state: None };
    store.ask(2, clear).unwrap();
    store.ask(2, close(&hold)).unwrap();
    let all = Command::ListSessions { queue: queue("q"), after: None, max: 9 };
    assert_eq!(store.ask(2, all), Ok(Outcome::Sessions(Vec::new())), "nothing is left of it");
}

/// L7: a session that was forgotten in between must not know the old holder's token.
#[test]
fn l7_a_hold_of_a_former_life_of_the_session_is_refused() {
    let mut store = Store::with_queue(session_settings());
    let old = store.accept(1, Some("a")).unwrap();
    store.ask(1, close(&old)).unwrap();
    let new = store.accept(2, Some("a")).unwrap();
    assert_ne!(old, new);
    assert_eq!(store.ask(1, close(&old)), Err(Refusal::SessionLost(session("a"))));
}

#[test]
fn a_session_queue_gives_nothing_out_without_a_session() {
    let mut store = Store::with_queue(session_settings());
    store.send("q", of(&["a"]));
    let plain = Command::Receive(receive(main("q"), 1));
    assert_eq!(store.ask(1, plain), Err(Refusal::SessionRequired(queue("q"))));
    // Its dead letters are given out one by one, as anywhere.
    let dead = Command::Receive(receive(QueuePath::dead(queue("q")), 1));
    assert_eq!(store.ask(1, dead), Ok(Outcome::Received(Vec::new())));
}

/// M54.
#[test]
fn a_queue_has_so_many_sessions_and_no_more() {
    let mut store = Store::with_queue(session_settings()).limited(9, 2);
    let too_many = Err(Refusal::TooMany { what: "sessions in the queue", max: 2 });
    let send = |names: &[&str]| Command::Send { queue: queue("q"), messages: of(names).into() };
    assert_eq!(store.ask(1, send(&["a", "b", "c"])), too_many, "all or nothing");
    store.send("q", of(&["a", "b"]));
    store.send("q", of(&["b", "a", "b"]));
    assert_eq!(store.ask(1, send(&["a", "c"])), too_many);
    let session = Some(session("c"));
    let accept = Command::AcceptSession { queue: queue("q"), session, wait_ms: 0 };
    assert_eq!(store.ask(1, accept), too_many, "nor by taking hold of one");
    let hold = store.accept(1, Some("a")).unwrap();
    for view in store.receive_from(1, &hold, 9) {
        store.settle(main("q"), token(&view), Disposition::Complete).unwrap();
    }
    store.ask(1, close(&hold)).unwrap();
    store.send("q", of(&["c"]));
}
