//! Fences: what a deposed leader asks of a queue is refused, however late it comes.

use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::name::{RequestNumber, Term};
use bellwether_core::outcome::Outcome;
use tokio_util::sync::CancellationToken;

use super::Fixture;
use super::support::{
    Caller, at_last, bound, lease_name, ms, next, nothing, refusal, short_locks, standing, text,
};
use crate::pump::Work;
use crate::queue::{Queue, prepare};

const TTL_MS: u64 = 2_000;
/// When a bound lease that was not renewed is over: 105 % of its ttl.
const OVER_MS: u64 = 2_100;
const LEASE: &str = "leader";

fn fence(term: Term) -> Fence {
    Fence { election: lease_name(LEASE), term }
}

fn fenced(term: Term, newest: Term) -> Refusal {
    Refusal::Fenced { election: lease_name(LEASE), term, newest: Some(newest) }
}

/// A member that leads, its term, and the queue as it uses it.
async fn leader(fixture: &Fixture) -> (Caller, Term, Queue) {
    let queue = fixture.queue().await;
    let leader = Caller::of(&fixture.bellwether());
    let term = leader.acquire(standing(LEASE, 1, 3_600_000)).await.unwrap();
    (leader, term, queue.with_fence(&fence(term)))
}

/// Somebody else leads from now on.
async fn depose(leader: &Caller) -> Term {
    leader.release(LEASE, 1).await.unwrap();
    let other = Caller::of(&leader.bellwether.another_member().await.unwrap());
    other.acquire(standing(LEASE, 2, 3_600_000)).await.unwrap()
}

/// While a term is held everything goes as without a fence, for whoever shows it.
pub async fn a_term_that_is_held_counts(fixture: &Fixture) {
    let (_leader, term, queue) = leader(fixture).await;
    queue.send("one").await.unwrap();
    queue.send_batch(["two", "three"]).await.unwrap();
    next(&queue).await.complete().await.unwrap();
    let sequence = next(&queue).await.defer().await.unwrap();
    let deferred = queue.receive_deferred([sequence]).await.unwrap().remove(0);
    deferred.dead_letter("no", "not now").await.unwrap();
    assert_eq!(queue.redrive(None, 10).await.unwrap(), 1);
    let worker = fixture.bellwether().another_member().await.unwrap().with_fence(&fence(term));
    assert_eq!(worker.queue("orders").unwrap().purge(None).await.unwrap(), 2);
    worker.create_queue("more", short_locks()).await.unwrap().delete().await.unwrap();
}

/// E6: a deposed leader's late send is refused, alone and in a batch, and nothing of it is there.
pub async fn a_deposed_leader_sends_nothing(fixture: &Fixture) {
    let (leader, term, queue) = leader(fixture).await;
    queue.send("in time").await.unwrap();
    let newest = depose(&leader).await;
    assert_eq!(refusal(queue.send("late").await), fenced(term, newest));
    assert_eq!(refusal(queue.send_batch(["late", "later"]).await), fenced(term, newest));
    let successor = queue.with_fence(&fence(newest));
    successor.send("by the successor").await.unwrap();
    for wanted in ["in time", "by the successor"] {
        let delivery = next(&successor).await;
        assert_eq!(text(&delivery), wanted);
        delivery.complete().await.unwrap();
    }
    nothing(&successor).await;
}

/// E6: a deposed leader's late settlement is refused in each of its four ways, although its lock
/// still holds; the message is still there.
pub async fn a_deposed_leader_settles_nothing(fixture: &Fixture) {
    let (leader, term, queue) = leader(fixture).await;
    queue.send_batch(["a", "b", "c", "d"]).await.unwrap();
    let mut held = queue.receive().max(4).many().await.unwrap().into_iter();
    let mut one = || held.next().unwrap();
    let newest = depose(&leader).await;
    let late = fenced(term, newest);
    assert_eq!(refusal(one().complete().await), late);
    assert_eq!(refusal(one().abandon().await), late);
    assert_eq!(refusal(one().defer().await), late);
    assert_eq!(refusal(one().dead_letter("late", "").await), late);
    let counts = queue.with_fence(&fence(newest)).info().await.unwrap().counts;
    assert_eq!((counts.locked, counts.dead_letters, counts.deferred), (4, 0, 0));
}

/// A term that nobody renewed is over after 105 % of its ttl, though nobody else was granted one.
pub async fn a_term_that_has_run_out_does_not_count(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let leader = Caller::of(&fixture.bellwether());
    let term = leader.acquire(bound(LEASE, 1, TTL_MS)).await.unwrap();
    let queue = queue.with_fence(&fence(term));
    queue.send("in time").await.unwrap();
    fixture.advance(ms(OVER_MS)).await;
    assert_eq!(refusal(queue.send("late").await), fenced(term, term));
}

/// Neither a term from the future nor one of an election that nobody ever led counts.
pub async fn a_term_that_was_never_granted_does_not_count(fixture: &Fixture) {
    let (_leader, term, queue) = leader(fixture).await;
    let future = Term(term.0 + 1);
    let refused = refusal(queue.with_fence(&fence(future)).send("x").await);
    assert_eq!(refused, fenced(future, term));
    let unknown = Fence { election: lease_name("unknown"), term };
    let refused = refusal(queue.with_fence(&unknown).send("x").await);
    assert_eq!(refused, Refusal::Fenced { election: unknown.election, term, newest: None });
    assert_eq!(queue.info().await.unwrap().counts.ready, 0);
}

/// A receive that waits ends when the term does.
pub async fn who_waits_under_a_term_hears_of_its_end(fixture: &Fixture) {
    let (leader, term, queue) = leader(fixture).await;
    let wait = tokio::spawn(queue.receive().wait(ms(3_600_000)).one());
    leader.release(LEASE, 1).await.unwrap();
    let answer = at_last("the end of the term", wait).await.unwrap();
    assert_eq!(refusal(answer), fenced(term, term));
}

/// D5: asked again under its number, what was done under a term is told again, whatever became of
/// the term.
pub async fn what_was_done_under_a_term_is_told_again_after_it(fixture: &Fixture) {
    let (leader, term, queue) = leader(fixture).await;
    let member = Caller::join(fixture, 7, ms(60_000)).await;
    let (message, content) = prepare(&"once".into()).unwrap();
    let messages = vec![message].into();
    let command = Command::Send { queue: queue.name().clone(), messages };
    let ask = |number| {
        let request = Request {
            member: member.slot,
            number: RequestNumber(number),
            answered_below: RequestNumber(0),
            command: command.clone(),
            fence: Some(fence(term)),
        };
        let contents = vec![content.clone()];
        async { member.bellwether.call(request, contents).await.map(|reply| reply.outcome) }
    };
    let first = ask(1).await.unwrap();
    assert!(matches!(first, Outcome::Sent(_)));
    let newest = depose(&leader).await;
    assert_eq!(ask(1).await.unwrap(), first);
    assert_eq!(refusal(ask(2).await), fenced(term, newest));
    let counts = queue.with_fence(&fence(newest)).info().await.unwrap().counts;
    assert_eq!(counts.ready, 1);
}

/// A pump carries the fence of its queue, and ends with the term.
pub async fn a_pump_ends_with_the_term_it_works_under(fixture: &Fixture) {
    let (leader, term, queue) = leader(fixture).await;
    queue.send("while it leads").await.unwrap();
    let handler = |work: Work| async move { drop(work) };
    let pump = queue.pump();
    let handle = pump.handle();
    let run = tokio::spawn(pump.run(handler, CancellationToken::new()));
    at_last("the first message", async {
        while handle.counts().completed == 0 {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    let newest = depose(&leader).await;
    let successor = queue.with_fence(&fence(newest));
    successor.send("for the successor").await.unwrap();
    let ended = at_last("the end of the pump", run).await.unwrap();
    assert!(matches!(refusal(ended), Refusal::Fenced { term: shown, .. } if shown == term));
    assert_eq!(text(&next(&successor).await), "for the successor");
}
