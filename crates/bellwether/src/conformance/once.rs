//! Claims: work that is done once.

use std::time::Duration;

use bellwether_core::error::{Refusal, StepRefusal};
use bytes::Bytes;

use super::Fixture;
use super::support::{LOCK, next, nothing, refusal, taken};
use crate::error::Error;
use crate::handle::Bellwether;
use crate::once::{Claim, Claimed, Once, OnceError};

fn once(bellwether: &Bellwether, key: &str) -> Once {
    bellwether.once("payments", key).unwrap().lock(LOCK)
}

async fn granted(once: &Once) -> Claim {
    match once.claim().await.unwrap() {
        Claimed::Granted(claim) => claim,
        other => panic!("a grant was expected, not {other:?}"),
    }
}

fn claim_lost<T: std::fmt::Debug>(result: Result<T, Error>) {
    match refusal(result) {
        Refusal::Step(StepRefusal { why, .. }) => {
            assert!(matches!(*why, Refusal::ClaimLost { .. }), "{why:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// D22: work that is done is not done again; its outcome is told again, and counted.
pub async fn work_is_done_once(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    for round in 0..3 {
        let work = || async { Ok::<_, Error>(Bytes::from(format!("receipt {round}"))) };
        let done = once(&bellwether, "order-17").run(work).await.unwrap();
        assert_eq!((&done.outcome[..], done.is_first), (&b"receipt 0"[..], round == 0));
    }
    let counts = bellwether.once_counts();
    assert_eq!((counts.granted, counts.duplicates), (1, 2));
}

/// D22: of twenty who claim at once one is granted it.
pub async fn one_of_many_is_granted(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let claims: Vec<_> = (0..20)
        .map(|_| {
            let once = once(&bellwether, "order-17");
            tokio::spawn(async move { matches!(once.claim().await, Ok(Claimed::Granted(_))) })
        })
        .collect();
    let mut granted = 0;
    for claim in claims {
        granted += usize::from(claim.await.unwrap());
    }
    assert_eq!(granted, 1);
}

/// Whoever comes while somebody is at it hears who, and for how long at most.
pub async fn who_comes_second_is_told_who_is_at_it(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let _claim = granted(&once(&bellwether, "order-17")).await;
    let other = bellwether.another_member().await.unwrap();
    match once(&other, "order-17").claim().await.unwrap() {
        Claimed::InProgress { by, remaining } => {
            assert_eq!(by, Some(bellwether.member()));
            assert!(remaining > Duration::ZERO && remaining <= LOCK, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    let work = || async { Err::<Bytes, _>("never run") };
    let busy = once(&other, "order-17").run(work).await;
    assert!(matches!(busy, Err(OnceError::InProgress { .. })), "{busy:?}");
}

/// D22, a crash in each gap: a claim whose holder died is taken over when its lock is over, and the
/// one who had it before finishes nothing.
pub async fn the_dead_are_taken_over_from(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let slow = granted(&once(&bellwether, "order-17")).await;
    assert!(!slow.taken_over());
    fixture.advance(LOCK).await;
    let next = granted(&once(&bellwether, "order-17")).await;
    assert!(next.taken_over());
    claim_lost(slow.finish("late").await);
    next.finish("in time").await.unwrap();
    match once(&bellwether, "order-17").claim().await.unwrap() {
        Claimed::Done { outcome, .. } => assert_eq!(outcome, "in time"),
        other => panic!("{other:?}"),
    }
}

/// Work that failed is given up: whoever comes next does it, at once.
pub async fn work_that_failed_is_done_again(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let failed = once(&bellwether, "order-17").run(|| async { Err::<Bytes, _>("no money") }).await;
    assert!(matches!(failed, Err(OnceError::Work("no money"))), "{failed:?}");
    let work = || async { Ok::<_, Error>(Bytes::from("paid")) };
    assert!(once(&bellwether, "order-17").run(work).await.unwrap().is_first);
}

/// D22: the same key for other content is a conflict, done or not, and not skipped in silence.
pub async fn other_content_is_a_conflict(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let of = |content: &str| once(&bellwether, "order-17").content(content);
    let claim = granted(&of("two coffees")).await;
    assert!(matches!(of("three").claim().await.unwrap(), Claimed::Conflict));
    claim.finish("made").await.unwrap();
    assert!(matches!(of("three").claim().await.unwrap(), Claimed::Conflict));
    assert!(matches!(of("two coffees").claim().await.unwrap(), Claimed::Done { .. }));
    let unsaid = once(&bellwether, "order-17").claim().await.unwrap();
    assert!(matches!(unsaid, Claimed::Done { .. }), "who does not say cannot differ");
    assert_eq!(bellwether.once_counts().conflicts, 2);
}

/// D22: consumers that work independently of each other do not take each other's work.
pub async fn scopes_are_apart(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    for scope in ["payments", "mails"] {
        let once = bellwether.once(scope, "order-17").unwrap();
        granted(&once).await.finish(scope).await.unwrap();
    }
}

/// D22: a marker is kept for as long as it was said, and no longer.
pub async fn markers_are_forgotten_in_time(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let kept = once(&bellwether, "order-17").keep(2 * LOCK);
    granted(&kept).await.finish("one").await.unwrap();
    fixture.advance(LOCK).await;
    assert!(matches!(kept.claim().await.unwrap(), Claimed::Done { .. }));
    fixture.advance(LOCK).await;
    granted(&kept).await;
}

/// D22: where the effect happens in the store, marker and effect are one transaction.
pub async fn marker_and_effect_are_one(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send_batch(["order", "order"]).await.unwrap();
    let claim = granted(&once(&bellwether, "order-17")).await;
    let late = granted(&once(&bellwether, "order-18")).await;
    let transaction = bellwether.transaction().complete(next(&input).await).send(&output, "bill");
    transaction.finish(claim, "billed").commit().await.unwrap();
    // The claim is lost: so is everything that came with it.
    fixture.advance(LOCK).await;
    let _taken = granted(&once(&bellwether, "order-18")).await;
    let transaction = bellwether.transaction().complete(next(&input).await).send(&output, "again");
    claim_lost(transaction.finish(late, "late").commit().await);
    assert_eq!(taken(&output).await, "bill");
    nothing(&output).await;
}
