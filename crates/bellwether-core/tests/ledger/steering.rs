//! Elections that an operator sees and steers: why terms ended, who follows, a pause, and who is
//! told that it is the next.

use bellwether_core::command::{Acquire, Command, LeaseKind, ReleaseReason};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, MemberId, Term, Ticket};
use bellwether_core::outcome::{EndedBy, LeaseState, MemberHealth, Outcome};

use super::store::{Store, acquire, lease};

fn wait(store: &mut Store, member: u32, id: u128) -> Ticket {
    let wish = Acquire { wait_ms: 60_000, ..acquire("l", id) };
    store.begin(member, 0, Command::Acquire(wish))
}

fn release(id: u128) -> Command {
    Command::ReleaseLease { lease: lease("l"), id: LeaseId(id), successor: None }
}

fn hand_over(to: u128) -> Command {
    Command::HandOver { lease: lease("l"), to: MemberId(to) }
}

fn pause(keep_leader: bool) -> Command {
    Command::PauseLease { lease: lease("l"), keep_leader }
}

fn resume() -> Command {
    Command::ResumeLease { lease: lease("l") }
}

fn await_turn(store: &mut Store, member: u32) -> Ticket {
    let turn = Command::AwaitTurn { lease: lease("l"), wait_ms: 5_000 };
    store.begin(member, 0, turn)
}

#[track_caller]
fn granted(store: &Store, ticket: Ticket) -> Term {
    match store.answer(ticket) {
        Some(Ok(Outcome::Granted { term, .. })) => term,
        other => panic!("{other:?}"),
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> LeaseRefusal {
    match answer {
        Err(Refusal::Lease(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_end_of_a_term_is_written_down_with_its_reason() {
    let mut store = Store::new();
    let mut ends = Vec::new();
    let mut term = store.acquire(1, "l", 1).unwrap();
    store.ask(1, release(1)).unwrap();
    ends.push((term, EndedBy::Released { reason: None }));

    term = store.acquire(1, "l", 1).unwrap();
    let (id, reason) = (LeaseId(1), ReleaseReason::Stalled);
    let stalled = Command::StepDown { lease: lease("l"), id, successor: None, reason };
    store.ask(1, stalled).unwrap();
    ends.push((term, EndedBy::Released { reason: Some(reason) }));

    term = store.acquire(1, "l", 1).unwrap();
    let reason = ReleaseReason::Died;
    let died = Command::StepDown { lease: lease("l"), id, successor: None, reason };
    store.ask(2, died).unwrap();
    ends.push((term, EndedBy::Died));

    term = store.acquire(1, "l", 1).unwrap();
    store.ask(1, Command::ChangeLease { lease: lease("l"), id, to: LeaseId(2) }).unwrap();
    ends.push((term, EndedBy::ChangedId));

    term = store.lease("l").term;
    store.pass(1050);
    ends.push((term, EndedBy::RanOut));

    term = store.acquire(1, "l", 1).unwrap();
    store.ask(2, Command::BreakLease { lease: lease("l"), period_ms: Some(0) }).unwrap();
    ends.push((term, EndedBy::Broken));

    term = store.acquire(1, "l", 1).unwrap();
    store.ask(2, Command::BreakLease { lease: lease("l"), period_ms: Some(100) }).unwrap();
    assert_eq!(store.ended(), ends, "the holder still has it");
    store.pass(100);
    ends.push((term, EndedBy::Broken));

    term = store.acquire(1, "l", 1).unwrap();
    store.ask(1, Command::Leave).unwrap();
    ends.push((term, EndedBy::Goodbye));
    assert_eq!(store.ended(), ends);
}

/// Whoever acts on a lease that has ended before anybody noticed finds it ended, and its end is
/// written down as what it was; an end that was noticed is not written down twice.
#[test]
fn a_late_release_does_not_hide_that_the_time_ran_out() {
    for noticed in [false, true] {
        let mut store = Store::new();
        let term = store.acquire(1, "l", 1).unwrap();
        store.now = store.now.plus_ms(2_000);
        if noticed {
            store.pass(0);
        }
        store.ask(1, release(1)).unwrap();
        store.pass(10_000);
        assert_eq!(store.ended(), [(term, EndedBy::RanOut)], "noticed: {noticed}");
    }
}

#[test]
fn what_happened_changes_nothing_of_how_things_are() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    store.pass(1050);
    assert_eq!(store.ended(), [(term, EndedBy::RanOut)]);
    store.restart();
    let info = store.lease("l");
    assert_eq!((info.state, info.term), (LeaseState::Leased, term), "a restart gives grace");
}

#[test]
fn a_hand_over_goes_to_the_member_that_was_named() {
    let mut store = Store::new();
    store.join(3, 3_600_000);
    let term = store.acquire(1, "l", 1).unwrap();
    let (second, third) = (wait(&mut store, 2, 2), wait(&mut store, 3, 3));
    assert_eq!(store.lease("l").waiting, [MemberId(2), MemberId(3)]);
    store.ask(2, hand_over(3)).unwrap();
    let info = store.lease("l");
    assert_eq!((info.step_down_asked, info.successor), (true, Some(MemberId(3))));
    assert_eq!(info.waiting, [MemberId(3), MemberId(2)], "the next first");
    assert_eq!(store.beat(1, &[("l", term)]).step_down, [(lease("l"), term)]);
    store.ask(1, release(1)).unwrap();
    assert!(granted(&store, third) > term);
    assert_eq!(store.answer(second), None);
    let info = store.lease("l");
    assert_eq!((info.step_down_asked, info.successor), (false, None));
    assert_eq!(info.waiting, [MemberId(2)]);
}

#[test]
fn a_wish_who_shall_follow_outlives_the_holder_and_yields_to_its_own_choice() {
    let mut store = Store::new();
    store.join(3, 3_600_000);
    store.acquire(1, "l", 1).unwrap();
    let (_second, third) = (wait(&mut store, 2, 2), wait(&mut store, 3, 3));
    store.ask(2, hand_over(3)).unwrap();
    store.pass(1050);
    granted(&store, third);
    let first = wait(&mut store, 1, 1);
    store.ask(2, hand_over(1)).unwrap();
    let (id, successor) = (LeaseId(3), Some(MemberId(2)));
    store.ask(3, Command::ReleaseLease { lease: lease("l"), id, successor }).unwrap();
    assert_eq!(store.lease("l").holder, Some(MemberId(2)), "the holder knows best");
    assert_eq!(store.answer(first), None);
}

#[test]
fn a_hand_over_to_nobody_in_line_is_refused() {
    let mut store = Store::new();
    assert_eq!(refused(store.ask(1, hand_over(2))), LeaseRefusal::NotPresent(lease("l")));
    store.acquire(1, "l", 1).unwrap();
    for stranger in [1, 2, 99] {
        let member = MemberId(stranger);
        let not_in_line = LeaseRefusal::NotInLine { lease: lease("l"), member };
        assert_eq!(refused(store.ask(2, hand_over(stranger))), not_in_line);
    }
    assert!(!store.lease("l").step_down_asked, "a refusal changes nothing");
    wait(&mut store, 2, 2);
    store.ask(0, pause(true)).unwrap();
    assert_eq!(refused(store.ask(2, hand_over(2))), LeaseRefusal::Paused(lease("l")));
}

#[test]
fn while_it_is_paused_a_lease_is_granted_to_nobody() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    let waiting = wait(&mut store, 2, 2);
    store.ask(0, pause(false)).unwrap();
    assert_eq!(store.beat(1, &[("l", term)]).step_down, [(lease("l"), term)]);
    store.ask(1, release(1)).unwrap();
    assert_eq!(store.answer(waiting), None, "it keeps its place");
    assert_eq!(refused(store.acquire(1, "l", 1)), paused());
    let short = Acquire { wait_ms: 100, ..acquire("l", 1) };
    let short = store.begin(1, 0, Command::Acquire(short));
    store.pass(100);
    assert_eq!(refused(store.answer(short).unwrap()), paused());
    assert!(store.lease("l").paused);
    store.restart();
    assert!(store.lease("l").paused, "it is durable");
    let waiting = wait(&mut store, 2, 2);
    store.ask(0, resume()).unwrap();
    assert!(granted(&store, waiting) > term);
    assert!(!store.lease("l").paused);
    assert_eq!(store.ask(0, resume()), Ok(Outcome::Done), "nothing to do");
}

fn paused() -> LeaseRefusal {
    LeaseRefusal::Paused(lease("l"))
}

#[test]
fn a_leader_that_is_kept_leads_on_through_a_pause() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    store.ask(0, pause(true)).unwrap();
    assert_eq!(store.beat(1, &[("l", term)]).step_down, []);
    assert_eq!(store.acquire(1, "l", 1), Ok(term), "the same again is the same");
    let waiting = wait(&mut store, 2, 2);
    store.pass(1050);
    assert_eq!(store.answer(waiting), None);
    assert_eq!(store.lease("l").state, LeaseState::Expired);
    store.ask(0, resume()).unwrap();
    assert!(granted(&store, waiting) > term);
}

#[test]
fn an_election_can_be_paused_before_anybody_stands_for_it() {
    let mut store = Store::new();
    store.ask(0, pause(false)).unwrap();
    let info = store.lease("l");
    assert_eq!((info.state, info.term, info.paused), (LeaseState::Available, Term(0), true));
    assert_eq!(refused(store.acquire(1, "l", 1)), paused());
    store.ask(0, resume()).unwrap();
    assert!(store.acquire(1, "l", 1).unwrap().0 >= store.now.wall.0);
    assert_eq!(store.ended(), [], "no term has ended");
}

#[test]
fn only_the_next_in_line_is_told_that_it_is() {
    let mut store = Store::new();
    store.join(3, 3_600_000);
    store.acquire(1, "l", 1).unwrap();
    let (second, third) = (await_turn(&mut store, 2), await_turn(&mut store, 3));
    let in_line = wait(&mut store, 2, 2);
    assert_eq!(store.answer(second), Some(Ok(Outcome::Turn { next: true })));
    wait(&mut store, 3, 3);
    assert_eq!(store.answer(third), None);
    assert_eq!(store.ask(2, now()), Ok(Outcome::Turn { next: true }));
    assert_eq!(store.ask(3, now()), Ok(Outcome::Turn { next: false }));
    // By a wish, and back to the order of the line when the head goes without a step of the ledger.
    store.ask(1, hand_over(3)).unwrap();
    assert_eq!(store.answer(third), Some(Ok(Outcome::Turn { next: true })));
    let second = await_turn(&mut store, 2);
    store.ask(1, release(1)).unwrap();
    assert_eq!(store.lease("l").holder, Some(MemberId(3)));
    assert_eq!(store.answer(second), Some(Ok(Outcome::Turn { next: true })));
    wait(&mut store, 1, 1);
    let first = await_turn(&mut store, 1);
    assert!(store.ledger.withdraw(in_line));
    assert_eq!(store.ledger.next_deadline_ms(store.now), Some(0), "somebody is to be told");
    store.pass(0);
    assert_eq!(store.answer(first), Some(Ok(Outcome::Turn { next: true })));
    let never = await_turn(&mut store, 2);
    store.pass(5_000);
    assert_eq!(store.answer(never), Some(Ok(Outcome::Turn { next: false })));
    assert_eq!(store.ask(0, now()), Err(Refusal::MemberGone), "nobody is never the next");
}

fn now() -> Command {
    Command::AwaitTurn { lease: lease("l"), wait_ms: 0 }
}

#[test]
fn members_are_listed_with_what_shows_how_they_are() {
    let mut store = Store::new();
    let term = store.acquire(2, "l", 1).unwrap();
    let standing = Acquire { kind: LeaseKind::Standing, wait_ms: 9_000, ..acquire("l", 2) };
    store.begin(1, 0, Command::Acquire(standing));
    store.pass(700);
    store.beat(2, &[("l", term)]);
    let list = |store: &mut Store, after: Option<u128>, max| match store
        .ask(0, Command::MemberHealth { after: after.map(MemberId), max })
    {
        Ok(Outcome::MemberHealth(members)) => members,
        other => panic!("{other:?}"),
    };
    let members = list(&mut store, None, 9);
    let seen = |m: &MemberHealth| (m.info.id.0, m.silent_ms, m.ttl_ms, m.waits_for.clone());
    let seen: Vec<_> = members.iter().map(seen).collect();
    assert_eq!(seen, [(1, 700, 3_600_000, vec![lease("l")]), (2, 0, 3_600_000, vec![])]);
    assert_eq!(members[1].info.leases, [(lease("l"), term)]);
    assert_eq!(list(&mut store, None, 1), members[..1]);
    assert_eq!(list(&mut store, Some(1), 9), members[1..]);
}
