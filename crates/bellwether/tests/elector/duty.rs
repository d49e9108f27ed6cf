//! What a leader does besides leading: it makes progress, is warm when it starts, hands over, and
//! is watched.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::{Election, Elector, LossReason, View};
use tokio_util::sync::CancellationToken;

use super::{World, secs};

/// Runs an elector until dropped.
fn run(elector: Elector) -> CancellationToken {
    let shutdown = CancellationToken::new();
    tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
    shutdown
}

async fn another(world: &World) -> Election {
    let member = world.bw.another_member().await.unwrap();
    // Whoever asks again stands at the end of the line.
    member.election("leader").unwrap().ttl(secs(10)).grace(secs(3)).wait(secs(3_600))
}

#[tokio::test]
async fn a_leader_whose_work_hangs_steps_down_and_the_next_one_leads() {
    let world = World::new().await;
    let ends = Arc::new(Mutex::new(Vec::new()));
    let hangs = Arc::new(AtomicBool::new(false));
    let (told, stuck, clock) = (Arc::clone(&ends), Arc::clone(&hangs), world.clock.clone());
    let _run = run(world.election().stall(secs(2)).lead(move |leadership| {
        let (told, stuck, clock) = (Arc::clone(&told), Arc::clone(&stuck), clock.clone());
        async move {
            let mut moved = clock.now().boot;
            loop {
                tokio::select! {
                    reason = leadership.cancelled() => {
                        told.lock().unwrap().push(reason);
                        return;
                    }
                    () = tokio::task::yield_now() => {}
                }
                if clock.now().boot != moved && !stuck.load(Ordering::SeqCst) {
                    moved = clock.now().boot;
                    leadership.progress();
                }
            }
        }
    }));
    world.settle().await;
    let _next = world.candidate(1).await;
    world.pass(30_000).await;
    assert_eq!(*ends.lock().unwrap(), [], "it works");
    hangs.store(true, Ordering::SeqCst);
    world.pass(1_500).await;
    assert_eq!(*ends.lock().unwrap(), [], "it may take its time");
    world.pass(1_000).await;
    assert_eq!(*ends.lock().unwrap(), [LossReason::Stalled]);
    assert_eq!(world.office.terms().len(), 1, "though its renewals went on all the time");
}

#[tokio::test]
async fn a_probe_that_says_no_makes_its_leader_step_down() {
    let world = World::new().await;
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let elector = world.election().stall(secs(2)).lead(|leadership| async move {
        leadership.cancelled().await;
    });
    let _run = run(elector.probe(move || {
        let healthy = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move { healthy }
    }));
    world.settle().await;
    let _next = world.candidate(1).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    world.pass(1_500).await;
    assert!(world.office.terms().is_empty());
    world.pass(1_000).await;
    assert_eq!(world.office.terms().len(), 1);
}

#[tokio::test]
async fn only_the_next_in_line_prepares_and_it_is_ready_before_it_works() {
    let world = World::new().await;
    let first = world.election().contend().await.unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut runs = Vec::new();
    for who in ["second", "third"] {
        let (warm, worked) = (Arc::clone(&log), Arc::clone(&log));
        let elector = another(&world).await.lead(move |leadership| {
            worked.lock().unwrap().push((who, "works"));
            async move {
                leadership.cancelled().await;
            }
        });
        runs.push(run(elector.prepare(move || {
            let warm = Arc::clone(&warm);
            async move {
                tokio::task::yield_now().await;
                warm.lock().unwrap().push((who, "is warm"));
            }
        })));
        world.settle().await;
    }
    world.pass(31_000).await;
    assert_eq!(*log.lock().unwrap(), [("second", "is warm")]);
    drop(first);
    world.settle().await;
    world.pass(31_000).await;
    let expected = [("second", "is warm"), ("second", "works"), ("third", "is warm")];
    assert_eq!(*log.lock().unwrap(), expected);
    runs[0].cancel();
    world.settle().await;
    assert_eq!(log.lock().unwrap()[3..], [("third", "works")], "warm already");
}

#[tokio::test]
async fn an_office_is_handed_over_to_whom_its_holder_names() {
    let world = World::new().await;
    let first = world.election().contend().await.unwrap();
    let (second, third) = (another(&world).await, another(&world).await);
    let second = tokio::spawn(async move { second.contend().await });
    world.settle().await;
    let waiting = tokio::spawn(async move { third.contend().await });
    world.settle().await;
    let line = world.election().info().await.unwrap().unwrap().waiting;
    let named = line[1];
    first.hand_over_to(named).await.unwrap();
    let third = waiting.await.unwrap().unwrap();
    assert_eq!(third.member(), named);
    assert!(!second.is_finished(), "though it had waited for longer");
    third.release().await.unwrap();
    assert!(second.await.unwrap().unwrap().ensure().is_ok());
}

#[tokio::test]
async fn a_scope_ends_with_the_office_and_says_why() {
    let world = World::new().await;
    let guard = world.election().contend().await.unwrap();
    assert_eq!(guard.scope(async { 7 }).await, Ok(7));
    let leadership = (*guard).clone();
    let scoped = tokio::spawn(async move { leadership.scope(std::future::pending::<()>()).await });
    world.settle().await;
    guard.step_down();
    let deposed = scoped.await.unwrap().expect_err("the office is over");
    assert_eq!((deposed.reason, &deposed.fence), (LossReason::StepDownAsked, guard.fence()));
    assert!(deposed.to_string().contains("asked to step down"), "{deposed}");
}

#[tokio::test]
async fn one_term_may_be_enough() {
    let world = World::new().await;
    let terms = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&terms);
    let elector = world.election().lead(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    elector.once().run(std::future::pending::<()>()).await.unwrap();
    assert_eq!(terms.load(Ordering::SeqCst), 1);
    assert_eq!(world.election().leader().await.unwrap(), None);
}

#[tokio::test]
async fn onlookers_hear_of_every_term_whoever_leads() {
    let world = World::new().await;
    let onlooker = another(&world).await;
    let mut watching = onlooker.watch();
    world.settle().await;
    assert_eq!(watching.borrow_and_update().term(), None);
    let mut last = None;
    for _ in 0..3 {
        let guard = world.election().contend().await.unwrap();
        world.pass(1_000).await;
        let seen = *watching.borrow_and_update();
        let (leader, term) = (Some(guard.member()), Some(guard.term()));
        assert_eq!(seen, View::Following { leader, term, after: None });
        assert!(last < term, "terms only grow");
        last = term;
        guard.release().await.unwrap();
        world.settle().await;
        let seen = *watching.borrow_and_update();
        assert_eq!(seen, View::Following { leader: None, term, after: None });
    }
    drop(watching);
    world.settle().await;
    let watching = onlooker.watch();
    let guard = world.election().contend().await.unwrap();
    world.pass(1_000).await;
    assert_eq!(watching.borrow().term(), Some(guard.term()), "somebody looks on again");
}

#[tokio::test]
async fn a_limit_that_cannot_be_met_is_refused() {
    let world = World::new().await;
    let refused = world.election().stall(Duration::MAX).contend().await.expect_err("too long");
    assert!(refused.to_string().contains("stall_ms"), "{refused}");
}

#[tokio::test]
async fn renewals_leave_room_for_one_that_fails() {
    let world = World::new().await;
    let refused = world.election().renew(secs(5)).contend().await.expect_err("too rare");
    assert!(refused.to_string().contains("4000 ms, 40 % of the ttl"), "{refused}");
    let guard = world.election().renew(secs(4)).contend().await.unwrap();
    world.pass(60_000).await;
    assert!(guard.ensure().is_ok(), "it was renewed all the time");
}

#[tokio::test]
async fn tags_are_seen_by_their_names() {
    let world = World::new().await;
    let election = world.election().metadata("node 7").tag("zone", "b").tag("at", "10.0.0.7:80");
    let _guard = election.contend().await.unwrap();
    let leader = world.election().leader().await.unwrap().expect("somebody leads");
    assert_eq!(leader.metadata, "node 7 at=10.0.0.7:80 zone=b");
    assert_eq!(leader.tag("zone"), Some("b"));
    assert_eq!((leader.tag("node"), leader.tag("7")), (None, None));
    for (key, value) in [("", "b"), ("a b", "c"), ("a", "b c"), ("a=b", "c"), ("a", "")] {
        let refused = world.election().tag(key, value).contend().await.expect_err("not a tag");
        assert!(refused.to_string().contains("white space"), "{refused}");
    }
}
