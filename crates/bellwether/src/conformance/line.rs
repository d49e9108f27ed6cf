//! The line before a lease: who waits, who is next, who watches.

use bellwether_core::command::{Acquire, Command};
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::name::{LeaseId, Term};
use bellwether_core::outcome::{LeaseState, Outcome};
use tokio::task::JoinHandle;

use super::Fixture;
use super::support::{Caller, at_last, bound, full, lease_name, lease_refusal, ms, same, standing};

const LEASE: &str = "leader";

pub(super) async fn member(fixture: &Fixture) -> Caller {
    Caller::of(&fixture.bellwether().another_member().await.unwrap())
}

pub(super) fn waiting(mut ask: Acquire, priority: i32) -> Acquire {
    ask.wait_ms = 3_600_000;
    ask.priority = priority;
    ask
}

pub(super) type Waiting = JoinHandle<Result<Term, Refusal>>;

/// Asks and is in line when this returns.
pub(super) async fn line_up(watcher: &Caller, caller: &Caller, ask: Acquire) -> Waiting {
    let before = watcher.describe(LEASE).await.waiting.len();
    let caller = caller.clone();
    let waiting = tokio::spawn(async move { caller.acquire(ask).await });
    at_last("a place in line", async {
        while watcher.describe(LEASE).await.waiting.len() == before {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
    waiting
}

/// Those who wait are granted by priority, then by age.
pub async fn the_line_goes_by_priority_then_age(fixture: &Fixture) {
    let holder = member(fixture).await;
    holder.acquire(bound(LEASE, 100, 60_000)).await.unwrap();
    let mut line = Vec::new();
    for (id, priority) in [(1, 0), (2, 5), (3, 0), (4, 5), (5, -1)] {
        let member = member(fixture).await;
        let ask = waiting(bound(LEASE, id, 60_000), priority);
        line.push((id, member.clone(), line_up(&holder, &member, ask).await));
    }
    let shown = holder.describe(LEASE).await.waiting;
    let wanted = [2, 4, 1, 3, 5];
    let ids: Vec<_> = wanted.iter().map(|id| line[*id as usize - 1].1.id).collect();
    assert_eq!(shown, ids);
    let (mut held, mut last, mut members) = (100, Term(0), Vec::new());
    for next in wanted {
        holder.release(LEASE, held).await.unwrap();
        let at = line.iter().position(|(id, ..)| *id == next).unwrap();
        let (_, member, grant) = line.remove(at);
        let term = at_last("the grant", grant).await.unwrap().unwrap();
        assert!(term > last);
        // Who goes gives back what it holds.
        members.push(member);
        (held, last) = (next, term);
        assert!(line.iter().all(|(_, _, other)| !other.is_finished()));
    }
}

/// The holder may name its successor among those who wait.
pub async fn a_successor_can_be_named(fixture: &Fixture) {
    let holder = member(fixture).await;
    holder.acquire(bound(LEASE, 100, 60_000)).await.unwrap();
    let (first, second) = (member(fixture).await, member(fixture).await);
    let first_waits = line_up(&holder, &first, waiting(bound(LEASE, 1, 60_000), 9)).await;
    let second_waits = line_up(&holder, &second, waiting(bound(LEASE, 2, 60_000), 0)).await;
    let release = |id, successor| Command::ReleaseLease {
        lease: lease_name(LEASE),
        id: LeaseId(id),
        successor: Some(successor),
    };
    holder.ask(release(100, second.id)).await.unwrap();
    at_last("the successor", second_waits).await.unwrap().unwrap();
    assert!(!first_waits.is_finished());
    // One that does not wait is no successor: the line goes on as ever.
    second.ask(release(2, holder.id)).await.unwrap();
    at_last("the next", first_waits).await.unwrap().unwrap();
}

/// A wait in line ends without a grant when its time is over.
pub async fn a_wait_in_line_ends(fixture: &Fixture) {
    let holder = member(fixture).await;
    holder.acquire(bound(LEASE, 1, 60_000)).await.unwrap();
    let second = member(fixture).await;
    let ask = Acquire { wait_ms: 1_000, ..bound(LEASE, 2, 60_000) };
    let waits = line_up(&holder, &second, ask).await;
    fixture.advance(ms(1_000)).await;
    let refused = lease_refusal(at_last("the end of the wait", waits).await.unwrap());
    assert_eq!(refused, LeaseRefusal::NotGranted(lease_name(LEASE)));
    assert!(holder.describe(LEASE).await.waiting.is_empty());
}

/// E10: whoever waits gets the lease when its holder was silent for too long.
pub async fn the_line_goes_on_when_the_holder_is_silent(fixture: &Fixture) {
    let holder = member(fixture).await;
    let first = holder.acquire(bound(LEASE, 1, 1_000)).await.unwrap();
    let second = member(fixture).await;
    let waits = line_up(&holder, &second, waiting(bound(LEASE, 2, 1_000), 0)).await;
    fixture.advance(ms(700)).await;
    assert!(!waits.is_finished(), "granted early");
    fixture.advance(ms(350)).await;
    let term = at_last("the grant", waits).await.unwrap().unwrap();
    assert!(term > first);
    assert_eq!(holder.describe(LEASE).await.holder, Some(second.id));
}

/// Whoever waits gets the lease when it is broken.
pub async fn the_line_goes_on_after_a_break(fixture: &Fixture) {
    let holder = member(fixture).await;
    holder.acquire(standing(LEASE, 1, 60_000)).await.unwrap();
    let second = member(fixture).await;
    let waits = line_up(&holder, &second, waiting(standing(LEASE, 2, 60_000), 0)).await;
    let break_lease = Command::BreakLease { lease: lease_name(LEASE), period_ms: Some(1_000) };
    holder.ask(break_lease).await.unwrap();
    fixture.advance(ms(500)).await;
    assert!(!waits.is_finished(), "granted while it was being broken");
    fixture.advance(ms(500)).await;
    at_last("the grant", waits).await.unwrap().unwrap();
}

/// E7: a grant is only given to a member that is still here.
pub async fn the_gone_are_passed_over(fixture: &Fixture) {
    let holder = member(fixture).await;
    holder.acquire(bound(LEASE, 1, 60_000)).await.unwrap();
    let silent = Caller::join(fixture, 77, ms(1_000)).await;
    let silent_waits = line_up(&holder, &silent, waiting(bound(LEASE, 2, 60_000), 9)).await;
    let lively = member(fixture).await;
    let lively_waits = line_up(&holder, &lively, waiting(bound(LEASE, 3, 60_000), 0)).await;
    fixture.advance(ms(1_000)).await;
    assert_eq!(at_last("its end", silent_waits).await.unwrap(), Err(Refusal::MemberGone));
    holder.release(LEASE, 1).await.unwrap();
    at_last("the grant", lively_waits).await.unwrap().unwrap();
}

/// An operator asks, the holder hears it with its next heartbeat and decides.
pub async fn a_holder_is_asked_to_step_down(fixture: &Fixture) {
    let holder = member(fixture).await;
    let term = holder.acquire(bound(LEASE, 1, 60_000)).await.unwrap();
    assert!(holder.beat(same(&[(LEASE, term)])).await.unwrap().step_down.is_empty());
    let operator = member(fixture).await;
    operator.ask(Command::AskStepDown { lease: lease_name(LEASE) }).await.unwrap();
    let info = operator.describe(LEASE).await;
    assert!(info.step_down_asked && info.state == LeaseState::Leased);
    for held in [same(&[(LEASE, term)]), full(&[(LEASE, term)])] {
        let beat = holder.beat(held).await.unwrap();
        assert_eq!(beat.step_down, [(lease_name(LEASE), term)]);
        assert!(!beat.resync && beat.lost.is_empty());
    }
    holder.release(LEASE, 1).await.unwrap();
    let next = holder.acquire(bound(LEASE, 2, 60_000)).await.unwrap();
    assert!(holder.beat(same(&[(LEASE, next)])).await.unwrap().step_down.is_empty());
    assert!(!operator.describe(LEASE).await.step_down_asked);
}

/// Who watches hears of every change, and of nothing when nothing changes.
pub async fn watchers_hear_of_changes(fixture: &Fixture) {
    let (holder, watcher) = (member(fixture).await, member(fixture).await);
    let watch = |seen, wait_ms| {
        let (watcher, lease) = (watcher.clone(), lease_name(LEASE));
        tokio::spawn(async move {
            match watcher.ask(Command::WatchLease { lease, seen, wait_ms }).await.unwrap() {
                Outcome::Lease(info) => info.map(|info| *info),
                other => panic!("{other:?}"),
            }
        })
    };
    let watching = watch(0, 3_600_000);
    tokio::time::sleep(ms(20)).await;
    let term = holder.acquire(bound(LEASE, 1, 1_000)).await.unwrap();
    let info = at_last("the grant", watching).await.unwrap().unwrap();
    assert_eq!((info.holder, info.term), (Some(holder.id), term));
    // Missed in between: told at once.
    assert!(at_last("what was missed", watch(0, 3_600_000)).await.unwrap().is_some());

    let watching = watch(info.version, 500);
    tokio::time::sleep(ms(20)).await;
    holder.beat(same(&[(LEASE, term)])).await.unwrap();
    fixture.advance(ms(500)).await;
    let same = at_last("the end of the watch", watching).await.unwrap().unwrap();
    assert_eq!((same.version, same.holder), (info.version, Some(holder.id)));

    let watching = watch(info.version, 3_600_000);
    tokio::time::sleep(ms(20)).await;
    fixture.advance(ms(1_050)).await;
    let info = at_last("the expiry", watching).await.unwrap().unwrap();
    assert_eq!((info.state, info.holder), (LeaseState::Expired, None));
    // Whoever saw it held and comes later hears of its end at once.
    let missed = at_last("the missed expiry", watch(same.version, 3_600_000)).await.unwrap();
    assert_eq!(missed.unwrap().state, LeaseState::Expired);
}
