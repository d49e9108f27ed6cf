//! Leases: the outcome of every action in every state through the engine, and terms that only grow.

use bellwether_core::command::{Acquire, Command};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::limits;
use bellwether_core::name::{LeaseId, Term};
use bellwether_core::outcome::{LeaseState, Outcome};

use super::Fixture;
use super::support::{Caller, bound, lease_name, lease_refusal, ms, refusal, standing, term_of};

/// The ttl of leases that a case lets run out, and when a bound one is granted anew: 105 % of it.
const TTL_MS: u64 = 2_000;
const OVER_MS: u64 = 2_100;
const LEASE: &str = "leader";

fn caller(fixture: &Fixture) -> Caller {
    Caller::of(&fixture.bellwether())
}

async fn renew(caller: &Caller, id: u128) -> Result<Term, Refusal> {
    let (lease, id) = (lease_name(LEASE), LeaseId(id));
    term_of(caller.ask(Command::RenewLease { lease, id }).await)
}

async fn change(caller: &Caller, id: u128, to: u128) -> Result<Term, Refusal> {
    let (lease, id, to) = (lease_name(LEASE), LeaseId(id), LeaseId(to));
    term_of(caller.ask(Command::ChangeLease { lease, id, to }).await)
}

async fn break_lease(caller: &Caller, period_ms: Option<u64>) -> Result<u64, Refusal> {
    match caller.ask(Command::BreakLease { lease: lease_name(LEASE), period_ms }).await {
        Ok(Outcome::Breaking { remaining_ms }) => Ok(remaining_ms),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(refusal::<()>(Err(error))),
    }
}

/// A lease has one holder; a second bid is refused and told of the term that stands.
pub async fn a_second_bid_is_refused(fixture: &Fixture) {
    let (first, second) = (caller(fixture), fixture.bellwether().another_member().await.unwrap());
    let second = Caller::of(&second);
    let term = first.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    let refused = lease_refusal(second.acquire(bound(LEASE, 2, TTL_MS)).await);
    assert_eq!(refused, LeaseRefusal::Held { lease: lease_name(LEASE), term });
    let info = second.describe(LEASE).await;
    assert_eq!((info.state, info.term), (LeaseState::Leased, term));
    assert_eq!((info.holder, info.id), (Some(first.id), Some(LeaseId(1))));
    // Another lease is another matter.
    second.acquire(bound("another", 2, TTL_MS)).await.unwrap();
}

/// Of a hundred that ask together one is granted.
pub async fn a_hundred_racers_have_one_winner(fixture: &Fixture) {
    let mut racers = Vec::new();
    for id in 1..=100 {
        let member = Caller::of(&fixture.bellwether().another_member().await.unwrap());
        // It stays until all have run: who goes gives back what it holds.
        let race = async move { (member.acquire(bound(LEASE, id, 60_000)).await, member) };
        racers.push(tokio::spawn(race));
    }
    let mut granted = Vec::new();
    let mut told = Vec::new();
    let mut members = Vec::new();
    for racer in racers {
        let (answer, member) = racer.await.unwrap();
        members.push(member);
        match answer {
            Ok(term) => granted.push(term),
            Err(Refusal::Lease(LeaseRefusal::Held { term, .. })) => told.push(term),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((granted.len(), told.len()), (1, 99));
    assert!(told.iter().all(|term| *term == granted[0]));
}

/// E1: every grant has a higher term, after release, expiry, break and change alike.
pub async fn terms_only_grow(fixture: &Fixture) {
    let caller = caller(fixture);
    let mut last = Term(0);
    let mut grew = |term: Term| {
        assert!(term > last, "{term} after {last}");
        last = term;
    };
    grew(caller.acquire(standing(LEASE, 1, TTL_MS)).await.unwrap());
    caller.release(LEASE, 1).await.unwrap();
    grew(caller.acquire(standing(LEASE, 1, TTL_MS)).await.unwrap());
    fixture.advance(ms(TTL_MS)).await;
    grew(caller.acquire(standing(LEASE, 1, TTL_MS)).await.unwrap());
    grew(change(&caller, 1, 2).await.unwrap());
    break_lease(&caller, Some(0)).await.unwrap();
    grew(caller.acquire(standing(LEASE, 2, TTL_MS)).await.unwrap());
}

/// A name without history starts above every term it could have had before.
pub async fn the_first_term_is_the_time(fixture: &Fixture) {
    let before = fixture.now().wall.0;
    let term = caller(fixture).acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    assert!(term.0 >= before, "{term} is less than {before}");
}

/// The same acquire repeated after a lost answer succeeds, under the same term.
pub async fn a_repeated_acquire_keeps_its_term(fixture: &Fixture) {
    let caller = caller(fixture);
    for ask in [bound("bound", 1, TTL_MS), standing("standing", 1, TTL_MS)] {
        let name = ask.lease.clone();
        let term = caller.acquire(ask.clone()).await.unwrap();
        fixture.advance(ms(TTL_MS / 2)).await;
        assert_eq!(caller.acquire(ask).await.unwrap(), term);
        // Its time started anew.
        fixture.advance(ms(TTL_MS / 2 + 500)).await;
        assert_eq!(caller.describe(name.as_str()).await.state, LeaseState::Leased);
    }
}

/// E3: a bound lease is granted anew after 105 % of its ttl and not before.
pub async fn a_silent_holder_loses_after_its_time(fixture: &Fixture) {
    let caller = caller(fixture);
    let first = caller.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    fixture.advance(ms(TTL_MS - 200)).await;
    let refused = lease_refusal(caller.acquire(bound(LEASE, 2, TTL_MS)).await);
    assert_eq!(refused, LeaseRefusal::Held { lease: lease_name(LEASE), term: first });
    fixture.advance(ms(OVER_MS - TTL_MS + 200)).await;
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Expired);
    assert!(caller.acquire(bound(LEASE, 2, TTL_MS)).await.unwrap() > first);
}

/// A bound lease is not renewed late, even if nobody took over.
pub async fn a_late_renewal_of_a_bound_lease_is_refused(fixture: &Fixture) {
    let caller = caller(fixture);
    let term = caller.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    fixture.advance(ms(TTL_MS / 2)).await;
    assert_eq!(renew(&caller, 1).await, Ok(term));
    fixture.advance(ms(OVER_MS)).await;
    let refused = lease_refusal(renew(&caller, 1).await);
    assert_eq!(refused, LeaseRefusal::TermOver { lease: lease_name(LEASE), term });
    assert!(caller.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap() > term);
}

/// A standing lease is renewed late if nobody touched it, under the same term.
pub async fn a_late_renewal_of_a_standing_lease_succeeds_if_untouched(fixture: &Fixture) {
    let caller = caller(fixture);
    let term = caller.acquire(standing(LEASE, 1, TTL_MS)).await.unwrap();
    fixture.advance(ms(TTL_MS)).await;
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Expired);
    assert_eq!(renew(&caller, 1).await, Ok(term));
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Leased);
    fixture.advance(ms(TTL_MS)).await;
    caller.ask(Command::TouchLease { lease: lease_name(LEASE) }).await.unwrap();
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Available);
    let refused = lease_refusal(renew(&caller, 1).await);
    assert_eq!(refused, LeaseRefusal::IdMismatch(lease_name(LEASE)));
}

/// E9: with another id nothing can be renewed, changed or released.
pub async fn a_foreign_id_changes_nothing(fixture: &Fixture) {
    let caller = caller(fixture);
    caller.acquire(standing(LEASE, 1, 60_000)).await.unwrap();
    let before = caller.describe(LEASE).await;
    let mismatch = LeaseRefusal::IdMismatch(lease_name(LEASE));
    assert_eq!(lease_refusal(renew(&caller, 2).await), mismatch);
    assert_eq!(lease_refusal(change(&caller, 2, 3).await), mismatch);
    assert_eq!(lease_refusal(caller.release(LEASE, 2).await), mismatch);
    let after = caller.describe(LEASE).await;
    assert_eq!((after.version, after.term, after.id), (before.version, before.term, before.id));
    // And the old id has no power over the next grant.
    caller.release(LEASE, 1).await.unwrap();
    caller.acquire(standing(LEASE, 3, 60_000)).await.unwrap();
    assert_eq!(lease_refusal(caller.release(LEASE, 1).await), mismatch);
    assert_eq!(caller.describe(LEASE).await.id, Some(LeaseId(3)));
}

/// What is refused on a lease that nobody holds.
pub async fn nothing_can_be_done_to_a_free_lease(fixture: &Fixture) {
    let caller = caller(fixture);
    let describe = Command::DescribeLease { lease: lease_name(LEASE) };
    assert_eq!(caller.ask(describe).await.unwrap(), Outcome::Lease(None));
    let never = LeaseRefusal::NotPresent(lease_name(LEASE));
    assert_eq!(lease_refusal(break_lease(&caller, None).await), never);
    caller.acquire(standing(LEASE, 1, 60_000)).await.unwrap();
    caller.release(LEASE, 1).await.unwrap();
    let mismatch = LeaseRefusal::IdMismatch(lease_name(LEASE));
    assert_eq!(lease_refusal(renew(&caller, 1).await), mismatch);
    assert_eq!(lease_refusal(caller.release(LEASE, 1).await), mismatch);
    assert_eq!(lease_refusal(change(&caller, 1, 2).await), never);
    assert_eq!(lease_refusal(break_lease(&caller, Some(0)).await), never);
    let ask = caller.ask(Command::AskStepDown { lease: lease_name(LEASE) }).await;
    assert_eq!(refusal(ask), Refusal::Lease(never));
    let info = caller.describe(LEASE).await;
    // The last holder's name is not shown as the holder.
    assert_eq!((info.state, info.holder, info.id), (LeaseState::Available, None, None));
}

/// A broken lease ends when asked for; until then it is held but not renewed.
pub async fn a_lease_can_be_broken(fixture: &Fixture) {
    let caller = caller(fixture);
    caller.acquire(standing(LEASE, 1, 60_000)).await.unwrap();
    assert_eq!(break_lease(&caller, Some(3_000)).await, Ok(3_000));
    // Breaking again may shorten, never lengthen.
    assert!(break_lease(&caller, Some(60_000)).await.unwrap() <= 3_000);
    assert_eq!(break_lease(&caller, Some(1_000)).await, Ok(1_000));
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Breaking);
    let breaking = LeaseRefusal::Breaking(lease_name(LEASE));
    assert_eq!(lease_refusal(caller.acquire(standing(LEASE, 1, 60_000)).await), breaking);
    let held = lease_refusal(caller.acquire(standing(LEASE, 2, 60_000)).await);
    assert!(matches!(held, LeaseRefusal::Held { .. }), "{held:?}");
    let broken = LeaseRefusal::Broken(lease_name(LEASE));
    assert_eq!(lease_refusal(renew(&caller, 1).await), broken);
    let cannot = LeaseRefusal::BreakingCannotChange(lease_name(LEASE));
    assert_eq!(lease_refusal(change(&caller, 1, 2).await), cannot);
    fixture.advance(ms(1_000)).await;
    assert_eq!(caller.describe(LEASE).await.state, LeaseState::Broken);
    assert_eq!(lease_refusal(renew(&caller, 1).await), broken);
    caller.acquire(standing(LEASE, 2, 60_000)).await.unwrap();
}

/// Without a period an infinite lease ends at once, a fixed one when it would have ended.
pub async fn a_break_without_a_period(fixture: &Fixture) {
    let caller = caller(fixture);
    caller.acquire(standing(LEASE, 1, limits::LEASE_MS_INFINITE)).await.unwrap();
    fixture.advance(ms(1_000)).await;
    assert_eq!(break_lease(&caller, None).await, Ok(0));
    caller.acquire(standing(LEASE, 2, 60_000)).await.unwrap();
    fixture.advance(ms(1_000)).await;
    let left = break_lease(&caller, None).await.unwrap();
    assert!((50_000..=59_000).contains(&left), "{left}");
}

/// A change of id is a new term; repeated, it is the same one.
pub async fn a_change_of_id_is_a_new_term(fixture: &Fixture) {
    let caller = caller(fixture);
    let first = caller.acquire(standing(LEASE, 1, 60_000)).await.unwrap();
    let second = change(&caller, 1, 2).await.unwrap();
    assert!(second > first);
    assert_eq!(change(&caller, 1, 2).await, Ok(second));
    let mismatch = LeaseRefusal::IdMismatch(lease_name(LEASE));
    assert_eq!(lease_refusal(renew(&caller, 1).await), mismatch);
    assert_eq!(renew(&caller, 2).await, Ok(second));
}

/// A duration out of range is refused in every state; a bound lease is never infinite.
pub async fn durations_have_limits(fixture: &Fixture) {
    let caller = caller(fixture);
    let refused: [Acquire; 4] = [
        bound(LEASE, 1, limits::LEASE_MS_MIN - 1),
        bound(LEASE, 1, limits::LEASE_MS_MAX + 1),
        bound(LEASE, 1, limits::LEASE_MS_INFINITE),
        standing(LEASE, 1, 0),
    ];
    for _ in 0..2 {
        for ask in &refused {
            let refused = caller.acquire(ask.clone()).await;
            assert!(matches!(refused, Err(Refusal::InvalidValue { .. })), "{ask:?}: {refused:?}");
        }
        caller.acquire(standing(LEASE, 1, limits::LEASE_MS_INFINITE)).await.unwrap();
    }
}

/// Leases are listed by name, with what their holders say of themselves.
pub async fn leases_are_listed_by_name(fixture: &Fixture) {
    let caller = caller(fixture);
    for name in ["pear", "apple", "fig"] {
        let mut ask = bound(name, 1, 60_000);
        ask.metadata = format!("I hold the {name}");
        caller.acquire(ask).await.unwrap();
    }
    let list = |after: Option<&str>, max| Command::ListLeases { after: after.map(lease_name), max };
    let Outcome::Leases(first) = caller.ask(list(None, 2)).await.unwrap() else { panic!("leases") };
    let named: Vec<_> = first.iter().map(|info| (info.name.as_str(), &*info.metadata)).collect();
    assert_eq!(named, [("apple", "I hold the apple"), ("fig", "I hold the fig")]);
    let rest = caller.ask(list(Some("fig"), 10)).await.unwrap();
    let Outcome::Leases(rest) = rest else { panic!("leases") };
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].name.as_str(), "pear");
}
