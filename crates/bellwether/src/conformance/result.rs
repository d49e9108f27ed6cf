//! Results, and requests that wait for one.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::name::SequenceNumber;
use bellwether_core::note::Report;
use bellwether_core::settings::QueueSettings;

use super::Fixture;
use super::support::{LOCK, at_last, next, nothing, refusal, short_locks, text};
use crate::message::Message;
use crate::queue::Queue;
use crate::result::{RequestError, ResultState};

const LONG: Duration = Duration::from_secs(3_600);

async fn state(queue: &Queue, id: &str) -> Option<ResultState> {
    queue.result(id, Duration::ZERO).await.unwrap().map(|result| result.state)
}

/// D21: an answer reaches whoever asked, whole, and its request is gone in the same step.
pub async fn an_answer_reaches_whoever_asked(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let asked = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.request("6 times 7").timeout(LONG).await })
    };
    let work = next(&queue).await;
    assert_eq!(text(&work), "6 times 7");
    let answer = Message::new("42").content_type("text/plain").property("exact", true);
    work.reply(answer.clone()).await.unwrap();
    let reply = at_last("the answer", asked).await.unwrap().unwrap();
    assert_eq!(reply, answer);
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
    nothing(&queue).await;
}

/// D21: from pending over running to done; who asks later is told as well, until it is forgotten.
pub async fn a_result_tells_how_far_it_is(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let id = queue.request("work").keep(LOCK).send().await.unwrap();
    assert_eq!(state(&queue, &id).await, Some(ResultState::Pending));
    let work = next(&queue).await;
    assert_eq!(work.id.as_deref(), Some(&id[..]));
    work.progress(None).await.unwrap();
    assert_eq!(state(&queue, &id).await, Some(ResultState::Running { percent: None }));
    work.progress(Some(40)).await.unwrap();
    assert_eq!(state(&queue, &id).await, Some(ResultState::Running { percent: Some(40) }));
    work.reply("done").await.unwrap();
    let result = queue.result(&id, LONG).await.unwrap().unwrap();
    assert_eq!(result.state, ResultState::Succeeded);
    assert_eq!(result.message.unwrap().text(), Some("done"));
    assert!(result.created_at <= result.updated_at && result.updated_at < result.expires_at);
    fixture.advance(LOCK).await;
    assert_eq!(state(&queue, &id).await, None, "it is forgotten");
}

/// A failure is an answer, too.
pub async fn a_failure_is_told(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let id = queue.request("work").send().await.unwrap();
    next(&queue).await.reply_failure("no such account").await.unwrap();
    assert_eq!(state(&queue, &id).await, Some(ResultState::Failed));
    // The same request again asks nothing again.
    let again = queue.request(Message::new("work").id(id)).await;
    match again {
        Err(RequestError::Failed { why, .. }) => assert_eq!(why.text(), Some("no such account")),
        other => panic!("{other:?}"),
    }
    nothing(&queue).await;
}

/// D21: the requester's time is its own: it hears that nobody answered, and a late answer is kept.
pub async fn a_late_answer_is_kept(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let mut asked = {
        let queue = queue.clone();
        let request = queue.request(Message::new("work").id("r1")).timeout(LOCK / 2);
        tokio::spawn(request.into_future())
    };
    while queue.info().await.unwrap().counts.ready == 0 {
        tokio::task::yield_now().await;
    }
    // Whenever it began to wait, it has waited by then. It gets its turns in between: what is kept for
    // the answer is not kept for ever.
    let late = loop {
        fixture.advance(LOCK / 2).await;
        if let Ok(late) = tokio::time::timeout(Duration::from_millis(50), &mut asked).await {
            break late.unwrap();
        }
    };
    assert!(matches!(late, Err(RequestError::TimedOut { ref id, .. }) if id == "r1"), "{late:?}");
    next(&queue).await.reply("late").await.unwrap();
    let result = queue.result("r1", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(result.message.unwrap().text(), Some("late"));
}

/// A request whose message leaves without an answer is over: nobody waits for what cannot come.
pub async fn a_request_that_leaves_is_over(fixture: &Fixture) {
    let settings = QueueSettings { deliveries_max: 1, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let asked = |id: &'static str| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.request(Message::new("work").id(id)).timeout(LONG).await })
    };
    let dead = asked("dead");
    next(&queue).await.abandon().await.unwrap();
    let answer = at_last("the end of the dead one", dead).await.unwrap();
    assert!(matches!(answer, Err(RequestError::Gone { .. })), "{answer:?}");
    let purged = asked("purged");
    while queue.info().await.unwrap().counts.ready == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.purge(None).await.unwrap(), 1);
    let answer = at_last("the end of the purged one", purged).await.unwrap();
    assert!(matches!(answer, Err(RequestError::Gone { .. })), "{answer:?}");
    let silent = asked("silent");
    next(&queue).await.complete().await.unwrap();
    let answer = at_last("the end of the silent one", silent).await.unwrap().unwrap();
    assert_eq!(answer, Message::default(), "completed: it succeeded, with nothing to tell");
    // A dead letter that is sent again may still be answered.
    assert_eq!(queue.redrive(None, 1).await.unwrap(), 1);
    next(&queue).await.reply("at last").await.unwrap();
    assert_eq!(state(&queue, "dead").await, Some(ResultState::Succeeded));
}

/// D21: completion is decided once: the first final result stays.
pub async fn the_first_final_result_stays(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.request(Message::new("work").id("r1")).send().await.unwrap();
    queue.send(Message::new("the same work").id("r1")).await.unwrap();
    next(&queue).await.reply("first").await.unwrap();
    next(&queue).await.reply("second").await.unwrap();
    nothing(&queue).await;
    let result = queue.result("r1", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(result.message.unwrap().text(), Some("first"));
}

/// D5: who lost the lock has no say in the result either.
pub async fn a_lost_lock_writes_no_result(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.request(Message::new("work").id("r1")).send().await.unwrap();
    let slow = next(&queue).await;
    fixture.advance(LOCK).await;
    let quick = next(&queue).await;
    assert!(matches!(refusal(slow.reply("slow").await), Refusal::Step(_)));
    assert_eq!(state(&queue, "r1").await, Some(ResultState::Pending));
    quick.reply("quick").await.unwrap();
    let result = queue.result("r1", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(result.message.unwrap().text(), Some("quick"));
}

/// What nobody asked for is not kept, unless it is said for how long.
pub async fn what_nobody_asked_for_is_not_kept(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send(Message::new("work").id("m1")).await.unwrap();
    next(&queue).await.reply("who asked?").await.unwrap();
    assert_eq!(state(&queue, "m1").await, None);
    let report = |keep| {
        let transaction = fixture.bellwether().transaction();
        transaction.report(&queue, "m1", Report::Succeeded, Some("part 1".into()), keep).commit()
    };
    report(Some(LONG)).await.unwrap();
    let result = queue.result("m1", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(result.message.unwrap().text(), Some("part 1"));
    let zero = refusal(
        fixture
            .bellwether()
            .transaction()
            .report(&queue, "m2", Report::Succeeded, None, Some(Duration::ZERO))
            .commit()
            .await,
    );
    assert!(matches!(zero, Refusal::Step(_)), "{zero:?}");
}

/// D21: a request that names a queue and a session for answers finds them there, with its
/// id as the correlation id.
pub async fn an_answer_goes_where_the_request_says(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let settings = QueueSettings { sessions: true, ..short_locks() };
    let answers = fixture.bellwether().create_queue("answers", settings).await.unwrap();
    let request = Message::new("work").id("r1").reply_to("answers").reply_to_session("mine");
    queue.send(request).await.unwrap();
    next(&queue).await.reply("done").await.unwrap();
    let session = answers.accept_session().named("mine").await.unwrap();
    let answer = session.receive().one().await.unwrap().unwrap();
    assert_eq!((text(&answer), answer.correlation_id.as_deref()), ("done", Some("r1")));
    // Where there is no such queue the request is not completed either.
    queue.send(Message::new("work").id("r2").reply_to("missing")).await.unwrap();
    let refused = refusal(next(&queue).await.reply("done").await);
    assert!(matches!(refused, Refusal::Step(_)), "{refused:?}");
    assert_eq!(next(&queue).await.sequence(), SequenceNumber(2));
}

/// D21: answers to a shared queue find who asked, by session and correlation id; those that
/// nobody waits for become dead letters.
pub async fn answers_of_their_own_find_who_asked(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let settings = QueueSettings { sessions: true, ..short_locks() };
    let answers = fixture.bellwether().create_queue("answers", settings).await.unwrap();
    let replies = Arc::new(fixture.bellwether().replies("answers").await.unwrap());
    let ask = |id: &'static str, timeout| {
        let (replies, queue) = (Arc::clone(&replies), queue.clone());
        tokio::spawn(
            async move { replies.request(&queue, Message::new("work").id(id), timeout).await },
        )
    };
    let asked = ask("r1", LONG);
    next(&queue).await.reply("done").await.unwrap();
    let answer = at_last("the answer", asked).await.unwrap().unwrap();
    assert_eq!((answer.text(), answer.correlation_id.as_deref()), (Some("done"), Some("r1")));
    let late = ask("r2", LOCK / 4);
    let work = next(&queue).await;
    while !late.is_finished() {
        fixture.advance(LOCK / 8).await;
        tokio::task::yield_now().await;
    }
    let late = late.await.unwrap();
    assert!(matches!(late, Err(RequestError::TimedOut { ref id, .. }) if id == "r2"), "{late:?}");
    let session = replies.session().to_owned();
    drop(work);
    let stray = Message::new("late").correlation_id("r2").session(session);
    answers.send(stray).await.unwrap();
    let dead = next(&answers.dead_letters()).await;
    assert_eq!(dead.received().dead_letter_reason(), Some("NoPendingRequest"));
    dead.complete().await.unwrap();
    Arc::into_inner(replies).expect("nobody asks any more").close().await;
}
