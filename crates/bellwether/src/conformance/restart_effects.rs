//! Restarts in the middle of an effect: it happened once, or not at all.

use std::time::Duration;

use super::Fixture;
use super::support::{LOCK, next, nothing, taken, text};
use crate::message::Message;
use crate::once::Claimed;
use crate::result::ResultState;

/// D1, D20: who is killed before the commit has sent nothing and its input comes back; after it,
/// everything has happened, and asking again changes nothing.
pub async fn a_kill_keeps_all_of_it_or_nothing(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send_batch(["one", "two"]).await.unwrap();
    let transaction = fixture.bellwether().transaction();
    let before = transaction.complete(next(&input).await).send(&output, "never");
    let two = next(&input).await;
    fixture.bellwether().transaction().complete(two).send(&output, "bill").commit().await.unwrap();
    let opened = fixture.kill().await;
    // Its member died with the store: nothing it still says is heard.
    drop(before);
    let (input, output) = (opened.queue("orders").unwrap(), opened.queue("bills").unwrap());
    fixture.advance(LOCK).await;
    let again = next(&input).await;
    assert_eq!(text(&again), "one");
    again.complete().await.unwrap();
    nothing(&input).await;
    assert_eq!(taken(&output).await, "bill");
    nothing(&output).await;
}

/// D1: results are kept with what is in them, and those still awaited can be answered.
pub async fn results_are_kept(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.request(Message::new("a").id("done")).send().await.unwrap();
    queue.request(Message::new("b").id("open")).send().await.unwrap();
    next(&queue).await.reply(Message::new("x".repeat(100_000))).await.unwrap();
    for round in 0..2 {
        let opened = if round == 0 { fixture.restart().await } else { fixture.kill().await };
        let queue = opened.queue("orders").unwrap();
        let done = queue.result("done", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(done.message.unwrap().body().len(), 100_000, "round {round}");
        let open = queue.result("open", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(open.state, ResultState::Pending);
    }
    let queue = fixture.bellwether().queue("orders").unwrap();
    next(&queue).await.abandon().await.unwrap();
    assert_eq!(queue.purge(None).await.unwrap(), 1);
    let open = queue.result("open", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(open.state, ResultState::Gone, "whose message it is, is known after a restart");
}

/// D1: a claim survives with its token for a full lock, and so does what came of it.
pub async fn claims_are_kept(fixture: &Fixture) {
    let once = |key: &str| fixture.bellwether().once("payments", key).unwrap().lock(LOCK);
    let Claimed::Granted(done) = once("done").claim().await.unwrap() else { panic!() };
    done.finish("receipt").await.unwrap();
    let Claimed::Granted(held) = once("held").claim().await.unwrap() else { panic!() };
    let token = held.token();
    fixture.kill().await;
    match once("done").claim().await.unwrap() {
        Claimed::Done { outcome, .. } => assert_eq!(outcome, "receipt"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(once("held").claim().await.unwrap(), Claimed::InProgress { .. }));
    fixture.advance(LOCK).await;
    let Claimed::Granted(taken) = once("held").claim().await.unwrap() else { panic!() };
    assert!(taken.taken_over());
    assert_ne!(taken.token(), token, "tokens are never given out again");
}
