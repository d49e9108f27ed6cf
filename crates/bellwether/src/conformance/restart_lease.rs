//! Leases and members across restarts: terms go on growing, holders get grace.

use bellwether_core::command::{Acquire, Command};
use bellwether_core::error::Refusal;
use bellwether_core::name::{LeaseId, Term};
use bellwether_core::outcome::{LeaseState, Outcome};

use super::Fixture;
use super::support::{Caller, bound, full, lease_name, ms, same, standing};
use crate::handle::Bellwether;

const LEASE: &str = "leader";
const TTL_MS: u64 = 2_000;

async fn again(fixture: &Fixture, round: usize) -> Bellwether {
    if round == 0 { fixture.restart().await } else { fixture.kill().await }
}

/// E1: terms go on growing, whatever became of the lease before.
pub async fn terms_go_on_growing(fixture: &Fixture) {
    let mut last = Term(0);
    for round in 0..4 {
        let caller = Caller::of(&fixture.bellwether());
        let term = caller.acquire(standing(LEASE, 1, TTL_MS)).await.unwrap();
        assert!(term > last, "round {round}: {term} after {last}");
        last = term;
        caller.release(LEASE, 1).await.unwrap();
        again(fixture, round % 2).await;
    }
}

/// E8: a lease that was not released is honoured for a whole ttl from the restart.
pub async fn a_lease_gets_grace(fixture: &Fixture) {
    let holder = Caller::join(fixture, 7, ms(60_000)).await;
    let term = holder.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    for round in 0..2 {
        fixture.advance(ms(TTL_MS - 500)).await;
        let other = Caller::of(&again(fixture, round).await);
        let info = other.describe(LEASE).await;
        assert_eq!((info.state, info.term), (LeaseState::Leased, term), "round {round}");
        assert!(other.acquire(bound(LEASE, 2, TTL_MS)).await.is_err(), "round {round}");
    }
    fixture.advance(ms(TTL_MS - 500)).await;
    let other = Caller::of(&fixture.bellwether());
    assert!(other.acquire(bound(LEASE, 2, TTL_MS)).await.is_err(), "granted before a whole ttl");
    fixture.advance(ms(700)).await;
    assert!(other.acquire(bound(LEASE, 2, TTL_MS)).await.unwrap() > term);
}

/// A holder that comes back in time keeps its lease and its term.
pub async fn a_holder_re_attaches(fixture: &Fixture) {
    let holder = Caller::join(fixture, 7, ms(60_000)).await;
    let term = holder.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    for round in 0..2 {
        let holder = holder.again(&again(fixture, round).await);
        assert_eq!(Caller::join(fixture, 7, ms(60_000)).await.slot, holder.slot);
        let beat = holder.beat(full(&[(LEASE, term)])).await.unwrap();
        assert!(beat.lost.is_empty() && !beat.resync, "round {round}");
        fixture.advance(ms(TTL_MS - 500)).await;
        assert!(!holder.beat(same(&[(LEASE, term)])).await.unwrap().resync);
        fixture.advance(ms(TTL_MS - 500)).await;
        let info = holder.describe(LEASE).await;
        assert_eq!((info.state, info.holder), (LeaseState::Leased, Some(holder.id)));
    }
}

/// E1: what was released is free, what was broken is broken, and standing leases stand.
pub async fn every_state_is_kept(fixture: &Fixture) {
    let caller = Caller::of(&fixture.bellwether());
    for name in ["released", "broken", "breaking", "standing", "infinite"] {
        let ttl_ms = if name == "infinite" { u64::MAX } else { 60_000 };
        caller.acquire(standing(name, 1, ttl_ms)).await.unwrap();
    }
    caller.release("released", 1).await.unwrap();
    let break_lease = |name, period_ms| Command::BreakLease { lease: lease_name(name), period_ms };
    caller.ask(break_lease("broken", Some(0))).await.unwrap();
    caller.ask(break_lease("breaking", Some(30_000))).await.unwrap();
    for round in 0..2 {
        let caller = Caller::of(&again(fixture, round).await);
        let wanted = [
            ("released", LeaseState::Available),
            ("broken", LeaseState::Broken),
            ("breaking", LeaseState::Breaking),
            ("standing", LeaseState::Leased),
            ("infinite", LeaseState::Leased),
        ];
        for (name, state) in wanted {
            assert_eq!(caller.describe(name).await.state, state, "{name}, round {round}");
        }
        // The id shows who it is, in every life.
        let (lease, id) = (lease_name("standing"), LeaseId(1));
        let renewed = caller.ask(Command::RenewLease { lease, id }).await.unwrap();
        assert!(matches!(renewed, Outcome::Granted { .. }), "{renewed:?}");
    }
}

/// An acquire that is repeated after a restart gets the first grant.
pub async fn a_repeated_acquire_gets_the_first_grant(fixture: &Fixture) {
    let caller = Caller::join(fixture, 7, ms(60_000)).await;
    let acquire = Command::Acquire(bound(LEASE, 1, TTL_MS));
    let granted = caller.ask_as(5, acquire.clone(), Vec::new()).await.unwrap();
    for round in 0..2 {
        let caller = caller.again(&again(fixture, round).await);
        let repeated = caller.ask_as(5, acquire.clone(), Vec::new()).await.unwrap();
        assert_eq!(repeated, granted, "round {round}");
    }
}

/// Members outlive a restart if they are heard of again in time, and only then.
pub async fn members_outlive_a_restart(fixture: &Fixture) {
    let member = Caller::join(fixture, 7, ms(TTL_MS)).await;
    let embedded = Caller::of(&fixture.bellwether());
    for round in 0..2 {
        fixture.advance(ms(TTL_MS - 500)).await;
        let bellwether = again(fixture, round).await;
        member.again(&bellwether).beat(same(&[])).await.unwrap();
        // One that lived in the process that had the store open died with it.
        let gone = embedded.again(&bellwether).beat(same(&[])).await;
        assert_eq!(gone, Err(Refusal::MemberGone), "round {round}");
    }
    fixture.advance(ms(TTL_MS)).await;
    let gone = member.again(&fixture.bellwether()).beat(same(&[])).await;
    assert_eq!(gone, Err(Refusal::MemberGone));
}

/// E1, E8: everybody who held a slot has it for a whole ttl from the restart; the next term is above all
/// of theirs.
pub async fn all_slots_get_grace_and_terms_go_on_growing(fixture: &Fixture) {
    let slotted = |id| Acquire { slots: 2, ..bound(LEASE, id, TTL_MS) };
    let holder = Caller::join(fixture, 7, ms(60_000)).await;
    let first = holder.acquire(slotted(1)).await.unwrap();
    let second = holder.acquire(slotted(2)).await.unwrap();
    for round in 0..2 {
        fixture.advance(ms(TTL_MS - 500)).await;
        let other = Caller::of(&again(fixture, round).await);
        let info = other.describe(LEASE).await;
        let held: Vec<Term> = info.holders().map(|holder| holder.term).collect();
        assert_eq!((held, info.slots), (vec![first, second], 2), "round {round}");
        assert!(other.acquire(slotted(3)).await.is_err(), "round {round}");
    }
    let holder = holder.again(&fixture.bellwether());
    holder.release(LEASE, 1).await.unwrap();
    assert!(holder.acquire(slotted(3)).await.unwrap() > second);
}
