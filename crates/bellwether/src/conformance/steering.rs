//! Elections as operators see and steer them: hand-over, pause, and why terms ended.

use bellwether_core::command::{Acquire, Command, ReleaseReason};
use bellwether_core::error::LeaseRefusal;
use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::outcome::{EndedBy, LeftAs, Outcome, TermInfo};

use super::Fixture;
use super::line::{line_up, member, waiting};
use super::support::{Caller, at_last, bound, lease_name, lease_refusal, ms, refusal, same};

const LEASE: &str = "leader";

fn hand_over(to: MemberId) -> Command {
    Command::HandOver { lease: lease_name(LEASE), to }
}

async fn turn(caller: &Caller, wait_ms: u64) -> bool {
    match caller.ask(Command::AwaitTurn { lease: lease_name(LEASE), wait_ms }).await.unwrap() {
        Outcome::Turn { next } => next,
        other => panic!("{other:?}"),
    }
}

async fn history(caller: &Caller) -> Vec<TermInfo> {
    match caller.ask(Command::LeaseHistory { lease: lease_name(LEASE), max: 100 }).await.unwrap() {
        Outcome::Terms(terms) => terms,
        other => panic!("{other:?}"),
    }
}

/// The member that an operator named is granted the lease first, although others wait longer; one
/// that does not wait is refused.
pub async fn an_operator_hands_over_to_a_member_in_line(fixture: &Fixture) {
    let holder = member(fixture).await;
    let term = holder.acquire(bound(LEASE, 100, 60_000)).await.unwrap();
    let (first, second) = (member(fixture).await, member(fixture).await);
    let refused = refusal(first.ask(hand_over(second.id)).await);
    let not_in_line = LeaseRefusal::NotInLine { lease: lease_name(LEASE), member: second.id };
    assert_eq!(refused, not_in_line.into());
    let first_waits = line_up(&holder, &first, waiting(bound(LEASE, 1, 60_000), 9)).await;
    let second_waits = line_up(&holder, &second, waiting(bound(LEASE, 2, 60_000), 0)).await;
    assert!(turn(&first, 0).await && !turn(&second, 0).await);
    let told = {
        let second = second.clone();
        tokio::spawn(async move { turn(&second, 3_600_000).await })
    };
    first.ask(hand_over(second.id)).await.unwrap();
    assert!(at_last("its turn", told).await.unwrap(), "the next in line is told");
    let info = first.describe(LEASE).await;
    assert_eq!((info.successor, info.step_down_asked), (Some(second.id), true));
    assert_eq!(info.waiting, [second.id, first.id]);
    assert_eq!(holder.beat(same(&[(LEASE, term)])).await.unwrap().step_down.len(), 1);
    holder.release(LEASE, 100).await.unwrap();
    assert!(at_last("the successor", second_waits).await.unwrap().unwrap() > term);
    assert!(!first_waits.is_finished());
}

/// A paused lease is granted to nobody; those in line keep their places.
pub async fn a_paused_lease_is_granted_to_nobody(fixture: &Fixture) {
    let holder = member(fixture).await;
    let term = holder.acquire(bound(LEASE, 1, 60_000)).await.unwrap();
    let second = member(fixture).await;
    let waits = line_up(&holder, &second, waiting(bound(LEASE, 2, 60_000), 0)).await;
    let lease = lease_name(LEASE);
    let pause = |keep_leader| Command::PauseLease { lease: lease.clone(), keep_leader };
    second.ask(pause(true)).await.unwrap();
    assert!(holder.beat(same(&[(LEASE, term)])).await.unwrap().step_down.is_empty());
    second.ask(pause(false)).await.unwrap();
    assert_eq!(holder.beat(same(&[(LEASE, term)])).await.unwrap().step_down.len(), 1);
    holder.release(LEASE, 1).await.unwrap();
    assert!(second.describe(LEASE).await.paused);
    let paused = LeaseRefusal::Paused(lease.clone());
    assert_eq!(lease_refusal(holder.acquire(bound(LEASE, 3, 60_000)).await), paused);
    let short = Acquire { wait_ms: 1_000, ..bound(LEASE, 3, 60_000) };
    let short = line_up(&holder, &holder, short).await;
    fixture.advance(ms(1_000)).await;
    assert_eq!(lease_refusal(at_last("the end of the wait", short).await.unwrap()), paused);
    assert!(!waits.is_finished(), "granted while it was paused");
    second.ask(Command::ResumeLease { lease }).await.unwrap();
    assert!(at_last("the grant", waits).await.unwrap().unwrap() > term);
}

/// What ended each term is remembered: the holder's own reason, silence, a goodbye, a break.
pub async fn the_history_says_why_terms_ended(fixture: &Fixture) {
    let holder = member(fixture).await;
    let mut expected: Vec<(Term, EndedBy)> = Vec::new();
    let failed = ReleaseReason::FailedWith { code: 7 };
    for (reason, by) in [
        (ReleaseReason::Finished, EndedBy::Released { reason: Some(ReleaseReason::Finished) }),
        (failed, EndedBy::Released { reason: Some(failed) }),
        // Nothing that its holder says: whoever saw it die.
        (ReleaseReason::Died, EndedBy::Died),
    ] {
        let term = holder.acquire(bound(LEASE, 1, 60_000)).await.unwrap();
        let (lease, id) = (lease_name(LEASE), LeaseId(1));
        holder.ask(Command::StepDown { lease, id, successor: None, reason }).await.unwrap();
        expected.push((term, by));
    }
    let term = holder.acquire(bound(LEASE, 2, 1_000)).await.unwrap();
    fixture.advance(ms(1_050)).await;
    expected.push((term, EndedBy::RanOut));
    let term = holder.acquire(bound(LEASE, 3, 60_000)).await.unwrap();
    let break_lease = Command::BreakLease { lease: lease_name(LEASE), period_ms: Some(0) };
    holder.ask(break_lease).await.unwrap();
    expected.push((term, EndedBy::Broken));
    let term = holder.acquire(bound(LEASE, 4, 60_000)).await.unwrap();
    assert_eq!(history(&holder).await[0].left_as, LeftAs::Held, "it stands");
    let other = member(fixture).await;
    holder.ask(Command::Leave).await.unwrap();
    expected.push((term, EndedBy::Goodbye));
    let told: Vec<_> =
        history(&other).await.into_iter().rev().map(|t| (t.term, t.left_as)).collect();
    let told: Vec<_> = told
        .into_iter()
        .map(|(term, left_as)| match left_as {
            LeftAs::Ended { by, .. } => (term, by),
            other => panic!("term {term} was left as {other:?}"),
        })
        .collect();
    assert_eq!(told, expected);
}
