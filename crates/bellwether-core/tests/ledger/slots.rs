//! Several hold one lease at once. The line, the heartbeats and the operators' words of one slot are
//! proved in `leases.rs` and `steering.rs`; here is what is new with more.

use bellwether_core::command::{Acquire, Command, HeldSet, LeaseKind, Loss};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::fence::Fence;
use bellwether_core::limits;
use bellwether_core::member::digest;
use bellwether_core::name::{LeaseId, MemberId, Term, Ticket};
use bellwether_core::outcome::{LeaseState, Outcome};

use super::store::{Answer, Store, acquire, lease, main, receive, settings};

fn two(id: u128) -> Acquire {
    Acquire { slots: 2, ..acquire("l", id) }
}

/// A store with a queue and members one to five.
fn crowd() -> Store {
    let mut store = Store::with_queue(settings());
    for id in 3..=5 {
        store.join(id, 3_600_000);
    }
    store
}

fn take(store: &mut Store, member: u32, ask: Acquire) -> Result<Term, Refusal> {
    match store.ask(member, Command::Acquire(ask))? {
        Outcome::Granted { term, .. } => Ok(term),
        other => panic!("{other:?}"),
    }
}

/// Two members that hold it, under these terms.
fn both(store: &mut Store) -> (Term, Term) {
    (take(store, 1, two(1)).unwrap(), take(store, 2, two(2)).unwrap())
}

fn wait(store: &mut Store, member: u32, id: u128) -> Ticket {
    let wish = Acquire { wait_ms: 60_000, ..two(id) };
    store.begin(member, 0, Command::Acquire(wish))
}

fn granted(store: &Store, ticket: Ticket) -> Option<Term> {
    match store.answer(ticket) {
        Some(Ok(Outcome::Granted { term, .. })) => Some(term),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn release(id: u128) -> Command {
    Command::ReleaseLease { lease: lease("l"), id: LeaseId(id), successor: None }
}

fn holders(store: &mut Store) -> Vec<Term> {
    store.lease("l").holders().map(|holder| holder.term).collect()
}

#[test]
fn t47_as_many_hold_it_as_there_are_slots_and_no_more() {
    let mut store = crowd();
    let (first, second) = both(&mut store);
    assert!(second > first, "a term each");
    let held = LeaseRefusal::Held { lease: lease("l"), term: second };
    assert_eq!(take(&mut store, 3, two(3)), Err(held.into()));
    assert_eq!(take(&mut store, 1, two(1)), Ok(first), "the same again is the same");
    assert_eq!(holders(&mut store), [first, second]);
    let info = store.lease("l");
    assert_eq!((info.slots, info.term, info.holder), (2, first, Some(MemberId(1))));
    assert_eq!(info.others[0].holder, Some(MemberId(2)));
}

#[test]
fn t48_terms_are_unique_and_grow_over_all_slots() {
    let mut store = crowd();
    let mut terms = Vec::new();
    for round in 0..4 {
        let (first, second) = both(&mut store);
        terms.extend([first, second]);
        // Now the first slot is the older one, now the second.
        let ids = if round % 2 == 0 { [1, 2] } else { [2, 1] };
        for id in ids {
            store.ask(id as u32, release(id)).unwrap();
        }
        // And one holder alone, of the one slot there is then.
        terms.push(store.acquire(3, "l", 3).unwrap());
        store.ask(3, release(3)).unwrap();
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}

#[test]
fn t49_another_number_is_refused_while_anybody_holds_it() {
    let mut store = crowd();
    both(&mut store);
    let refused =
        |asked| Err(LeaseRefusal::OtherSlots { lease: lease("l"), slots: 2, asked }.into());
    let three = Acquire { slots: 3, wait_ms: 60_000, ..acquire("l", 3) };
    assert_eq!(take(&mut store, 3, three.clone()), refused(3), "and does not wait");
    assert_eq!(store.acquire(3, "l", 3), refused(1));
    let told = refused(3).map_err(|refusal: Refusal| refusal.to_string()).unwrap_err();
    assert!(told.contains("2 slots") && told.contains("asked for with 3"), "{told}");
    let own = Acquire { slots: 1, ..two(1) };
    assert_eq!(take(&mut store, 1, own), refused(1), "also under its own id");
    store.ask(1, release(1)).unwrap();
    assert_eq!(take(&mut store, 3, three.clone()), refused(3), "one still holds it");
    store.ask(2, release(2)).unwrap();
    take(&mut store, 3, three).unwrap();
    assert_eq!(store.lease("l").slots, 3);
}

#[test]
fn only_a_bound_lease_has_more_than_one_slot() {
    let mut store = crowd();
    let refused = |store: &mut Store, ask: Acquire| match take(store, 1, ask) {
        Err(Refusal::InvalidValue { what: "slots", why }) => why,
        other => panic!("{other:?}"),
    };
    let standing = Acquire { kind: LeaseKind::Standing, ..two(1) };
    assert!(refused(&mut store, standing).contains("bound to a member"));
    refused(&mut store, Acquire { slots: 0, ..two(1) });
    let many = Acquire { slots: limits::SLOTS_MAX + 1, ..two(1) };
    assert!(refused(&mut store, many).contains("1024"));
    take(&mut store, 1, Acquire { slots: limits::SLOTS_MAX, ..two(1) }).unwrap();
    store.ask(1, release(1)).unwrap();
    take(&mut store, 1, Acquire { kind: LeaseKind::Connected, ..two(1) }).unwrap();
}

#[test]
fn t50_one_line_waits_for_whichever_is_free_first() {
    let mut store = crowd();
    let (_, second) = both(&mut store);
    let (third, fourth) = (wait(&mut store, 3, 3), wait(&mut store, 4, 4));
    store.ask(2, release(2)).unwrap();
    let term = granted(&store, third).unwrap();
    assert!(term > second);
    assert_eq!(granted(&store, fourth), None, "there is one free slot, and one grant");
    store.ask(1, release(1)).unwrap();
    assert!(granted(&store, fourth).unwrap() > term);
}

#[test]
fn t51_a_heartbeat_renews_what_its_member_holds_and_the_others_run_out() {
    let mut store = crowd();
    let (first, second) = both(&mut store);
    let waiting = wait(&mut store, 3, 3);
    store.pass(900);
    store.beat(1, &[("l", first)]);
    store.pass(149);
    assert_eq!(granted(&store, waiting), None);
    store.pass(1);
    assert!(granted(&store, waiting).unwrap() > second, "after 105 % of its ttl");
    assert_eq!(holders(&mut store).len(), 2);
    assert_eq!(store.beat(2, &[("l", second)]).lost, [(lease("l"), second)]);
}

#[test]
fn one_member_may_hold_two_slots_and_its_digest_counts_both() {
    let mut store = crowd();
    let first = take(&mut store, 1, two(1)).unwrap();
    let second = take(&mut store, 1, two(2)).unwrap();
    store.pass(900);
    let name = lease("l");
    let same = |terms: &[Term]| HeldSet::Same {
        count: terms.len() as u32,
        digest: digest(terms.iter().map(|term| (&name, *term))),
    };
    let beat = |store: &mut Store, held| match store.ask(1, Command::Heartbeat { held }) {
        Ok(Outcome::Beat(beat)) => beat,
        other => panic!("{other:?}"),
    };
    assert!(beat(&mut store, same(&[first])).resync, "it holds one more");
    assert!(!beat(&mut store, same(&[first, second])).resync);
    store.pass(900);
    assert_eq!(holders(&mut store), [first, second]);
    store.ask(1, release(1)).unwrap();
    assert!(!beat(&mut store, same(&[second])).resync, "the other one stays");
    store.pass(900);
    assert_eq!(holders(&mut store), [second]);
}

#[test]
fn t52_a_goodbye_frees_all_slots_of_its_member_and_no_other() {
    for ends in [Command::Leave, Command::Lost { how: Loss::Died }] {
        let mut store = crowd();
        let (first, _) = both(&mut store);
        let (third, fourth) = (wait(&mut store, 3, 3), wait(&mut store, 4, 4));
        store.ask(2, ends).unwrap();
        assert!(granted(&store, third).is_some());
        assert_eq!(granted(&store, fourth), None);
        assert_eq!(holders(&mut store)[0], first);
    }
}

fn under(store: &mut Store, term: Term) -> Answer {
    let fence = Fence { election: lease("l"), term };
    let ticket = store.begin_under(Some(fence), 1, 0, Command::Receive(receive(main("q"), 1)));
    store.answer(ticket).unwrap()
}

#[test]
fn t53_a_fence_holds_for_every_term_that_is_held() {
    let mut store = crowd();
    let (first, second) = both(&mut store);
    assert!(under(&mut store, first).is_ok());
    assert!(under(&mut store, second).is_ok());
    store.ask(1, release(1)).unwrap();
    let (election, newest) = (lease("l"), Some(second));
    assert_eq!(under(&mut store, first), Err(Refusal::Fenced { election, term: first, newest }));
    assert!(under(&mut store, second).is_ok(), "the other one leads on");
}

#[test]
fn t54_all_are_asked_to_step_down_and_one_to_hand_over() {
    let mut store = crowd();
    let (first, second) = both(&mut store);
    let asked = |store: &mut Store, member, term| store.beat(member, &[("l", term)]).step_down;
    let (third, fourth) = (wait(&mut store, 3, 3), wait(&mut store, 4, 4));
    store.ask(5, Command::HandOver { lease: lease("l"), to: MemberId(4) }).unwrap();
    assert_eq!(asked(&mut store, 1, first), [(lease("l"), first)], "the one that led longest");
    assert!(asked(&mut store, 2, second).is_empty());
    store.ask(5, Command::AskStepDown { lease: lease("l") }).unwrap();
    assert_eq!(asked(&mut store, 2, second), [(lease("l"), second)]);
    assert_eq!(store.lease("l").waiting, [MemberId(4), MemberId(3)]);
    // The wish is for whichever is free first, and ends with that.
    store.ask(2, release(2)).unwrap();
    assert!(granted(&store, fourth).is_some());
    assert_eq!(granted(&store, third), None);
    assert_eq!(store.lease("l").successor, None);
    store.ask(1, release(1)).unwrap();
    assert!(granted(&store, third).is_some());
    assert!(store.lease("l").holders().all(|holder| !holder.step_down_asked));
}

#[test]
fn t55_a_pause_grants_no_slot_and_a_break_takes_them_all() {
    let mut store = crowd();
    let first = take(&mut store, 1, two(1)).unwrap();
    let pause = Command::PauseLease { lease: lease("l"), keep_leader: true };
    store.ask(5, pause).unwrap();
    assert_eq!(take(&mut store, 2, two(2)), Err(LeaseRefusal::Paused(lease("l")).into()));
    let (second, third) = (wait(&mut store, 2, 2), wait(&mut store, 3, 3));
    store.ask(5, Command::ResumeLease { lease: lease("l") }).unwrap();
    let term = granted(&store, second).unwrap();
    assert_eq!(holders(&mut store), [first, term]);
    let break_all = Command::BreakLease { lease: lease("l"), period_ms: Some(100) };
    assert_eq!(store.ask(5, break_all), Ok(Outcome::Breaking { remaining_ms: 100 }));
    let states: Vec<LeaseState> = store.lease("l").holders().map(|holder| holder.state).collect();
    assert_eq!(states, [LeaseState::Breaking; 2]);
    store.pass(100);
    assert_eq!(holders(&mut store), [granted(&store, third).unwrap()]);
}

#[test]
fn t56_a_watcher_hears_of_every_slot() {
    let mut store = crowd();
    let (_, second) = both(&mut store);
    let mut seen = store.lease("l").version;
    let mut changes = |store: &mut Store| {
        let version = store.lease("l").version;
        std::mem::replace(&mut seen, version) < version
    };
    store.pass(900);
    store.beat(2, &[("l", second)]);
    assert!(!changes(&mut store), "a renewal is no change");
    store.pass(150);
    assert!(changes(&mut store), "one ran out");
    store.ask(2, release(2)).unwrap();
    assert!(changes(&mut store));
    assert_eq!(holders(&mut store), []);
}

#[test]
fn t57_after_a_restart_all_who_held_it_are_honoured_and_never_more_than_may() {
    let mut store = crowd();
    let (first, second) = both(&mut store);
    store.pass(900);
    store.restart();
    assert_eq!(holders(&mut store), [first, second], "for a full duration");
    store.pass(1050);
    // Both ran out and nobody touched them: they must not stand again beside the only one.
    let alone = store.acquire(3, "l", 3).unwrap();
    store.restart();
    assert_eq!(holders(&mut store), [alone]);
    store.pass(1050);
    let again = take(&mut store, 1, two(1)).unwrap();
    assert!(again > alone, "E1");
}

#[test]
fn nobody_stands_twice_after_a_restart() {
    let mut store = crowd();
    let (_, second) = both(&mut store);
    store.pass(900);
    store.beat(1, &[]);
    store.pass(150);
    assert_eq!(holders(&mut store), [], "both ran out: {second:?}");
    let again = take(&mut store, 2, two(2)).unwrap();
    store.restart();
    let mut ids: Vec<_> = store.lease("l").holders().map(|holder| holder.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), store.lease("l").holders().count(), "an id is one holder's");
    store.ask(2, release(2)).unwrap();
    assert!(!holders(&mut store).contains(&again), "what it holds is what it gave back");
}

#[test]
fn an_id_is_not_changed_to_that_of_another_holder() {
    let mut store = crowd();
    let (_, second) = both(&mut store);
    let change =
        |id, to| Command::ChangeLease { lease: lease("l"), id: LeaseId(id), to: LeaseId(to) };
    let refused = LeaseRefusal::IdMismatch(lease("l"));
    assert_eq!(store.ask(1, change(1, 2)), Err(refused.into()));
    match store.ask(1, change(1, 7)) {
        Ok(Outcome::Granted { term, .. }) => assert!(term > second, "E1"),
        other => panic!("{other:?}"),
    }
}
