//! Ways into and out of a handler: values instead of bytes, layers around it, replies.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bellwether::message::Message;
use bellwether::pump::{BAD_BODY, Failure, Work, json, layered, served};
use bellwether::{Bellwether, Queue, QueueSettings, Verdict, VirtualClock};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Order {
    coffees: u32,
}

async fn store() -> (VirtualClock, Bellwether, Queue) {
    let clock = VirtualClock::new();
    let bw = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
    let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    (clock, bw, queue)
}

/// CC-82: what can never work is not tried again.
#[tokio::test]
async fn a_body_that_is_no_such_value_is_a_dead_letter_at_once() {
    let (_, _, queue) = store().await;
    queue.typed::<Order>().send(&Order { coffees: 2 }).await.unwrap();
    queue.send("{\"coffees\": 3}").await.unwrap();
    queue.send("{\"coffees\": \"many\"}").await.unwrap();
    queue.send(Message::new("{\"coffees\": 4}").content_type("text/plain")).await.unwrap();
    let vendor = Message::new("{\"coffees\": 5}").content_type("application/order+json; v=1");
    queue.send(vendor).await.unwrap();
    let sum = Arc::new(AtomicU32::new(0));
    let pump = queue.pump();
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let handler = json({
        let sum = Arc::clone(&sum);
        move |order: Order, work: Work| {
            assert_eq!(work.deliveries(), 1);
            sum.fetch_add(order.coffees, Ordering::SeqCst);
            async {}
        }
    });
    let run = tokio::spawn(pump.run(handler, shutdown.clone()));
    let counts = handle.wait_for(|counts| counts.completed + counts.dead_lettered == 5).await;
    shutdown.cancel();
    run.await.unwrap().unwrap();
    assert_eq!((counts.completed, counts.dead_lettered, counts.failed), (3, 2, 0));
    assert_eq!(sum.load(Ordering::SeqCst), 10);
    let dead = queue.dead_letters().receive().max(9).many().await.unwrap();
    let said = |at: usize| dead[at].received().dead_letter_description().unwrap().to_owned();
    assert!(dead.iter().all(|dead| dead.received().dead_letter_reason() == Some(BAD_BODY)));
    assert!(said(0).contains("invalid type: string \"many\""), "{}", said(0));
    assert!(said(1).contains("\"text/plain\", not application/json"), "{}", said(1));
}

/// Counts what passes, and how much of it failed.
#[derive(Clone, Default)]
struct Counting(Arc<(AtomicU32, AtomicU32)>);

#[derive(Clone)]
struct Counted<S>(Counting, S);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted(self.clone(), inner)
    }
}

type Future<T> = Pin<Box<dyn std::future::Future<Output = Result<T, Failure>> + Send>>;

impl<S> Service<Work> for Counted<S>
where
    S: Service<Work, Error = Failure, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = Future<S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.1.poll_ready(cx)
    }

    fn call(&mut self, work: Work) -> Self::Future {
        let (counts, called) = (self.0.clone(), self.1.call(work));
        Box::pin(async move {
            counts.0.0.fetch_add(1, Ordering::SeqCst);
            let result = called.await;
            counts.0.1.fetch_add(u32::from(result.is_err()), Ordering::SeqCst);
            result
        })
    }
}

/// Gives up what takes longer than a turn of the runtime.
#[derive(Clone)]
struct AtOnce;

#[derive(Clone)]
struct Hurried<S>(S);

impl<S> Layer<S> for AtOnce {
    type Service = Hurried<S>;

    fn layer(&self, inner: S) -> Hurried<S> {
        Hurried(inner)
    }
}

impl<S> Service<Work> for Hurried<S>
where
    S: Service<Work, Error = Failure, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = Future<S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, work: Work) -> Self::Future {
        let called = self.0.call(work);
        Box::pin(async move {
            tokio::select! {
                biased;
                result = called => result,
                () = tokio::task::yield_now() => Err("it took too long".into()),
            }
        })
    }
}

#[tokio::test]
async fn layers_see_every_message_and_an_error_of_theirs_is_its_failure() {
    let (_, _, queue) = store().await;
    queue.send_batch(["quick", "hangs", "fails"]).await.unwrap();
    let counting = Counting::default();
    let handler = |work: Work| async move {
        match work.text() {
            Some("hangs") => std::future::pending().await,
            Some("fails") => Err("no milk"),
            _ => Ok(()),
        }
    };
    let layers = tower::ServiceBuilder::new().layer(counting.clone()).layer(AtOnce);
    let pump = queue.pump();
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let run = tokio::spawn(pump.run(layered(layers, handler), shutdown.clone()));
    let counts = handle.wait_for(|counts| counts.completed + counts.abandoned == 3).await;
    assert_eq!((counts.completed, counts.failed), (1, 2), "the one that hangs was given up");
    let seen = (counting.0.0.load(Ordering::SeqCst), counting.0.1.load(Ordering::SeqCst));
    assert_eq!(seen, (3, 2));
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_service_is_a_handler() {
    let (_, _, queue) = store().await;
    queue.send("one").await.unwrap();
    let service = tower::service_fn(|work: Work| async move {
        let bad = Verdict::dead_letter("Bad", work.text().unwrap_or_default());
        Ok::<_, Failure>(bad)
    });
    let pump = queue.pump();
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let run = tokio::spawn(pump.run(served(service), shutdown.clone()));
    handle.wait_for(|counts| counts.dead_lettered == 1).await;
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

/// CC-110, CC-111.
#[tokio::test]
async fn a_reply_goes_to_its_asker_and_the_request_is_done() {
    let (_, bw, queue) = store().await;
    let sessions = QueueSettings { sessions: true, ..QueueSettings::default() };
    let replies = bw.create_queue("replies", sessions).await.unwrap();
    let question = |id: &str| Message::new("6 x 7").id(id).reply_to("replies");
    queue.send(question("q1").reply_to_session("asker-4")).await.unwrap();
    queue.send("nobody asks").await.unwrap();
    queue.send(Message::new("x").reply_to("no such/queue name!\u{1}")).await.unwrap();
    let pump = queue.pump();
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let handler = |_: Work| async { Verdict::reply("42") };
    let run = tokio::spawn(pump.run(handler, shutdown.clone()));
    let counts = handle.wait_for(|counts| counts.handled == 3 && counts.settling == 0).await;
    assert_eq!((counts.completed, counts.dead_lettered), (2, 1), "{counts:?}");
    shutdown.cancel();
    run.await.unwrap().unwrap();
    let session = replies.accept_session().named("asker-4").await.unwrap();
    let reply = session.receive().one().await.unwrap().unwrap();
    assert_eq!((reply.text(), reply.correlation_id.as_deref()), (Some("42"), Some("q1")));
    assert_eq!(replies.info().await.unwrap().totals.sent, 1, "who asks for none gets none");
    let dead = queue.dead_letters().receive().one().await.unwrap().unwrap();
    assert_eq!(dead.received().dead_letter_reason(), Some("BadReplyTo"));
}

/// Whoever dies between the reply and the end of its request answers again; a reply queue that knows
/// duplicates keeps one.
#[tokio::test]
async fn a_second_reply_to_the_same_request_is_known_as_one() {
    let (clock, bw, queue) = store().await;
    let knows = QueueSettings { duplicate_window_ms: Some(3_600_000), ..QueueSettings::default() };
    let replies = bw.create_queue("replies", knows).await.unwrap();
    queue.send(Message::new("6 x 7").id("q1").reply_to("replies")).await.unwrap();
    let pump = queue.pump();
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let handler = |work: Work| async move {
        if work.deliveries() == 1 {
            // Its lock is lost before it answers, and it answers all the same.
            work.cancellation().cancelled().await;
        }
        Verdict::reply("42")
    };
    let run = tokio::spawn(pump.run(handler, shutdown.clone()));
    handle.wait_for(|counts| counts.running == 1).await;
    clock.advance(Duration::from_secs(3_000));
    handle.wait_for(|counts| counts.completed == 1).await;
    shutdown.cancel();
    run.await.unwrap().unwrap();
    let totals = replies.info().await.unwrap().totals;
    assert_eq!((totals.sent, totals.duplicates), (1, 1));
}
