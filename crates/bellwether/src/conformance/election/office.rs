//! Winning, holding and leaving office.

#![allow(missing_docs, reason = "the name of a case says what it shows")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_core::command::ReleaseReason;
use bellwether_core::error::{LeaseRefusal, Refusal};
use bellwether_core::limits;
use bellwether_core::name::Term;
use bellwether_core::outcome::{EndedBy, LeftAs};
use tokio_util::sync::CancellationToken;

use super::{Hall, NAME, leading};
use crate::elector::{LossReason, View, WorkEnd};
use crate::error::Error;

/// E1.
pub async fn one_of_five_leads(hall: &Hall) {
    let mut elections = Vec::new();
    for _ in 0..5 {
        elections.push(hall.election(&hall.member().await));
    }
    let contending: Vec<_> = elections
        .iter()
        .cloned()
        .map(|election| tokio::spawn(async move { election.contend().await }))
        .collect();
    let leader = hall.until_leader(&elections[0], |leader| leader.is_some()).await.unwrap();
    for _ in 0..10 {
        tokio::time::sleep(hall.ttl() / 5).await;
        assert_eq!(contending.iter().filter(|one| one.is_finished()).count(), 1);
        for election in &elections {
            let seen = election.leader().await.unwrap().expect("somebody leads");
            assert_eq!((seen.member, seen.term), (leader.member, leader.term));
        }
    }
    for (election, one) in elections.iter().zip(contending) {
        if one.is_finished() {
            let guard = one.await.unwrap().unwrap();
            assert_eq!(guard.term(), leader.term);
            assert_eq!(*election.watch().borrow(), View::Leading { term: leader.term });
        } else {
            one.abort();
        }
    }
}

pub async fn a_second_member_sees_who_leads(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let guard = hall.contend(&hall.election(&one).metadata("http://one:80")).await;
    let leader = hall.election(&other).leader().await.unwrap().expect("one leads");
    assert_eq!(leader.member, one.member());
    assert_eq!(leader.term, guard.term());
    assert_eq!(leader.metadata, "http://one:80");
    let info = hall.election(&other).info().await.unwrap().expect("there is such a lease");
    assert_eq!((info.name.as_str(), info.holder), (NAME, Some(one.member())));
    assert_eq!(Duration::from_millis(info.ttl_ms), hall.ttl());
    assert!(!info.step_down_asked);
    guard.release().await.unwrap();
    assert_eq!(hall.election(&other).leader().await.unwrap(), None);
}

/// The wait of the second is far longer than what this case may take.
pub async fn a_release_wakes_whoever_waits(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let term = first.term();
    let waiting = hall.election(&other).wait(Duration::from_secs(60));
    let second = tokio::spawn(async move { waiting.contend().await });
    tokio::time::sleep(hall.ttl() / 2).await;
    assert!(!second.is_finished());
    first.release().await.unwrap();
    let second = hall.at_last("a new leader", second).await.unwrap().unwrap();
    assert!(second.term() > term);
    second.ensure().unwrap();
}

pub async fn several_lead_at_once_or_the_engine_says_that_it_keeps_one(hall: &Hall) {
    let (one, other, third) = (hall.member().await, hall.member().await, hall.member().await);
    let first = match hall.election(&one).slots(2).contend().await {
        Ok(first) => first,
        Err(Error::Refused(Refusal::InvalidValue { what: "slots", why })) => {
            assert!(why.contains(one.facts().name), "{why}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let second = hall.contend(&hall.election(&other).slots(2)).await;
    assert!(second.term() > first.term());
    let (leaders, term) = (hall.election(&third).leaders().await.unwrap(), second.term());
    let seen: Vec<_> = leaders.iter().map(|leader| (leader.member, leader.term)).collect();
    assert_eq!(seen, [(one.member(), first.term()), (other.member(), term)]);
    let waiting = hall.election(&third).slots(2).wait(Duration::from_secs(60));
    let waits = tokio::spawn(async move { waiting.contend().await });
    tokio::time::sleep(hall.ttl() * 2).await;
    assert!(!waits.is_finished(), "three of two lead");
    first.ensure().unwrap();
    second.ensure().unwrap();
    first.release().await.unwrap();
    let third = hall.at_last("a third leader", waits).await.unwrap().unwrap();
    assert!(third.term() > term);
    second.ensure().unwrap();
    let refused = hall.election(&one).slots(3).contend().await;
    assert!(
        matches!(
            refused,
            Err(Error::Refused(Refusal::Lease(LeaseRefusal::OtherSlots {
                slots: 2,
                asked: 3,
                ..
            })))
        ),
        "{refused:?}"
    );
}

/// E2: over a release, a step-down, and a lease that ran out.
pub async fn terms_only_grow(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let (one, other) = (hall.election(&one), hall.election(&other));
    let mut last = Term(0);
    for election in [&one, &one, &other, &one, &other, &other] {
        let guard = hall.contend(election).await;
        assert!(guard.term() > last, "{} after {last}", guard.term());
        last = guard.term();
        guard.release().await.unwrap();
    }
    let guard = hall.contend(&one).await;
    assert!(guard.term() > last);
    other.ask_step_down().await.unwrap();
    assert_eq!(hall.at_last("the word", guard.cancelled()).await, LossReason::StepDownAsked);
    last = guard.term();
    guard.release().await.unwrap();
    assert!(hall.contend(&other).await.term() > last);
}

pub async fn a_dropped_guard_is_a_release(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let term = first.term();
    drop(first);
    assert!(hall.contend(&hall.election(&other)).await.term() > term);
}

/// How the work ended is told to whoever asks why, and so is a death that somebody else saw; where
/// nothing is remembered it is a release like any other.
pub async fn how_the_work_ended_is_told(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let (leads, follows) = (hall.election(&one), hall.election(&other));
    let code = 7;
    let mut terms = Vec::new();
    for how in [WorkEnd::FailedWith { code }, WorkEnd::Finished] {
        let guard = hall.contend(&leads).await;
        terms.push(guard.term());
        guard.ended(how).await.unwrap();
    }
    let guard = hall.contend(&leads).await;
    terms.push(guard.term());
    other.release(NAME, guard.lease_id()).await.unwrap();
    let next = hall.contend(&follows).await;
    assert!(terms.is_sorted() && Some(&next.term()) > terms.last(), "{terms:?}");
    let Ok(told) = follows.history().await else { return };
    let failed = Some(ReleaseReason::FailedWith { code });
    let finished = Some(ReleaseReason::Finished);
    let expected = [
        EndedBy::Died,
        EndedBy::Released { reason: finished },
        EndedBy::Released { reason: failed },
    ];
    let ended: Vec<_> = told.iter().skip(1).map(|term| term.left_as).collect();
    assert_eq!(ended.len(), expected.len(), "{told:?}");
    for (left_as, expected) in ended.into_iter().zip(expected) {
        assert!(matches!(left_as, LeftAs::Ended { by, .. } if by == expected), "{told:?}");
    }
}

pub async fn whoever_leaves_the_line_is_passed_over(hall: &Hall) {
    let (one, leaving, other) = (hall.member().await, hall.member().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let election = hall.election(&leaving);
    let left = tokio::time::timeout(hall.ttl() / 2, election.contend()).await;
    assert!(left.is_err(), "somebody leads");
    first.release().await.unwrap();
    let guard = hall.contend(&hall.election(&other)).await;
    tokio::time::sleep(hall.ttl()).await;
    guard.ensure().unwrap();
    assert_eq!(election.leader().await.unwrap().map(|leader| leader.member), Some(other.member()));
}

/// Those whom an engine knows; one that keeps no line shows nobody.
pub async fn those_who_wait_are_seen(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let first = hall.contend(&hall.election(&one)).await;
    let waiting = hall.election(&other);
    let second = tokio::spawn(async move { waiting.contend().await });
    if one.facts().line.is_empty() {
        tokio::time::sleep(hall.ttl() / 2).await;
        assert!(hall.election(&one).info().await.unwrap().unwrap().waiting.is_empty());
    } else {
        let seen = async {
            loop {
                let info = hall.election(&one).info().await.unwrap().unwrap();
                if info.waiting == [other.member()] {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        hall.at_last("a line of one", seen).await;
    }
    first.release().await.unwrap();
    let _second = hall.at_last("a new leader", second).await.unwrap().unwrap();
    assert!(hall.election(&one).info().await.unwrap().unwrap().waiting.is_empty());
}

/// E4.
pub async fn a_leader_stays_through_many_renewals(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let guard = hall.contend(&hall.election(&one)).await;
    let waiting = hall.election(&other);
    let second = tokio::spawn(async move { waiting.contend().await });
    // Three renewals a ttl.
    for _ in 0..40 {
        tokio::time::sleep(hall.ttl() / 10).await;
        guard.ensure().unwrap();
    }
    assert!(!second.is_finished());
    let leader = hall.election(&one).leader().await.unwrap().expect("one leads");
    assert_eq!((leader.member, leader.term), (one.member(), guard.term()));
    second.abort();
}

/// E1: many short terms of four members, one after the other.
pub async fn never_two_at_once(hall: &Hall) {
    const TERMS: usize = 12;
    let (inside, terms) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = CancellationToken::new();
    let mut candidates = Vec::new();
    for _ in 0..4 {
        let election = hall.election(&hall.member().await);
        let (inside, terms, enough) = (Arc::clone(&inside), Arc::clone(&terms), stop.clone());
        let elector = election.lead(move |leading| {
            let (inside, terms, enough) = (Arc::clone(&inside), Arc::clone(&terms), enough.clone());
            async move {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
                leading.ensure().unwrap();
                tokio::time::sleep(Duration::from_millis(30)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                if terms.fetch_add(1, Ordering::SeqCst) + 1 >= TERMS {
                    enough.cancel();
                }
            }
        });
        let stop = stop.clone();
        let elector = elector.on_failure(|term, why| panic!("term {term}: {why}"));
        candidates.push(tokio::spawn(elector.run(stop.cancelled_owned())));
    }
    hall.at_last("enough terms", stop.cancelled()).await;
    for candidate in candidates {
        hall.at_last("the end", candidate).await.unwrap().unwrap();
    }
    assert_eq!(inside.load(Ordering::SeqCst), 0, "a work was aborted or failed");
    assert!(terms.load(Ordering::SeqCst) >= TERMS);
    assert_eq!(hall.election(&hall.member().await).leader().await.unwrap(), None);
}

pub async fn a_leader_is_asked_to_step_down(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let guard = hall.contend(&hall.election(&one)).await;
    let asking = hall.election(&other);
    asking.ask_step_down().await.unwrap();
    assert_eq!(hall.at_last("the word", guard.cancelled()).await, LossReason::StepDownAsked);
    // It may clean up: nobody takes the office before it is given back.
    assert_eq!(asking.leader().await.unwrap().map(|leader| leader.term), Some(guard.term()));
    guard.release().await.unwrap();
    // The word was for that term alone.
    let next = hall.contend(&asking).await;
    tokio::time::sleep(hall.ttl()).await;
    next.ensure().unwrap();
    assert!(!next.token().is_cancelled());
}

pub async fn nobody_cannot_be_asked_to_step_down(hall: &Hall) {
    let election = hall.election(&hall.member().await);
    let refused = |asked: Result<(), Error>| {
        assert!(matches!(asked, Err(Error::Refused(Refusal::Lease(_)))), "{asked:?}");
    };
    refused(election.ask_step_down().await);
    hall.contend(&election).await.release().await.unwrap();
    refused(election.ask_step_down().await);
}

pub async fn many_elections_of_one_member(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let mut guards = Vec::new();
    for number in 0..30 {
        let election = one.election(&format!("{NAME}-{number}")).unwrap().ttl(hall.ttl());
        guards.push(hall.contend(&election).await);
    }
    for _ in 0..10 {
        tokio::time::sleep(hall.ttl() / 4).await;
        assert_eq!(leading(&guards), guards.len());
    }
    for number in 0..30 {
        let leader = other.election(&format!("{NAME}-{number}")).unwrap().leader().await.unwrap();
        assert_eq!(leader.map(|leader| leader.member), Some(one.member()));
    }
}

pub async fn one_election_given_up_leaves_the_others(hall: &Hall) {
    let (one, other) = (hall.member().await, hall.member().await);
    let kept = hall.contend(&one.election("kept").unwrap().ttl(hall.ttl())).await;
    let given = hall.contend(&hall.election(&one)).await;
    given.release().await.unwrap();
    let next = hall.contend(&hall.election(&other)).await;
    tokio::time::sleep(hall.ttl() * 2).await;
    assert_eq!(leading([&kept, &next]), 2);
}

pub async fn an_election_nobody_knows_has_no_leader(hall: &Hall) {
    let election = hall.member().await.election("nobody-ever").unwrap();
    assert_eq!(election.leader().await.unwrap(), None);
    assert_eq!(election.info().await.unwrap(), None);
}

pub async fn a_ttl_below_the_floor_is_refused(hall: &Hall) {
    let member = hall.member().await;
    let ttl = member.facts().ttl_min.saturating_sub(Duration::from_millis(1));
    let refused = member.election(NAME).unwrap().ttl(ttl).contend().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::InvalidValue { .. })), "{refused}");
}

pub async fn metadata_has_a_limit(hall: &Hall) {
    let election = hall.election(&hall.member().await);
    let long = "x".repeat(limits::METADATA_BYTES_MAX);
    let refused = election.clone().metadata(format!("{long}x")).contend().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::TooLarge { .. })), "{refused}");
    let _guard = hall.contend(&election.clone().metadata(&long)).await;
    assert_eq!(election.leader().await.unwrap().unwrap().metadata, long);
}

/// What would end a string in any language an engine is spoken to.
pub async fn odd_metadata_survives(hall: &Hall) {
    let election = hall.election(&hall.member().await);
    let odd = "'; DROP TABLE x; -- \\' \" $1 $$ {\"a\":[1]}\r\n\t\0 ü 🐑";
    let _guard = hall.contend(&election.clone().metadata(odd)).await;
    assert_eq!(election.leader().await.unwrap().unwrap().metadata, odd);
}
