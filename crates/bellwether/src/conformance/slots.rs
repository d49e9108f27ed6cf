//! Several hold one lease at once, each under a term of its own.

use bellwether_core::command::{Acquire, Command, LeaseKind};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::fence::Fence;
use bellwether_core::name::Term;
use bellwether_core::outcome::{EndedBy, LeftAs, Outcome};

use super::Fixture;
use super::line::{line_up, member, waiting};
use super::support::{Caller, at_last, bound, lease_name, lease_refusal, ms, refusal, same};

const LEASE: &str = "leader";
const TTL_MS: u64 = 2_000;

fn two(id: u128, ttl_ms: u64) -> Acquire {
    Acquire { slots: 2, ..bound(LEASE, id, ttl_ms) }
}

async fn holders(caller: &Caller) -> Vec<Term> {
    caller.describe(LEASE).await.holders().map(|holder| holder.term).collect()
}

/// As many as there are slots hold it, everybody sees all of them, and the next one waits.
pub async fn as_many_hold_it_as_there_are_slots(fixture: &Fixture) {
    let (one, other, third) = (member(fixture).await, member(fixture).await, member(fixture).await);
    let first = one.acquire(two(1, 60_000)).await.unwrap();
    let second = other.acquire(two(2, 60_000)).await.unwrap();
    assert!(second > first);
    let held = LeaseRefusal::Held { lease: lease_name(LEASE), term: second };
    assert_eq!(lease_refusal(third.acquire(two(3, 60_000)).await), held);
    let info = third.describe(LEASE).await;
    let seen: Vec<_> = info.holders().map(|holder| (holder.holder, holder.term)).collect();
    assert_eq!(seen, [(Some(one.id), first), (Some(other.id), second)]);
    assert_eq!(info.slots, 2);
    let waits = line_up(&third, &third, waiting(two(3, 60_000), 0)).await;
    other.release(LEASE, 2).await.unwrap();
    let third_term = at_last("a free slot", waits).await.unwrap().unwrap();
    assert_eq!(holders(&one).await, [first, third_term]);
}

/// Whoever asks with another number is told both, also if it would wait; when nobody holds it any more
/// the new number counts.
pub async fn another_number_is_refused_while_anybody_holds_it(fixture: &Fixture) {
    let (one, other) = (member(fixture).await, member(fixture).await);
    one.acquire(two(1, 60_000)).await.unwrap();
    for asked in [1, 3] {
        let ask = Acquire { slots: asked, ..waiting(bound(LEASE, 2, 60_000), 0) };
        let differs = LeaseRefusal::OtherSlots { lease: lease_name(LEASE), slots: 2, asked };
        assert_eq!(lease_refusal(other.acquire(ask).await), differs);
    }
    one.release(LEASE, 1).await.unwrap();
    other.acquire(Acquire { slots: 3, ..bound(LEASE, 2, 60_000) }).await.unwrap();
    assert_eq!(one.describe(LEASE).await.slots, 3);
    let standing = Acquire { kind: LeaseKind::Standing, ..two(3, 60_000) };
    let refused = other.acquire(standing).await;
    assert!(matches!(refused, Err(Refusal::InvalidValue { what: "slots", .. })), "{refused:?}");
}

/// Each member's heartbeat keeps what that member holds; who falls silent or leaves makes room for one.
pub async fn a_silent_holder_makes_room_for_one(fixture: &Fixture) {
    let (one, other) = (member(fixture).await, member(fixture).await);
    let first = one.acquire(two(1, TTL_MS)).await.unwrap();
    let second = other.acquire(two(2, TTL_MS)).await.unwrap();
    let (third, fourth) = (member(fixture).await, member(fixture).await);
    let third_waits = line_up(&one, &third, waiting(two(3, 60_000), 0)).await;
    let fourth_waits = line_up(&one, &fourth, waiting(two(4, 60_000), 0)).await;
    fixture.advance(ms(TTL_MS - 500)).await;
    assert!(!one.beat(same(&[(LEASE, first)])).await.unwrap().resync);
    fixture.advance(ms(700)).await;
    let third_term = at_last("the silent one's slot", third_waits).await.unwrap().unwrap();
    assert!(third_term > second);
    assert_eq!(holders(&one).await, [first, third_term]);
    assert!(!fourth_waits.is_finished(), "more hold it than may");
    one.ask(Command::Leave).await.unwrap();
    assert!(at_last("the leaver's slot", fourth_waits).await.unwrap().unwrap() > third_term);
}

/// A fence counts for every term that is held, and for none that is not.
pub async fn every_term_that_is_held_is_a_fence(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let (one, other) = (member(fixture).await, member(fixture).await);
    let first = one.acquire(two(1, 60_000)).await.unwrap();
    let second = other.acquire(two(2, 60_000)).await.unwrap();
    let under = |term| queue.with_fence(&Fence { election: lease_name(LEASE), term });
    under(first).send("from the first").await.unwrap();
    under(second).send("from the second").await.unwrap();
    other.release(LEASE, 2).await.unwrap();
    under(first).send("the first leads on").await.unwrap();
    let fenced =
        Refusal::Fenced { election: lease_name(LEASE), term: second, newest: Some(second) };
    assert_eq!(refusal(under(second).send("too late").await), fenced);
}

/// All who hold it are asked to step down; a hand-over asks the one that has led longest.
pub async fn all_are_asked_to_step_down(fixture: &Fixture) {
    let (one, other, third) = (member(fixture).await, member(fixture).await, member(fixture).await);
    let first = one.acquire(two(1, 60_000)).await.unwrap();
    let second = other.acquire(two(2, 60_000)).await.unwrap();
    let waits = line_up(&one, &third, waiting(two(3, 60_000), 0)).await;
    let lease = lease_name(LEASE);
    one.ask(Command::HandOver { lease: lease.clone(), to: third.id }).await.unwrap();
    assert_eq!(one.beat(same(&[(LEASE, first)])).await.unwrap().step_down.len(), 1);
    assert!(other.beat(same(&[(LEASE, second)])).await.unwrap().step_down.is_empty());
    one.ask(Command::AskStepDown { lease }).await.unwrap();
    assert_eq!(other.beat(same(&[(LEASE, second)])).await.unwrap().step_down.len(), 1);
    one.release(LEASE, 1).await.unwrap();
    at_last("the successor", waits).await.unwrap().unwrap();
}

/// The history has every term of every slot, the newest first, with those that stand.
pub async fn the_history_has_every_slot(fixture: &Fixture) {
    let (one, other) = (member(fixture).await, member(fixture).await);
    let first = one.acquire(two(1, 60_000)).await.unwrap();
    let second = other.acquire(two(2, 60_000)).await.unwrap();
    one.release(LEASE, 1).await.unwrap();
    let third = one.acquire(two(3, 60_000)).await.unwrap();
    let history = Command::LeaseHistory { lease: lease_name(LEASE), max: 100 };
    let terms = match one.ask(history).await.unwrap() {
        Outcome::Terms(terms) => terms,
        other => panic!("{other:?}"),
    };
    let told: Vec<Term> = terms.iter().map(|info| info.term).collect();
    assert_eq!(told, [third, second, first]);
    assert_eq!((terms[0].left_as, terms[1].left_as), (LeftAs::Held, LeftAs::Held));
    let released = EndedBy::Released { reason: None };
    assert!(matches!(terms[2].left_as, LeftAs::Ended { by, .. } if by == released));
}
