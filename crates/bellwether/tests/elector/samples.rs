//! The tests of the sample that made the pattern known, and its defects, which must not be ours.
//!
//! | the sample | shown not to be so here by |
//! |---|---|
//! | its client goes on retrying after the lease has ended | `a_hanging_renewal_ends_the_term_in_time`, `a_renewal_must_be_answered_before_trust_ends` (rules), `a_leader_that_is_cut_off_stops_before_another_leads` (every engine) |
//! | a failed renewal leaves the lease under a forgotten id | [`whoever_was_deposed_by_silence_can_lead_again`] |
//! | cancelled at the wrong moment it leaks its lease | [`whenever_it_is_told_to_stop_the_lease_is_free_afterwards`] |
//! | it releases while the work still runs | `shutdown_releases_only_when_the_work_has_ended` |
//! | work that ignores cancellation hangs it for ever | `work_that_ignores_the_word_is_aborted_after_the_grace` |
//! | work that fails before it is a future ends the election | [`work_that_panics_when_it_is_made_is_work_that_failed`] |
//! | work that fails at once is tried again at once, by the same one | [`who_fails_at_once_lets_others_lead`] |
//! | a store that is down at the start keeps it from ever joining | `a_server_that_comes_later_is_waited_for` (the wire) |
//! | two that create the lease's object at once end the loop of one | `one_of_five_leads` (every engine, on a store that is empty) |
//! | an error that it does not know ends the renewals and leaks the lease | `a_broken_connection_costs_nothing`, `a_dropped_leader_is_followed` (every engine) |
//! | no term, no identity, no look at the work's health | `terms_only_grow`, `a_second_member_sees_who_leads` (every engine), `a_leader_whose_work_hangs_steps_down_and_the_next_one_leads` |
//! | its tests were dropped | these |

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The sample's three: one winner of five; still one after a dozen renewals; a cancelled leader is
/// replaced, and its successor, too.
#[tokio::test]
async fn one_winner_of_five_who_stays_until_it_is_cancelled() {
    let world = World::new().await;
    let mut five = Vec::new();
    for who in 0..5 {
        five.push(Some(world.candidate(who).await));
    }
    world.pass(100).await;
    assert_eq!(world.office.terms().len(), 1, "one winner");
    world.pass(13 * 3_334).await;
    assert_eq!(world.office.terms().len(), 1, "still the same after a dozen renewals");
    for terms in 2..=3 {
        let (leader, _) = *world.office.terms().last().unwrap();
        let cancelled = five[leader].take().unwrap();
        cancelled.shutdown.cancel();
        cancelled.run.await.unwrap().unwrap();
        world.settle().await;
        assert_eq!(world.office.terms().len(), terms, "another one leads, and only one");
    }
}

#[tokio::test]
async fn whenever_it_is_told_to_stop_the_lease_is_free_afterwards() {
    // Before it was asked for, while it is held, around a renewal, in the middle of a ttl.
    for ms in [0, 1, 3_333, 3_334, 5_000, 9_999, 10_001] {
        let world = World::new().await;
        let candidate = world.candidate(0).await;
        world.pass(ms).await;
        candidate.shutdown.cancel();
        candidate.run.await.unwrap().unwrap();
        assert_eq!(world.election().leader().await.unwrap(), None, "told after {ms} ms");
        let next = world.bw.another_member().await.unwrap().election("leader").unwrap();
        next.contend().await.unwrap().release().await.unwrap();
    }
}

/// Nothing was heard of it for so long that it is deposed. It does not stand in its own way then.
#[tokio::test]
async fn whoever_was_deposed_by_silence_can_lead_again() {
    let world = World::new().await;
    let terms = Arc::new(Mutex::new(Vec::new()));
    let led = Arc::clone(&terms);
    let elector = world.election().lead(move |leadership: Leadership| {
        led.lock().unwrap().push(leadership.term());
        async move {
            leadership.cancelled().await;
        }
    });
    let run = tokio::spawn(elector.run(std::future::pending::<()>()));
    world.settle().await;
    // In one leap, as a machine that slept sees it: no renewal was sent in between.
    world.clock.advance(secs(60));
    world.pass(5_000).await;
    let terms = terms.lock().unwrap().clone();
    assert_eq!(terms.len(), 2, "its trust was over, and it leads again under a new term");
    assert!(terms[0] < terms[1]);
    run.abort();
}

#[tokio::test]
async fn work_that_panics_when_it_is_made_is_work_that_failed() {
    let world = World::new().await;
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let elector = world.election().lead(move |leadership: Leadership| {
        assert!(counted.fetch_add(1, Ordering::SeqCst) > 0, "on purpose, before there is a future");
        async move {
            leadership.cancelled().await;
        }
    });
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
    world.pass(10_000).await;
    assert_eq!(made.load(Ordering::SeqCst), 2, "it contended again");
    assert!(world.election().leader().await.unwrap().is_some(), "and leads");
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_fails_at_once_lets_others_lead() {
    let world = World::new().await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let failing = world.election().lead(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), _>("it cannot be done here") }
    });
    let run = tokio::spawn(failing.run(std::future::pending::<()>()));
    world.settle().await;
    assert_eq!(tries.load(Ordering::SeqCst), 1);
    let _other = world.candidate(1).await;
    world.pass(30_000).await;
    assert_eq!(world.office.terms().len(), 1, "the other one leads");
    assert_eq!(tries.load(Ordering::SeqCst), 1, "and the one that failed waits for its turn");
    run.abort();
}
