//! Leases as the ledger runs them: the line, the watchers, members and their heartbeats. The table
//! of one lease is proved in `lease_table.rs`.

use bellwether_core::command::{Acquire, Command, HeldSet, LeaseKind, Loss};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::member::digest;
use bellwether_core::name::{LeaseId, MemberId, MemberSlot, Term, Ticket};
use bellwether_core::outcome::{Beat, LeaseState, Outcome};

use super::store::{Answer, Store, acquire, lease};

fn wait(store: &mut Store, member: u32, id: u128, priority: i32) -> Ticket {
    let wish = Acquire { wait_ms: 60_000, priority, ..acquire("l", id) };
    store.begin(member, 0, Command::Acquire(wish))
}

fn release(id: u128, successor: Option<u128>) -> Command {
    let (lease, id) = (lease("l"), LeaseId(id));
    Command::ReleaseLease { lease, id, successor: successor.map(MemberId) }
}

fn granted(store: &Store, ticket: Ticket) -> Option<Term> {
    match store.answer(ticket) {
        Some(Ok(Outcome::Granted { term, .. })) => Some(term),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_holder_and_terms_that_grow() {
    let mut store = Store::new();
    let first = store.acquire(1, "l", 1).unwrap();
    assert!(first.0 >= store.now.wall.0, "a name without history starts at the time of day");
    let held = LeaseRefusal::Held { lease: lease("l"), term: first };
    assert_eq!(store.acquire(2, "l", 2), Err(held.into()));
    assert_eq!(store.acquire(1, "l", 1), Ok(first), "the same again is the same");
    store.ask(1, release(1, None)).unwrap();
    assert!(store.acquire(2, "l", 2).unwrap() > first, "E1");
    let stale = store.ask(1, release(1, None));
    assert_eq!(stale, Err(LeaseRefusal::IdMismatch(lease("l")).into()), "E9");
}

#[test]
fn e3_a_lease_passes_on_after_105_percent_and_not_before() {
    let mut store = Store::new();
    let first = store.acquire(1, "l", 1).unwrap();
    let waiting = wait(&mut store, 2, 2, 0);
    store.pass(900);
    assert_eq!(store.beat(1, &[("l", first)]), Beat::default());
    store.pass(1049);
    assert_eq!(granted(&store, waiting), None);
    store.pass(1);
    assert!(granted(&store, waiting).unwrap() > first);
    assert_eq!(store.beat(1, &[("l", first)]).lost, [(lease("l"), first)]);
}

/// One heartbeat renews them all; without it each ends at its own time (T9, T13).
#[test]
fn the_leases_of_a_silent_member_end_each_at_its_own_time() {
    let mut store = Store::new();
    let short = store.acquire(1, "l", 1).unwrap();
    let wish = Acquire { ttl_ms: 3_000, ..acquire("long", 2) };
    let Ok(Outcome::Granted { term: long, .. }) = store.ask(1, Command::Acquire(wish)) else {
        panic!("it is free");
    };
    let after_short = wait(&mut store, 2, 3, 0);
    let wish = Acquire { wait_ms: 60_000, ..acquire("long", 4) };
    let after_long = store.begin(2, 0, Command::Acquire(wish));
    for _ in 0..5 {
        store.pass(1_000);
        assert_eq!(store.beat(1, &[("l", short), ("long", long)]), Beat::default());
    }
    store.pass(1_049);
    assert_eq!((granted(&store, after_short), granted(&store, after_long)), (None, None));
    store.pass(1);
    assert!(granted(&store, after_short).unwrap() > short);
    // It is back, in time for the other one.
    let beat = store.beat(1, &[("l", short), ("long", long)]);
    assert_eq!(beat.lost, [(lease("l"), short)]);
    store.pass(3_149);
    assert_eq!(granted(&store, after_long), None);
    store.pass(1);
    assert!(granted(&store, after_long).unwrap() > long);
}

/// The member's own time is shorter than its lease's: its silence ends its presence, not the
/// lease it renewed a moment ago.
#[test]
fn e3_the_end_of_a_presence_does_not_shorten_a_lease() {
    let mut store = Store::new();
    let short = store.join(3, 300);
    let term = store.acquire(short, "l", 1).unwrap();
    for _ in 0..20 {
        store.pass(200);
        assert_eq!(store.beat(short, &[("l", term)]), Beat::default());
    }
    store.pass(1049);
    assert_eq!(store.ask(short, Command::ListMembers), Err(Refusal::MemberGone));
    assert!(store.acquire(2, "l", 2).is_err(), "its last heartbeat still counts");
    store.pass(1);
    store.acquire(2, "l", 2).unwrap();
}

#[test]
fn the_line_is_served_by_priority_and_then_by_age() {
    let mut store = Store::new();
    store.acquire(1, "l", 1).unwrap();
    let (low, old, young) =
        (wait(&mut store, 2, 2, 0), wait(&mut store, 2, 3, 5), wait(&mut store, 2, 4, 5));
    store.ask(1, release(1, None)).unwrap();
    let first = granted(&store, old).unwrap();
    store.ask(2, release(3, None)).unwrap();
    let second = granted(&store, young).unwrap();
    store.ask(2, release(4, None)).unwrap();
    let third = granted(&store, low).unwrap();
    assert!(first < second && second < third);
}

#[test]
fn a_lease_is_handed_over_to_a_named_successor_that_waits() {
    let mut store = Store::new();
    let third = store.join(3, 60_000);
    store.acquire(1, "l", 1).unwrap();
    let (first, named) = (wait(&mut store, 2, 2, 9), wait(&mut store, third, 3, 0));
    store.ask(1, release(1, Some(3))).unwrap();
    assert!(granted(&store, named).is_some());
    assert_eq!(granted(&store, first), None);
    assert_eq!(store.lease("l").holder, Some(MemberId(3)));
}

#[test]
fn an_ask_made_twice_is_granted_once_and_answered_twice() {
    let mut store = Store::new();
    store.acquire(1, "l", 1).unwrap();
    let (ask, again) = (wait(&mut store, 2, 2, 0), wait(&mut store, 2, 2, 0));
    store.ask(1, release(1, None)).unwrap();
    let term = granted(&store, ask);
    assert!(term.is_some() && granted(&store, again) == term);
    store.ask(2, release(2, None)).unwrap();
    assert_eq!(store.lease("l").holder, None, "nobody stands in line any more");
}

#[test]
fn e7_nobody_is_granted_a_lease_after_it_has_gone() {
    let mut store = Store::new();
    let short = store.join(3, 500);
    store.acquire(1, "l", 1).unwrap();
    let (gone, here) = (wait(&mut store, short, 3, 9), wait(&mut store, 2, 2, 0));
    // Both the lease and the presence are over when anybody looks.
    store.now = store.now.plus_ms(2000);
    store.tick();
    assert_eq!(store.answer(gone), Some(Err(Refusal::MemberGone)));
    assert!(granted(&store, here).is_some());
}

#[test]
fn a_wait_that_ends_without_a_grant_is_told_so() {
    let mut store = Store::new();
    let keeper = Acquire { kind: LeaseKind::Standing, ttl_ms: u64::MAX, ..acquire("l", 1) };
    store.ask(1, Command::Acquire(keeper)).unwrap();
    let waiting = wait(&mut store, 2, 2, 0);
    store.pass(60_000);
    let refused = LeaseRefusal::NotGranted(lease("l")).into();
    assert_eq!(store.answer(waiting), Some(Err(refused)));
}

#[test]
fn a_goodbye_frees_everything_the_member_held_at_once() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    store.acquire(1, "m", 1).unwrap();
    // It no longer names m: m runs out by itself, or with the goodbye.
    store.beat(1, &[("l", term)]);
    let own = wait(&mut store, 1, 7, 9);
    let waiting = wait(&mut store, 2, 2, 0);
    store.ask(1, Command::Leave).unwrap();
    assert!(granted(&store, waiting).is_some());
    assert_eq!(store.answer(own), Some(Err(Refusal::MemberGone)), "E7");
    assert_eq!(store.lease("m").state, LeaseState::Available);
    assert_eq!(store.ask(1, Command::ListMembers), Err(Refusal::MemberGone));
}

#[test]
fn a_proven_death_frees_what_a_goodbye_would() {
    let mut store = Store::new();
    store.acquire(1, "l", 1).unwrap();
    let standing = Acquire { kind: LeaseKind::Standing, ..acquire("m", 1) };
    store.ask(1, Command::Acquire(standing)).unwrap();
    let (own, waiting) = (wait(&mut store, 1, 7, 9), wait(&mut store, 2, 2, 0));
    store.ask(1, Command::Lost { how: Loss::Died }).unwrap();
    assert!(granted(&store, waiting).is_some());
    assert_eq!(store.answer(own), Some(Err(Refusal::MemberGone)), "E7");
    assert_eq!(store.lease("m").state, LeaseState::Leased, "it is kept by its own renewals");
    assert_eq!(store.ask(1, Command::ListMembers), Err(Refusal::MemberGone));
}

#[test]
fn a_death_frees_leases_also_of_one_that_was_silent_for_too_long() {
    let mut store = Store::new();
    let short = store.join(77, 500);
    store.acquire(short, "l", 1).unwrap();
    store.pass(600);
    assert_eq!(store.ask(short, Command::ListMembers), Err(Refusal::MemberGone));
    assert_eq!(store.lease("l").state, LeaseState::Leased, "its last heartbeat counts");
    store.ask(short, Command::Lost { how: Loss::Died }).unwrap();
    assert_eq!(store.lease("l").state, LeaseState::Available);
    let nobody = Command::Lost { how: Loss::Died };
    assert_eq!(store.ask(0, nobody), Err(Refusal::MemberGone));
}

#[test]
fn a_closed_connection_frees_only_what_asked_for_it_and_is_no_sign_of_life() {
    let mut store = Store::new();
    let member = store.join(77, 1000);
    let connected = Acquire { kind: LeaseKind::Connected, ..acquire("l", 1) };
    store.ask(member, Command::Acquire(connected)).unwrap();
    store.acquire(member, "m", 1).unwrap();
    let waiting = wait(&mut store, 2, 2, 0);
    store.pass(600);
    assert_eq!(store.answer(waiting), None, "a lost connection is not in it");
    store.ask(member, Command::Lost { how: Loss::Disconnected }).unwrap();
    assert!(granted(&store, waiting).is_some());
    assert_eq!(store.lease("m").state, LeaseState::Leased);
    store.pass(399);
    let present = store.ask(2, Command::ListMembers).unwrap();
    store.pass(1);
    let Outcome::Members(present) = present else { panic!("{present:?}") };
    assert!(present.iter().any(|info| info.slot.0 == member));
    assert_eq!(store.ask(member, Command::ListMembers), Err(Refusal::MemberGone));
}

#[test]
fn a_heartbeat_renews_the_set_both_sides_agree_on_and_nothing_else() {
    let mut store = Store::new();
    let (l, m) = (store.acquire(1, "l", 1).unwrap(), store.acquire(1, "m", 1).unwrap());
    let same = |held: &[(&str, Term)]| {
        let names: Vec<_> = held.iter().map(|(name, term)| (lease(name), *term)).collect();
        let digest = digest(names.iter().map(|(name, term)| (name, *term)));
        Command::Heartbeat { held: HeldSet::Same { count: held.len() as u32, digest } }
    };
    let beat = |resync| Ok(Outcome::Beat(Beat { resync, ..Beat::default() }));
    assert_eq!(store.ask(1, same(&[("l", l), ("m", m)])), beat(false));
    store.pass(1000);
    assert_eq!(store.ask(1, same(&[("l", l)])), beat(true), "nothing was renewed");
    store.beat(1, &[("l", l)]);
    assert_eq!(store.ask(1, same(&[("l", l)])), beat(false));
    store.pass(50);
    assert_eq!(store.lease("m").state, LeaseState::Expired);
    assert_eq!(store.lease("l").state, LeaseState::Leased);
}

#[test]
fn asking_leaves_a_word_and_the_holder_decides() {
    let mut store = Store::new();
    let term = store.acquire(1, "l", 1).unwrap();
    store.ask(2, Command::AskStepDown { lease: lease("l") }).unwrap();
    assert_eq!(store.beat(1, &[("l", term)]).step_down, [(lease("l"), term)]);
    // Dropped from the set and named again: the word still stands.
    store.beat(1, &[]);
    assert_eq!(store.beat(1, &[("l", term)]).step_down, [(lease("l"), term)]);
    assert!(store.lease("l").step_down_asked);
    store.ask(1, release(1, None)).unwrap();
    assert!(!store.lease("l").step_down_asked);
}

/// Decision 18: stopping to renew one lease is the holder's word; nobody else's action takes it
/// back.
#[test]
fn asking_does_not_renew_a_lease_its_holder_stopped_to_name() {
    let mut store = Store::new();
    store.acquire(1, "l", 1).unwrap();
    store.beat(1, &[]);
    store.ask(2, Command::AskStepDown { lease: lease("l") }).unwrap();
    store.pass(500);
    let none = HeldSet::Same { count: 0, digest: 0 };
    let beat = store.ask(1, Command::Heartbeat { held: none });
    assert_eq!(beat, Ok(Outcome::Beat(Beat::default())));
    store.pass(550);
    assert_eq!(store.lease("l").state, LeaseState::Expired);
}

#[test]
fn whoever_watches_hears_of_every_change_also_of_the_end() {
    let mut store = Store::new();
    let watch = |seen, wait_ms| Command::WatchLease { lease: lease("l"), seen, wait_ms };
    let told = |answer: Option<Answer>| match answer {
        Some(Ok(Outcome::Lease(info))) => info,
        other => panic!("{other:?}"),
    };
    let first = store.begin(2, 0, watch(0, 5000));
    store.acquire(1, "l", 1).unwrap();
    let seen = told(store.answer(first)).unwrap();
    assert_eq!((seen.state, seen.holder), (LeaseState::Leased, Some(MemberId(1))));
    let second = store.begin(2, 0, watch(seen.version, 5000));
    store.pass(1050);
    let end = told(store.answer(second)).unwrap();
    assert_eq!(
        (end.state, end.holder),
        (LeaseState::Expired, None),
        "the last holder is not shown as the holder"
    );
    assert!(end.version > seen.version);
    let late = store.begin(2, 0, watch(seen.version, 5000));
    assert_eq!(told(store.answer(late)).unwrap().state, LeaseState::Expired, "not missed");
    let quiet = store.begin(2, 0, watch(end.version, 100));
    store.pass(100);
    assert_eq!(told(store.answer(quiet)).unwrap().version, end.version, "nothing new");
}

#[test]
fn watching_names_nobody_ever_held_leaves_nothing_behind() {
    let mut store = Store::new();
    let watch = Command::WatchLease { lease: lease("ghost"), seen: 0, wait_ms: 100 };
    let ticket = store.begin(1, 0, watch);
    store.pass(100);
    assert_eq!(store.answer(ticket), Some(Ok(Outcome::Lease(None))));
    let all = Command::ListLeases { after: None, max: 9 };
    assert_eq!(store.ask(1, all), Ok(Outcome::Leases(Vec::new())));
}

#[test]
fn members_are_listed_with_what_they_hold() {
    let mut store = Store::new();
    let term = store.acquire(2, "l", 1).unwrap();
    let Ok(Outcome::Members(members)) = store.ask(0, Command::ListMembers) else { panic!() };
    let seen: Vec<_> = members.iter().map(|m| (m.slot, m.leases.clone())).collect();
    assert_eq!(seen, [(MemberSlot(1), vec![]), (MemberSlot(2), vec![(lease("l"), term)])]);
}

#[test]
fn a_silent_member_is_gone_and_its_id_does_not_come_back() {
    let mut store = Store::new();
    let short = store.join(3, 300);
    store.pass(299);
    assert_eq!(store.join(3, 300), short, "joining again is a heartbeat");
    store.pass(300);
    let again = Command::Join { id: MemberId(3), metadata: String::new(), ttl_ms: 300 };
    assert_eq!(store.ask(0, again), Err(Refusal::MemberGone));
}
