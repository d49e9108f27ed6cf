//! Members: who is here, kept by heartbeat, and what their heartbeats keep.

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::name::{MemberSlot, Term};
use bellwether_core::outcome::{LeaseState, Outcome};

use super::Fixture;
use super::support::{
    Caller, at_last, bound, full, join_command, lease_name, ms, receive_command, refusal, same,
};

const LEASE_MS: u64 = 2_000;
const SILENT_MS: u64 = 60_000;

async fn join(fixture: &Fixture, id: u128) -> Caller {
    Caller::join(fixture, id, ms(SILENT_MS)).await
}

async fn state(caller: &Caller, lease: &str) -> LeaseState {
    caller.describe(lease).await.state
}

/// One heartbeat renews every lease its member holds.
pub async fn a_heartbeat_renews_everything(fixture: &Fixture) {
    let member = join(fixture, 7).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        held.push((name, member.acquire(bound(name, 1, LEASE_MS)).await.unwrap()));
    }
    for _ in 0..4 {
        fixture.advance(ms(LEASE_MS - 500)).await;
        let beat = member.beat(same(&held)).await.unwrap();
        assert!(!beat.resync && beat.lost.is_empty());
    }
    for (name, term) in &held {
        let info = member.describe(name).await;
        assert_eq!(
            (info.state, info.term, info.holder),
            (LeaseState::Leased, *term, Some(member.id))
        );
    }
}

/// A heartbeat that names another set renews nothing and asks for the list.
pub async fn a_mismatch_resyncs_and_renews_nothing(fixture: &Fixture) {
    let member = join(fixture, 7).await;
    let a = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    let b = member.acquire(bound("b", 1, LEASE_MS)).await.unwrap();
    fixture.advance(ms(LEASE_MS - 500)).await;
    let wrong = [same(&[("a", a)]), same(&[("a", a), ("b", Term(b.0 + 1))]), same(&[])];
    for held in wrong {
        assert!(member.beat(held).await.unwrap().resync);
    }
    fixture.advance(ms(700)).await;
    assert_eq!(state(&member, "a").await, LeaseState::Expired);
    assert_eq!(state(&member, "b").await, LeaseState::Expired);
}

/// The list says what is held; what is not is named as lost.
pub async fn a_list_settles_what_is_held(fixture: &Fixture) {
    let (member, other) = (join(fixture, 7).await, join(fixture, 8).await);
    let a = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    let b = other.acquire(bound("b", 2, LEASE_MS)).await.unwrap();
    let never = Term(5);
    let believed = [("a", a), ("b", b), ("c", never)];
    let beat = member.beat(full(&believed)).await.unwrap();
    assert!(!beat.resync);
    assert_eq!(beat.lost, [(lease_name("b"), b), (lease_name("c"), never)]);
    assert!(!member.beat(same(&[("a", a)])).await.unwrap().resync);
    assert_eq!(other.describe("b").await.holder, Some(other.id));
}

/// To stop renewing one lease lets that one run out and touches no other.
pub async fn an_unnamed_lease_runs_out(fixture: &Fixture) {
    let member = join(fixture, 7).await;
    let a = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    member.acquire(bound("b", 1, LEASE_MS)).await.unwrap();
    fixture.advance(ms(500)).await;
    member.beat(full(&[("a", a)])).await.unwrap();
    fixture.advance(ms(LEASE_MS - 700)).await;
    assert!(!member.beat(same(&[("a", a)])).await.unwrap().resync);
    assert_eq!(state(&member, "b").await, LeaseState::Leased, "its own time is not over");
    fixture.advance(ms(500)).await;
    assert_eq!(state(&member, "b").await, LeaseState::Expired);
    assert_eq!(state(&member, "a").await, LeaseState::Leased);
}

/// E3: a heartbeat after the end does not bring a lease back.
pub async fn a_late_heartbeat_brings_nothing_back(fixture: &Fixture) {
    let member = join(fixture, 7).await;
    let a = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    fixture.advance(ms(LEASE_MS * 105 / 100)).await;
    assert!(member.beat(same(&[("a", a)])).await.unwrap().resync);
    let beat = member.beat(full(&[("a", a)])).await.unwrap();
    assert_eq!(beat.lost, [(lease_name("a"), a)]);
    assert_eq!(state(&member, "a").await, LeaseState::Expired);
}

/// A goodbye releases everything at once, to those who wait for it.
pub async fn a_goodbye_releases_everything(fixture: &Fixture) {
    let (member, heir) = (join(fixture, 7).await, join(fixture, 8).await);
    let a = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    member.acquire(bound("b", 1, LEASE_MS)).await.unwrap();
    let mut ask = bound("a", 2, LEASE_MS);
    ask.wait_ms = 3_600_000;
    let inherits = tokio::spawn({
        let heir = heir.clone();
        async move { heir.acquire(ask).await }
    });
    tokio::time::sleep(ms(20)).await;
    member.ask(Command::Leave).await.unwrap();
    let term = at_last("the grant", inherits).await.unwrap().unwrap();
    assert!(term > a);
    assert_eq!(state(&heir, "b").await, LeaseState::Available);
    let gone = refusal(member.ask(Command::ListMembers).await);
    assert_eq!(gone, Refusal::MemberGone);
}

/// A member that is silent for too long is gone, and what it waited for is answered.
pub async fn a_silent_member_is_gone(fixture: &Fixture) {
    let member = Caller::join(fixture, 7, ms(1_000)).await;
    let queue = fixture.queue().await;
    let listed = async || {
        let members = fixture.bellwether().members().await.unwrap();
        members.iter().any(|info| info.id == member.id)
    };
    assert!(listed().await);
    fixture.advance(ms(700)).await;
    member.beat(same(&[])).await.unwrap();
    fixture.advance(ms(700)).await;
    assert!(listed().await, "it was heard of in time");
    let waiting = tokio::spawn({
        let (member, receive) = (member.clone(), receive_command(&queue, 1, 3_600_000));
        async move { member.ask(receive).await }
    });
    tokio::time::sleep(ms(20)).await;
    fixture.advance(ms(1_000)).await;
    assert!(!listed().await);
    let answer = at_last("an answer", waiting).await.unwrap();
    assert_eq!(refusal(answer), Refusal::MemberGone);
    assert_eq!(member.beat(same(&[])).await, Err(Refusal::MemberGone));
    let again = member.ask(join_command(member.id, ms(1_000))).await;
    assert_eq!(refusal(again), Refusal::MemberGone);
}

/// E3: a silent member's lease is not passed on before its own time is over.
pub async fn a_silent_members_lease_keeps_its_time(fixture: &Fixture) {
    let silent = Caller::join(fixture, 7, ms(500)).await;
    let term = silent.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    let other = join(fixture, 8).await;
    fixture.advance(ms(1_500)).await;
    assert_eq!(silent.beat(same(&[("a", term)])).await, Err(Refusal::MemberGone));
    assert!(other.acquire(bound("a", 2, LEASE_MS)).await.is_err(), "passed on early");
    fixture.advance(ms(600)).await;
    assert!(other.acquire(bound("a", 2, LEASE_MS)).await.unwrap() > term);
}

/// Joining again under the same id is a heartbeat, not another member.
pub async fn joining_again_is_a_heartbeat(fixture: &Fixture) {
    let member = Caller::join(fixture, 7, ms(1_000)).await;
    for _ in 0..3 {
        fixture.advance(ms(700)).await;
        assert_eq!(Caller::join(fixture, 7, ms(1_000)).await.slot, member.slot);
    }
    let other = Caller::join(fixture, 8, ms(1_000)).await;
    assert_ne!(other.slot, member.slot);
}

/// Members are listed with what they say of themselves and what they hold.
pub async fn members_are_listed(fixture: &Fixture) {
    let member = join(fixture, 7).await;
    let term = member.acquire(bound("a", 1, LEASE_MS)).await.unwrap();
    let members = fixture.bellwether().members().await.unwrap();
    let found = members.iter().find(|info| info.id == member.id).unwrap();
    assert_eq!((found.slot, &*found.metadata), (member.slot, "a case"));
    assert_eq!(found.leases, [(lease_name("a"), term)]);
    let own = fixture.bellwether().member();
    assert!(members.iter().any(|info| info.id == own));
}

/// Nobody may only join; a member that never joined is none.
pub async fn whoever_never_joined_is_refused(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let stranger = Caller { slot: MemberSlot(4711), ..join(fixture, 7).await };
    let refused = refusal(stranger.ask(receive_command(&queue, 1, 0)).await);
    assert_eq!(refused, Refusal::MemberGone);
    let nobody = Caller { slot: MemberSlot(0), ..stranger };
    let refused = refusal(nobody.ask(receive_command(&queue, 1, 0)).await);
    assert_eq!(refused, Refusal::MemberGone);
    let refused = nobody.acquire(bound("a", 1, LEASE_MS)).await;
    assert_eq!(refused, Err(Refusal::MemberGone));
    let Outcome::Queue(info) =
        nobody.ask(Command::DescribeQueue { queue: queue.name().clone() }).await.unwrap()
    else {
        panic!("a queue")
    };
    assert_eq!((info.counts.ready, info.counts.locked), (1, 0));
}
