//! Jobs: fanned out, worked off by whoever is there, gathered once (`docs/jobs.md`).

use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::job::{Ending, OnFailure, Which};
use bellwether_core::limits;
use bellwether_core::name::SequenceNumber;

use super::Fixture;
use super::support::{at_last, ms, next, nothing, refusal, short_locks, text};
use crate::error::Error;
use crate::handle::Bellwether;
use crate::job::{Job, Missing};
use crate::queue::Queue;

/// A job over `orders`.
pub(super) fn job(bellwether: &Bellwether) -> Job {
    bellwether.job("of today").unwrap().over("orders")
}

pub(super) fn items(count: u32) -> impl Iterator<Item = String> + Clone {
    (0..count).map(|index| format!("item {index}"))
}

/// Completes so many items, each with a result that names it.
pub(super) async fn work(queue: &Queue, count: usize) {
    for _ in 0..count {
        let delivery = next(queue).await;
        let result = format!("{} done", text(&delivery));
        assert!(delivery.complete_with(result).await.unwrap(), "the job took it");
    }
}

pub(super) fn results(count: u32) -> Vec<String> {
    items(count).map(|item| format!("{item} done")).collect()
}

/// J1, J4, J8: what comes of the items is read in their order, whatever order they are done in.
pub async fn results_come_in_the_order_of_the_items(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let job = job(&fixture.bellwether());
    let gathering = tokio::spawn({
        let job = job.clone();
        async move { job.map(items(5)).gather().await.unwrap() }
    });
    // The last one first.
    let mut deliveries = Vec::new();
    for _ in 0..5 {
        deliveries.push(at_last("an item", queue.receive().wait(ms(60_000)).one()).await.unwrap());
    }
    while let Some(delivery) = deliveries.pop().flatten() {
        assert_eq!(delivery.item().map(|(job, _)| job), Some("of today"));
        let result = format!("{} done", text(&delivery));
        assert!(delivery.complete_with(result).await.unwrap());
    }
    let gathered = at_last("the end", gathering).await.unwrap();
    assert_eq!(gathered.info.ended.map(|ended| ended.how), Some(Ending::Completed));
    assert_eq!(gathered.into_results().unwrap(), results(5));
}

/// J6, J20: whoever fans out again goes on where the one before was, and nothing is sent twice.
pub async fn a_fan_out_goes_on_where_it_was(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let first = job(&fixture.bellwether());
    first.create(None).await.unwrap();
    assert_eq!(first.dispatch(0, items(3)).await.unwrap(), 3);
    work(&queue, 2).await;
    let second = job(&fixture.bellwether().another_member().await.unwrap());
    let info = second.map(items(6)).dispatch().await.unwrap();
    assert_eq!((info.items, info.dispatched, info.done), (Some(6), 6, 2));
    // Also if it forgets how far the first one was.
    assert_eq!(second.dispatch(0, items(6)).await.unwrap(), 0);
    assert_eq!(queue.info().await.unwrap().totals.sent, 6);
    work(&queue, 4).await;
    assert_eq!(second.map(items(6)).gather().await.unwrap().into_results().unwrap(), results(6));
    nothing(&queue).await;
}

/// J9, J10: one gather message, in the step that ends the job.
pub async fn the_gather_message_comes_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let done = fixture.other_queue("done").await;
    let job = job(&fixture.bellwether()).gather_in("done", "all of it");
    job.map(items(2)).dispatch().await.unwrap();
    let (first, second) = (next(&queue).await, next(&queue).await);
    nothing(&done).await;
    let (one, other) = tokio::join!(first.complete(), second.complete());
    one.and(other).unwrap();
    let gather = next(&done).await;
    assert_eq!((text(&gather), gather.correlation_id.as_deref()), ("all of it", Some("of today")));
    gather.complete().await.unwrap();
    assert_eq!(done.info().await.unwrap().totals.sent, 1);
    let none = fixture.bellwether().job("of nothing").unwrap().over("orders");
    let empty = none.map(items(0)).gather().await.unwrap();
    assert_eq!(empty.into_results(), Ok(Vec::new()));
}

/// J11, J12, J13: a failed item is what the job says, and somebody may decide otherwise.
pub async fn a_failed_item_is_what_the_policy_says(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let of = |name: &str, policy| {
        let job = fixture.bellwether().job(name).unwrap();
        job.over("orders").on_failure(policy)
    };
    let fails = of("fails", OnFailure::Fail);
    fails.create(None).await.unwrap();
    assert_eq!(fails.dispatch(0, items(2)).await.unwrap(), 2);
    next(&queue).await.dead_letter("Bad", "no address").await.unwrap();
    let ended = fails.ended().await.unwrap();
    assert_eq!((ended.ended.unwrap().how, ended.failed), (Ending::Failed, 1));
    let gathered = fails.map(items(4)).gather().await.unwrap();
    assert!(matches!(gathered.into_results(), Err(Missing { index: 0, failure: Some(_) })));
    fixture.advance(ms(10)).await;
    // What was left of it is not worked on any more.
    nothing(&queue).await;
    let waits = of("waits", OnFailure::Wait);
    waits.map(items(2)).dispatch().await.unwrap();
    let delivery = next(&queue).await;
    assert!(delivery.complete_with("first").await.unwrap());
    next(&queue).await.dead_letter("Bad", "no address").await.unwrap();
    assert!(waits.show().await.unwrap().is_stuck());
    let failed = waits.items(0, 10, Which::Failed).await.unwrap();
    let letter = failed[0].info.message.as_ref().unwrap().sequence;
    assert_eq!(queue.redrive_some(None, [letter]).await.unwrap(), 1);
    let delivery = next(&queue).await;
    assert!(delivery.complete_with("second").await.unwrap());
    let gathered = waits.map(items(2)).gather().await.unwrap();
    assert_eq!(gathered.into_results().unwrap(), ["first", "second"]);
    let gaps = of("gaps", OnFailure::Gaps);
    gaps.map(items(2)).dispatch().await.unwrap();
    assert!(queue.remove([SequenceNumber(letter.0 + 2)]).await.unwrap() == 1);
    let delivery = next(&queue).await;
    assert!(delivery.complete_with("the other").await.unwrap());
    let gathered = gaps.map(items(2)).gather().await.unwrap();
    assert_eq!(gathered.info.ended.unwrap().how, Ending::Gaps);
    assert!(matches!(gathered.into_results(), Err(Missing { failure: Some(_), .. })));
}

/// J7: a leader that was deposed dispatches nothing, and cancels nothing.
pub async fn a_deposed_leader_dispatches_nothing(fixture: &Fixture) {
    fixture.queue().await;
    let bellwether = fixture.bellwether();
    let lease = bellwether.lease("planner").unwrap();
    let grant = lease.acquire(Duration::from_secs(30)).await.unwrap();
    let led = bellwether.with_fence(&lease.fence(&grant)).job("of today").unwrap().over("orders");
    led.create(None).await.unwrap();
    assert_eq!(led.dispatch(0, items(2)).await.unwrap(), 2);
    lease.release(grant.id).await.unwrap();
    let grant = lease.acquire(Duration::from_secs(30)).await.unwrap();
    let fenced = |result| assert!(matches!(refusal(result), Refusal::Fenced { .. }));
    fenced(led.dispatch(2, items(2)).await.map(drop));
    fenced(led.cancel().await);
    let next = bellwether.with_fence(&lease.fence(&grant)).job("of today").unwrap();
    assert_eq!(next.show().await.unwrap().dispatched, 2);
    assert_eq!(next.dispatch(0, items(4)).await.unwrap(), 2);
}

/// J14, J16: a result that comes too late counts for nothing.
pub async fn a_late_result_is_dropped(fixture: &Fixture) {
    let queue = fixture.queue_with(short_locks()).await;
    let job = job(&fixture.bellwether());
    job.create(None).await.unwrap();
    assert_eq!(job.dispatch(0, items(1)).await.unwrap(), 1);
    let late = next(&queue).await;
    fixture.advance(late.lock_duration()).await;
    let second = next(&queue).await;
    assert!(matches!(refusal(late.complete_with("late").await), Refusal::LockLost(_)));
    job.cancel().await.unwrap();
    assert!(!second.complete_with("for nobody").await.unwrap());
    assert_eq!(job.show().await.unwrap().done, 0);
    assert_eq!(refusal(job.dispatch(1, items(1)).await), Refusal::JobEnded(job.name().clone()));
    job.forget().await.unwrap();
    assert_eq!(refusal(job.show().await), Refusal::JobNotFound(job.name().clone()));
}

/// J19: a result has a limit, and what is too large does not settle anything.
pub async fn a_result_has_a_limit(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let job = job(&fixture.bellwether());
    job.map(items(1)).dispatch().await.unwrap();
    let bytes_max = limits::RESULT_BYTES_MAX as usize;
    let refused = refusal(next(&queue).await.complete_with(vec![7; bytes_max + 1]).await);
    assert!(matches!(refused, Refusal::TooLarge { .. }), "{refused:?}");
    fixture.settle().await;
    assert!(next(&queue).await.complete_with(vec![7; bytes_max]).await.unwrap());
    let gathered = job.map(items(1)).gather().await.unwrap();
    assert_eq!(gathered.into_results().unwrap()[0].len(), bytes_max);
}

/// J18: who waits for the end is told of it.
pub async fn waiting_for_the_end_is_answered_by_it(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let job = job(&fixture.bellwether());
    job.map(items(1)).dispatch().await.unwrap();
    let waiting = tokio::spawn({
        let job = job.clone();
        async move { job.ended().await }
    });
    work(&queue, 1).await;
    let ended = at_last("the end", waiting).await.unwrap().unwrap();
    assert_eq!(ended.ended.unwrap().how, Ending::Completed);
    let listed = fixture.bellwether().jobs().await.unwrap();
    assert_eq!(listed, [ended]);
}

/// J6, J8: a worker or planner that is dropped in the middle of asking leaves nothing half done.
pub async fn a_gather_may_be_dropped_and_called_again(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let bellwether = fixture.bellwether();
    for round in 0..6 {
        let gathering = tokio::spawn({
            let job = job(&bellwether);
            async move { job.map(items(3)).gather().await }
        });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        gathering.abort();
        assert!(gathering.await.is_err_and(|ended| ended.is_cancelled()), "nobody works yet");
    }
    let gathering = tokio::spawn({
        let job = job(&bellwether);
        async move { job.map(items(3)).gather().await }
    });
    let worked = async {
        for _ in 0..3 {
            let delivery = queue.receive().wait(ms(60_000)).one().await?.expect("an item");
            let result = format!("{} done", text(&delivery));
            assert!(delivery.complete_with(result).await?);
        }
        Ok::<_, Error>(())
    };
    at_last("the work", worked).await.unwrap();
    let gathered = at_last("the end", gathering).await.unwrap().unwrap();
    assert_eq!(gathered.into_results().unwrap(), results(3));
    assert_eq!(queue.info().await.unwrap().totals.sent, 3);
}
