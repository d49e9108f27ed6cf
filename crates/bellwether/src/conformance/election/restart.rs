//! What keeps the leases dies and comes back.

#![allow(missing_docs, reason = "the name of a case says what it shows")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_core::name::Term;
use tokio_util::sync::CancellationToken;

use super::Hall;

/// E1: leadership survives, or ends in order and somebody leads again.
pub async fn there_are_never_two_over_a_restart(hall: &Hall) {
    let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = CancellationToken::new();
    let mut candidates = Vec::new();
    for _ in 0..3 {
        let election = hall.election(&hall.member().await);
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        let elector = election.lead(move |leading| {
            let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
            async move {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
                let term = leading.term().0 as usize;
                let before = last.swap(term, Ordering::SeqCst);
                leading.cancelled().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(term > before, "term {term} after {before}");
            }
        });
        let elector = elector.on_failure(|term, why| panic!("term {term}: {why}"));
        candidates.push(tokio::spawn(elector.run(stop.clone().cancelled_owned())));
    }
    for _ in 0..2 {
        until(hall, &inside, 1).await;
        hall.restart().await;
        tokio::time::sleep(hall.ttl() * 2).await;
    }
    until(hall, &inside, 1).await;
    stop.cancel();
    for candidate in candidates {
        hall.at_last("the end", candidate).await.unwrap().unwrap();
    }
    assert_eq!(inside.load(Ordering::SeqCst), 0, "a work was aborted or failed");
}

async fn until(hall: &Hall, inside: &AtomicUsize, count: usize) {
    let reached = async {
        while inside.load(Ordering::SeqCst) != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    hall.at_last("a leader", reached).await;
}

pub async fn terms_grow_over_a_restart(hall: &Hall) {
    let election = hall.election(&hall.member().await);
    let mut last = Term(0);
    for _ in 0..2 {
        let guard = hall.contend(&election).await;
        assert!(guard.term() > last, "{} after {last}", guard.term());
        last = guard.term();
        guard.release().await.unwrap();
        hall.restart().await;
    }
    let guard = hall.contend(&hall.election(&hall.member().await)).await;
    assert!(guard.term() > last);
}
