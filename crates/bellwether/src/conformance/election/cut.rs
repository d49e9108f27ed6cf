//! Members whose network fails them, or who leave it.

#![allow(missing_docs, reason = "the name of a case says what it shows")]

use std::time::Duration;

use bellwether_core::name::Term;

use super::{Hall, leading};
use crate::elector::LossReason;
use crate::error::Error;

/// E3: belief ends before somebody else's begins.
pub async fn a_leader_that_is_cut_off_stops_before_another_leads(hall: &Hall) {
    let ((one, network), other) = (hall.member_by_network().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let waiting = hall.election(&other);
    let second = tokio::spawn(async move { waiting.contend().await });
    tokio::time::sleep(hall.ttl() / 2).await;
    first.ensure().unwrap();
    network.freeze();
    let second = hall.at_last("a new leader", second).await.unwrap().unwrap();
    assert!(first.ensure().is_err(), "two lead at once");
    assert!(second.term() > first.term());
    assert_eq!(hall.at_last("the end", first.cancelled()).await, LossReason::TrustOver);
    // Nothing that comes late changes anything.
    network.heal();
    for _ in 0..10 {
        tokio::time::sleep(hall.ttl() / 5).await;
        assert!(first.ensure().is_err());
        second.ensure().unwrap();
    }
}

/// E5: what it gives back is not its own any more.
pub async fn a_late_release_frees_nothing(hall: &Hall) {
    let ((one, network), other) = (hall.member_by_network().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    network.freeze();
    let second = hall.contend(&hall.election(&other)).await;
    let releasing = tokio::spawn(first.release());
    tokio::time::sleep(hall.ttl() / 10).await;
    network.heal();
    hall.at_last("the release", releasing).await.unwrap().unwrap();
    for _ in 0..10 {
        tokio::time::sleep(hall.ttl() / 5).await;
        second.ensure().unwrap();
        let leader = hall.election(&one).leader().await.unwrap().expect("the second leads");
        assert_eq!((leader.member, leader.term), (other.member(), second.term()));
    }
}

pub async fn a_short_silence_costs_nothing(hall: &Hall) {
    let ((one, network), other) = (hall.member_by_network().await, hall.member().await);
    let guard = hall.contend(&hall.election(&one)).await;
    let waiting = hall.election(&other);
    let second = tokio::spawn(async move { waiting.contend().await });
    for _ in 0..4 {
        network.freeze();
        tokio::time::sleep(hall.ttl() / 8).await;
        network.heal();
        tokio::time::sleep(hall.ttl() / 2).await;
        guard.ensure().unwrap();
    }
    assert!(!second.is_finished());
    second.abort();
}

pub async fn a_broken_connection_costs_nothing(hall: &Hall) {
    let ((one, network), other) = (hall.member_by_network().await, hall.member().await);
    network.delay(Duration::from_millis(2));
    let guard = hall.contend(&hall.election(&one)).await;
    let waiting = hall.election(&other);
    let second = tokio::spawn(async move { waiting.contend().await });
    for _ in 0..6 {
        network.cut();
        tokio::time::sleep(hall.ttl() / 2).await;
        guard.ensure().unwrap();
    }
    assert!(!second.is_finished());
    second.abort();
}

/// E6: whatever answer is lost on the way to a grant, there is one grant at most.
pub async fn a_lost_answer_is_the_same_grant(hall: &Hall) {
    let other = hall.election(&hall.member().await);
    let mut last = Term(0);
    let mut lost_grants = 0;
    for answers in 0..10 {
        let (one, network) = hall.member_by_network().await;
        let election = hall.election(&one);
        // It knows the way there and back.
        assert_eq!(election.leader().await.unwrap(), None);
        network.swallow_answers_after(answers);
        let contending = tokio::spawn(async move { election.contend().await });
        let seen = tokio::time::timeout(
            hall.ttl() / 4,
            hall.until_leader(&other, |leader| leader.is_some()),
        );
        let seen = seen.await.ok().flatten();
        // An answer that is not lost is there by now.
        tokio::time::sleep(Duration::from_millis(50)).await;
        lost_grants += u32::from(seen.is_some() && !contending.is_finished());
        network.cut();
        network.heal();
        let guard = hall.at_last("leading", contending).await.unwrap().unwrap();
        assert!(guard.term() > last);
        if let Some(leader) = seen {
            assert_eq!(leader.member, one.member());
            assert_eq!(leader.term, guard.term(), "with {answers} answers");
        }
        last = guard.term();
        guard.release().await.unwrap();
    }
    assert!(lost_grants > 0, "none of the answers that were lost was a grant");
}

/// Its place in line may have run out meanwhile, and whatever kept it.
pub async fn whoever_was_cut_off_while_waiting_waits_again(hall: &Hall) {
    let (one, (other, network)) = (hall.member().await, hall.member_by_network().await);
    let first = hall.contend(&hall.election(&one)).await;
    let term = first.term();
    let waiting = hall.election(&other).wait(hall.ttl());
    let second = tokio::spawn(async move { waiting.contend().await });
    tokio::time::sleep(hall.ttl() / 2).await;
    network.freeze();
    tokio::time::sleep(hall.ttl() * 2).await;
    first.release().await.unwrap();
    tokio::time::sleep(hall.ttl()).await;
    // A place in line is worth nothing to whoever cannot be reached.
    let third = hall.contend(&hall.election(&hall.member().await)).await;
    assert!(third.term() > term);
    assert!(!second.is_finished());
    network.heal();
    tokio::time::sleep(hall.ttl()).await;
    assert!(!second.is_finished());
    third.ensure().unwrap();
    let term = third.term();
    third.release().await.unwrap();
    let second = hall.at_last("leading", second).await.unwrap().unwrap();
    assert!(second.term() > term);
    assert_eq!(leading([&second]), 1);
}

/// One that is gone for good, with everything it held and a connection that nobody closed.
pub async fn a_dropped_leader_is_followed(hall: &Hall) {
    let ((one, network), other) = (hall.member_by_network().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let kept = hall.contend(&one.election("another").unwrap().ttl(hall.ttl())).await;
    let terms = [first.term(), kept.term()];
    network.freeze();
    drop((first, kept));
    let first = hall.contend(&hall.election(&other)).await;
    let kept = hall.contend(&other.election("another").unwrap().ttl(hall.ttl())).await;
    assert!(first.term() > terms[0] && kept.term() > terms[1]);
    assert_eq!(leading([&first, &kept]), 2);
}

pub async fn a_closed_member_leads_no_more(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let election = hall.election(&one);
    let guard = hall.contend(&election).await;
    let term = guard.term();
    guard.release().await.unwrap();
    one.close().await;
    let refused = hall.at_last("a refusal", election.contend()).await.unwrap_err();
    assert!(matches!(refused, Error::Closed), "{refused}");
    assert!(hall.contend(&hall.election(&other)).await.term() > term);
}
