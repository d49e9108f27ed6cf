//! Jobs over the death of everybody who has to do with them.

use super::Fixture;
use super::job::{items, job, results, work};
use super::support::next;
use crate::handle::Bellwether;
use crate::queue::Queue;

/// J20, and all of it together: whoever plans is killed with the store before it has dispatched,
/// half way, when all is dispatched, with half of the results in, and when it has gathered and nobody
/// heard of it. Whoever comes next calls the same, and nothing is lost or doubled.
pub async fn a_planner_may_die_at_every_step(fixture: &Fixture) {
    let queue = fixture.queue().await;
    fixture.other_queue("done").await;
    let planned = |bellwether: &Bellwether| job(bellwether).gather_in("done", "all of it");
    let of = |bellwether: &Bellwether| bellwether.queue("orders").unwrap();
    drop(queue);
    // Before it has dispatched.
    planned(&fixture.bellwether()).create(None).await.unwrap();
    let bellwether = fixture.kill().await;
    // Half way: of two dispatches one was answered.
    assert_eq!(planned(&bellwether).dispatch(0, items(4)).await.unwrap(), 4);
    let bellwether = fixture.kill().await;
    work(&of(&bellwether), 1).await;
    // All is dispatched.
    let info = planned(&bellwether).map(items(8)).dispatch().await.unwrap();
    assert_eq!((info.dispatched, info.done), (8, 1));
    let bellwether = fixture.kill().await;
    // Half of the results are in, and workers go on while nobody plans.
    work(&of(&bellwether), 3).await;
    let bellwether = fixture.kill().await;
    assert_eq!(planned(&bellwether).show().await.unwrap().done, 4);
    work(&of(&bellwether), 4).await;
    let gathered = planned(&bellwether).map(items(8)).gather().await.unwrap();
    assert_eq!(gathered.into_results().unwrap(), results(8));
    // Gathered, and nobody heard of it.
    let bellwether = fixture.kill().await;
    let gathered = planned(&bellwether).map(items(8)).gather().await.unwrap();
    assert_eq!(gathered.into_results().unwrap(), results(8));
    let totals = |queue: Queue| async move { queue.info().await.unwrap().totals };
    let orders = totals(of(&bellwether)).await;
    assert_eq!((orders.sent, orders.completed), (8, 8));
    let done = bellwether.queue("done").unwrap();
    assert_eq!(totals(done.clone()).await.sent, 1);
    next(&done).await.complete().await.unwrap();
}
