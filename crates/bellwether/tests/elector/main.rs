//! Stories of elections and leases on a store in memory, with a clock that only the test moves.
//! ttl 10 s: trust lasts 8 s from the ask, renewals start 3.333 s apart.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod duty;
mod samples;
mod shards;
mod thread;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::core::outcome::LeaseState;
use bellwether::{
    Bellwether, Deposed, Election, Error, Leadership, LeaseId, LeaseRefusal, LossReason, Refusal,
    Term, Ttl, View, VirtualClock,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A store, its clock, and what the leaders in it did.
struct World {
    bw: Bellwether,
    clock: VirtualClock,
    office: Arc<Office>,
}

#[derive(Default)]
struct Office {
    inside: AtomicU32,
    /// Candidate and term, in the order they took office.
    terms: Mutex<Vec<(usize, Term)>>,
    ends: Mutex<Vec<LossReason>>,
    current: Mutex<Option<Leadership>>,
}

impl Office {
    /// Leads until told to stop, and sees to it that nobody else does meanwhile.
    async fn hold(&self, who: usize, leadership: Leadership) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
        self.terms.lock().unwrap().push((who, leadership.term()));
        *self.current.lock().unwrap() = Some(leadership.clone());
        let reason = leadership.cancelled().await;
        self.ends.lock().unwrap().push(reason);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn terms(&self) -> Vec<(usize, Term)> {
        self.terms.lock().unwrap().clone()
    }

    fn current(&self) -> Leadership {
        self.current.lock().unwrap().clone().expect("somebody led")
    }
}

struct Candidate {
    election: Election,
    shutdown: CancellationToken,
    run: JoinHandle<Result<(), Error>>,
}

impl World {
    async fn new() -> Self {
        let clock = VirtualClock::new();
        let bw = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
        Self { bw, clock, office: Arc::default() }
    }

    fn election(&self) -> Election {
        self.bw.election("leader").unwrap().ttl(secs(10)).grace(secs(3))
    }

    async fn candidate(&self, who: usize) -> Candidate {
        let member = self.bw.another_member().await.unwrap();
        let election = member.election("leader").unwrap().metadata(who.to_string());
        let office = Arc::clone(&self.office);
        let elector = election.lead(move |leadership| {
            let office = Arc::clone(&office);
            async move { office.hold(who, leadership).await }
        });
        let shutdown = CancellationToken::new();
        let run = tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
        self.settle().await;
        Candidate { election, shutdown, run }
    }

    /// Lets everything happen that needs no time: tasks run, calls are answered.
    async fn settle(&self) {
        for _ in 0..8 {
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            // Calls are answered in order: when this one is, those before it are.
            let _ = self.bw.members().await;
        }
    }

    /// Time passes, slowly enough for everybody to keep up.
    async fn pass(&self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(500);
            self.clock.advance(Duration::from_millis(step));
            self.settle().await;
            left -= step;
        }
    }

    async fn waiting(&self) -> usize {
        self.election().info().await.unwrap().map_or(0, |info| info.waiting.len())
    }
}

#[tokio::test]
async fn one_of_five_leads_and_the_others_know_who() {
    let world = World::new().await;
    assert_eq!(world.election().leader().await.unwrap(), None);
    let mut five = Vec::new();
    for who in 0..5 {
        five.push(world.candidate(who).await);
    }
    world.pass(60_000).await;
    let terms = world.office.terms();
    assert_eq!((terms.len(), world.waiting().await), (1, 4), "{terms:?}");
    let (who, term) = terms[0];
    let leader = five[(who + 1) % 5].election.leader().await.unwrap().expect("somebody leads");
    assert_eq!((leader.term, leader.metadata.as_str()), (term, who.to_string().as_str()));
    assert_eq!(*five[who].election.watch().borrow(), View::Leading { term });
    let watching = five[(who + 1) % 5].election.watch();
    world.settle().await;
    let seen = View::Following { leader: Some(leader.member), term: Some(term), after: None };
    assert_eq!(*watching.borrow(), seen);
    for candidate in five {
        candidate.shutdown.cancel();
        candidate.run.await.unwrap().unwrap();
    }
    assert_eq!(world.election().leader().await.unwrap(), None);
}

#[tokio::test]
async fn stepping_down_passes_the_office_on_under_a_higher_term() {
    let world = World::new().await;
    let _three = [world.candidate(0).await, world.candidate(1).await, world.candidate(2).await];
    world.office.current().step_down();
    world.settle().await;
    assert_eq!(world.office.terms().len(), 2, "whoever waits is next, without any time passing");
    world.election().ask_step_down().await.unwrap();
    world.pass(3_500).await;
    let terms = world.office.terms();
    assert_eq!(terms.len(), 3, "the next heartbeat brings the word");
    assert!(terms.is_sorted_by(|a, b| a.1 < b.1 && a.0 != b.0), "{terms:?}");
    assert_eq!(*world.office.ends.lock().unwrap(), [LossReason::StepDownAsked; 2]);
}

#[tokio::test]
async fn work_that_returns_fails_or_panics_contends_again_after_a_growing_pause() {
    let world = World::new().await;
    let starts = Arc::new(Mutex::new(Vec::new()));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let (seen, told) = (Arc::clone(&starts), Arc::clone(&failures));
    let (election, clock) = (world.election(), world.clock.clone());
    let elector = election
        .lead(move |leadership: Leadership| {
            let mut starts = seen.lock().unwrap();
            starts.push((leadership.term(), clock.now().boot.0));
            let count = starts.len();
            drop(starts);
            async move {
                match count {
                    1 => return Ok(()),
                    2 => return Err("no coffee"),
                    3 => panic!("no milk"),
                    _ => {}
                }
                leadership.cancelled().await;
                Ok(())
            }
        })
        .on_failure(move |term, what| {
            told.lock().unwrap().push((term, what.to_owned()));
            panic!("a listener that fails ends nothing");
        });
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
    for (count, after) in
        [(1, LossReason::WorkFinished), (2, LossReason::WorkFailed), (3, LossReason::WorkFailed)]
    {
        world.settle().await;
        assert_eq!(starts.lock().unwrap().len(), count);
        let seen = *election.watch().borrow();
        assert!(matches!(seen, View::Following { after: Some(why), .. } if why == after));
        assert_eq!(election.leader().await.unwrap(), None, "others get their chance");
        while starts.lock().unwrap().len() == count {
            world.pass(100).await;
        }
    }
    let starts = starts.lock().unwrap().clone();
    for (pair, pause_ms) in starts.windows(2).zip([1_000, 2_000, 4_000]) {
        assert!(pair[0].0 < pair[1].0, "{starts:?}");
        let paused_ms = pair[1].1 - pair[0].1;
        assert!((pause_ms / 2..=pause_ms + 100).contains(&paused_ms), "{starts:?}");
    }
    let failed = [(starts[1].0, "no coffee".into()), (starts[2].0, "it panicked: no milk".into())];
    assert_eq!(*failures.lock().unwrap(), failed);
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_lease_that_was_broken_cancels_the_work_with_the_next_renewal() {
    let world = World::new().await;
    let candidate = world.candidate(0).await;
    let leadership = world.office.current();
    world.bw.lease("leader").unwrap().break_(Some(Duration::ZERO)).await.unwrap();
    world.settle().await;
    assert!(leadership.ensure().is_ok(), "nobody has told the leader yet");
    world.pass(3_500).await;
    assert_eq!(*world.office.ends.lock().unwrap(), [LossReason::Refused]);
    let fence = leadership.fence().clone();
    assert_eq!(leadership.ensure(), Err(Deposed { fence, reason: LossReason::Refused }));
    world.pass(2_000).await;
    let terms = world.office.terms();
    assert!(terms.len() == 2 && terms[0].1 < terms[1].1, "it leads again, anew: {terms:?}");
    drop(candidate);
}

#[tokio::test]
async fn ensure_looks_at_the_clock_before_any_task_has_run() {
    let world = World::new().await;
    let guard = world.election().contend().await.unwrap();
    world.settle().await;
    world.clock.advance(Duration::from_millis(7_999));
    assert_eq!(guard.ensure().as_ref(), Ok(guard.fence()));
    world.clock.advance(Duration::from_millis(1));
    let reason = guard.ensure().expect_err("trust ends 8 s after the last renewal").reason;
    assert_eq!(reason, LossReason::TrustOver);
    assert_eq!(guard.cancelled().await, LossReason::TrustOver);
    world.settle().await;
    let reason = guard.ensure().expect_err("a late renewal brings no term back").reason;
    assert_eq!(reason, LossReason::TrustOver);
}

#[tokio::test]
async fn shutdown_releases_only_when_the_work_has_ended() {
    let world = World::new().await;
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let elector = world.election().grace(secs(60)).lead(move |leadership| {
        let gate = Arc::clone(&opened);
        async move {
            leadership.cancelled().await;
            gate.notified().await;
            leadership.ensure().map(drop)
        }
    });
    let elector = elector.on_failure(|_, what| panic!("the lease was kept for it: {what}"));
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
    world.settle().await;
    let _next = world.candidate(1).await;
    shutdown.cancel();
    world.pass(30_000).await;
    assert!(world.office.terms().is_empty() && !run.is_finished(), "the work still cleans up");
    gate.notify_one();
    run.await.unwrap().unwrap();
    world.settle().await;
    assert_eq!(world.office.terms().len(), 1, "released, and taken at once");
}

#[tokio::test]
async fn work_that_ignores_the_word_is_aborted_after_the_grace() {
    let world = World::new().await;
    let election = world.election();
    let failures = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&failures);
    let elector = election
        .lead(|leadership| async move {
            leadership.step_down();
            std::future::pending::<()>().await;
        })
        .on_failure(move |_, what| told.lock().unwrap().push(what.to_owned()));
    let run = tokio::spawn(elector.run(std::future::pending::<()>()));
    world.settle().await;
    let _next = world.candidate(1).await;
    world.pass(2_999).await;
    assert!(matches!(*election.watch().borrow(), View::Stopping { .. }));
    assert!(world.office.terms().is_empty());
    world.pass(1).await;
    assert_eq!(failures.lock().unwrap().len(), 1);
    assert_eq!(world.office.terms().len(), 1, "it has ended: the next one leads");
    run.abort();
}

#[tokio::test]
async fn a_guard_kept_beyond_the_grace_keeps_nobody_in_office() {
    let world = World::new().await;
    let guard = world.election().contend().await.unwrap();
    let other = world.bw.election("other").unwrap().contend().await.unwrap();
    let _next = world.candidate(1).await;
    guard.step_down();
    world.pass(3_000 + 10_500).await;
    assert!(guard.ensure().is_err(), "not renewed since the grace, so not trusted");
    assert!(other.ensure().is_ok(), "the member's heartbeats go on for what it still holds");
    assert_eq!(world.office.terms().len(), 1, "and the lease ran out");
}

#[tokio::test]
async fn a_guard_that_is_dropped_gives_the_lease_to_whoever_waits() {
    let world = World::new().await;
    let first = world.election().contend().await.unwrap();
    let other = world.bw.another_member().await.unwrap().election("leader").unwrap();
    let impatient = tokio::spawn({
        let other = other.clone();
        async move { other.contend().await.map(|guard| guard.term()) }
    });
    world.settle().await;
    assert_eq!(world.waiting().await, 1);
    impatient.abort();
    world.settle().await;
    assert_eq!(world.waiting().await, 0, "a dropped wait is withdrawn");

    let waiting = tokio::spawn(async move { other.contend().await });
    world.settle().await;
    let term = first.term();
    drop(first);
    let second = waiting.await.unwrap().unwrap();
    assert!(second.term() > term);
    second.release().await.unwrap();
    assert_eq!(world.election().leader().await.unwrap(), None);
}

#[tokio::test]
async fn one_heartbeat_keeps_many_leases_and_losing_one_leaves_the_others_alone() {
    let world = World::new().await;
    let mut guards = Vec::new();
    for name in ["a", "b", "c", "d"] {
        guards.push(world.bw.election(name).unwrap().ttl(secs(10)).contend().await.unwrap());
        world.pass(700).await;
    }
    world.bw.lease("b").unwrap().break_(Some(Duration::ZERO)).await.unwrap();
    guards.remove(3).release().await.unwrap();
    world.pass(60_000).await;
    let held: Vec<bool> = guards.iter().map(|guard| guard.ensure().is_ok()).collect();
    assert_eq!(held, [true, false, true]);
}

#[tokio::test]
async fn a_closed_store_ends_the_candidacy_and_the_work() {
    let world = World::new().await;
    let candidate = world.candidate(0).await;
    world.bw.close().await;
    world.pass(3_500).await;
    assert!(matches!(candidate.run.await.unwrap(), Err(Error::Closed)));
    assert_eq!(world.office.inside.load(Ordering::SeqCst), 0);
    assert!(matches!(world.election().contend().await, Err(Error::Closed)));
    let refused = world.election().ttl(Duration::ZERO).contend().await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidValue { .. }))));
}

#[tokio::test]
async fn a_lease_by_itself_follows_azures_table() {
    let world = World::new().await;
    let lease = world.bw.lease("blob").unwrap();
    let (a, b) = (LeaseId(0xA), LeaseId(0xB));
    let refusal = |result: Result<_, Error>| match result {
        Err(Error::Refused(Refusal::Lease(refusal))) => refusal,
        other => panic!("a refusal was expected, not {other:?}"),
    };
    let name = lease.name().clone();
    assert_eq!(lease.info().await.unwrap(), None);
    let first = lease.acquire_as(a, secs(15)).await.unwrap();
    assert!(lease.is_trusted(&first));
    assert_eq!(lease.acquire_as(a, secs(30)).await.unwrap().term, first.term, "the same again");
    let held = LeaseRefusal::Held { lease: name.clone(), term: first.term };
    assert_eq!(refusal(lease.acquire_as(b, Ttl::Infinite).await), held);
    assert_eq!(refusal(lease.renew(b).await), LeaseRefusal::IdMismatch(name.clone()));
    let changed = lease.change(a, b).await.unwrap();
    assert!(changed.term > first.term && !lease.is_trusted(&changed));

    world.pass(30_000).await;
    let expired = lease.info().await.unwrap().unwrap();
    assert_eq!((expired.state, expired.holder), (LeaseState::Expired, None));
    assert_eq!(lease.renew(b).await.unwrap().term, changed.term, "untouched: the same term");

    let seen = lease.info().await.unwrap().unwrap().version;
    assert_eq!(lease.watch(seen, Duration::ZERO).await.unwrap(), None, "nothing changed");
    let watcher = tokio::spawn({
        let lease = lease.clone();
        async move { lease.watch(seen, secs(60)).await }
    });
    world.settle().await;
    assert_eq!(lease.break_(Some(secs(5))).await.unwrap(), secs(5));
    let breaking = watcher.await.unwrap().unwrap().expect("a change");
    assert_eq!(breaking.state, LeaseState::Breaking);
    assert_eq!(refusal(lease.renew(b).await), LeaseRefusal::Broken(name.clone()));
    lease.release(b).await.unwrap();
    assert_eq!(refusal(lease.change(b, a).await), LeaseRefusal::NotPresent(name));
    let infinite = lease.acquire(Ttl::Infinite).await.unwrap();
    world.pass(1_000).await;
    assert!(infinite.term > changed.term && lease.is_trusted(&infinite));
    assert_eq!(lease.break_(None).await.unwrap(), Duration::ZERO);
}
