//! The pump, on a store in memory and a clock that the tests move: nothing here waits for time.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "pump/scaled.rs"]
mod scaled;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::pump::{IntoVerdict, Pump, PumpCounts, PumpHandle, PumpState, Source, Why};
use bellwether::{Bellwether, Error, Queue, QueueSettings, Verdict, VirtualClock, Work};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LOCK: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_hours(1);

struct World {
    clock: VirtualClock,
    bw: Bellwether,
    queue: Queue,
}

async fn world() -> World {
    let clock = VirtualClock::new();
    let bw = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
    let settings = QueueSettings { lock_ms: LOCK.as_millis() as u32, ..QueueSettings::default() };
    let queue = bw.create_queue("orders", settings).await.unwrap();
    World { clock, bw, queue }
}

struct Running {
    handle: PumpHandle,
    shutdown: CancellationToken,
    run: JoinHandle<Result<(), Error>>,
}

fn start<F>(pump: Pump, handler: impl Fn(Work) -> F + Send + Sync + 'static) -> Running
where
    F: Future<Output: IntoVerdict> + Send + 'static,
{
    let (handle, shutdown) = (pump.handle(), CancellationToken::new());
    let run = tokio::spawn(pump.run(handler, shutdown.clone()));
    Running { handle, shutdown, run }
}

impl Running {
    async fn until(&self, condition: impl FnMut(&PumpCounts) -> bool) -> PumpCounts {
        let counts = self.handle.wait_for(condition).await;
        assert_ne!(counts.state, PumpState::Stopped, "the pump ended before: {counts:?}");
        counts
    }

    async fn stop(self) -> PumpCounts {
        self.shutdown.cancel();
        self.run.await.unwrap().unwrap();
        self.handle.counts()
    }
}

/// Handlers wait here until the test lets them go on.
fn gate() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

async fn pass(gate: &Semaphore) {
    gate.acquire().await.unwrap().forget();
}

/// A handler that shares something with its test.
fn with<T, F, H>(shared: &Arc<T>, handler: H) -> impl Fn(Work) -> F + use<T, F, H>
where
    H: Fn(Arc<T>, Work) -> F,
{
    let shared = Arc::clone(shared);
    move |work| handler(Arc::clone(&shared), work)
}

async fn held(gate: Arc<Semaphore>, _work: Work) {
    pass(&gate).await;
}

type Told = Arc<Mutex<Vec<(Source, Why, String)>>>;

/// The pump, and what its error callback is told.
fn told(pump: Pump) -> (Pump, Told) {
    let told = Told::default();
    let pump = pump.on_error({
        let told = Arc::clone(&told);
        move |error| told.lock().unwrap().push((error.source, error.why, error.to_string()))
    });
    (pump, told)
}

#[tokio::test]
async fn no_more_handlers_than_allowed_and_nothing_is_locked_for_a_busy_one() {
    let World { queue, .. } = world().await;
    queue.send_batch((0..100).map(|i| i.to_string())).await.unwrap();
    let shared = Arc::new((Semaphore::new(0), AtomicUsize::new(0), AtomicUsize::new(0)));
    let handler = with(&shared, |shared, _| async move {
        let (gate, now, most) = &*shared;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pass(gate).await;
        now.fetch_sub(1, Ordering::SeqCst);
    });
    let pump = start(queue.pump().concurrency(4), handler);
    pump.until(|counts| counts.running == 4).await;
    assert_eq!(queue.info().await.unwrap().counts.locked, 4);
    shared.0.add_permits(100);
    pump.until(|counts| counts.completed == 100).await;

    assert_eq!(shared.2.load(Ordering::SeqCst), 4);
    assert!(pump.stop().await.is_quiet());
    assert_eq!(queue.info().await.unwrap().totals.completed, 100);
}

#[tokio::test]
async fn every_verdict_has_its_end() {
    let World { clock, queue, .. } = world().await;
    let words = ["complete", "retry", "later", "bad", "defer", "release", "fail"];
    queue.send_batch(words).await.unwrap();
    let handler = |mut work: Work| async move {
        let first = work.deliveries() == 1 && work.received().view().message.standing.releases == 0;
        let word = work.text().ok_or("no text")?.to_owned();
        work.set_property("seen", word.as_str());
        match word.as_str() {
            _ if !first => Ok(Verdict::Complete),
            "retry" => Ok(Verdict::Retry(None)),
            "later" => Ok(Verdict::Retry(Some(HOUR))),
            "bad" => Ok(Verdict::dead_letter("Unknown order", "there is no such drink")),
            "defer" => Ok(Verdict::Defer),
            "release" => Ok(Verdict::Release),
            "fail" => Err("no milk"),
            _ => Ok(Verdict::Complete),
        }
    };
    let pump = start(queue.pump().concurrency(3), handler);

    let counts = pump.until(|counts| counts.handled == 8 && counts.settling == 0).await;
    assert_eq!((counts.completed, counts.abandoned, counts.released), (2, 3, 1));
    assert_eq!((counts.deferred, counts.dead_lettered, counts.failed), (1, 1, 1));
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.scheduled, info.counts.deferred, info.counts.ready), (3, 1, 0));

    let dead = queue.dead_letters().receive().one().await.unwrap().unwrap();
    assert_eq!(dead.received().dead_letter_reason(), Some("Unknown order"));
    assert_eq!(dead.received().dead_letter_description(), Some("there is no such drink"));
    assert_eq!(dead.properties["seen"], "bad".into(), "changes travel with the verdict");

    clock.advance(Duration::from_secs(1));
    pump.until(|counts| counts.completed == 4).await;
    clock.advance(HOUR);
    pump.until(|counts| counts.completed == 5).await;
    pump.stop().await;
}

#[tokio::test]
async fn a_panic_is_one_messages_failure_and_the_others_go_on() {
    let World { queue, .. } = world().await;
    queue.send_batch(["one", "bomb", "two"]).await.unwrap();
    let (pump, told) = told(queue.pump());
    let pump = start(pump, |work: Work| async move {
        assert_ne!(work.text(), Some("bomb"), "it went off");
    });

    let counts = pump.until(|counts| counts.handled == 3 && counts.settling == 0).await;
    assert_eq!((counts.failed, counts.completed, counts.abandoned), (1, 2, 1));
    assert!(told.lock().unwrap()[0].2.contains("it went off"), "{told:?}");
    let view = queue.peek(bellwether::SequenceNumber(0), 1).await.unwrap().remove(0);
    assert_eq!(view.view().message.standing.failures, 1);
    pump.stop().await;
}

#[tokio::test]
async fn the_lock_of_a_long_handler_is_kept() {
    let World { clock, queue, .. } = world().await;
    queue.send("slow").await.unwrap();
    let gate = gate();
    let pump = start(queue.pump(), with(&gate, held));
    pump.until(|counts| counts.running == 1).await;
    for renewals in 1..=8 {
        clock.advance(LOCK * 2 / 5);
        pump.until(|counts| counts.renewed == renewals).await;
    }
    gate.add_permits(1);
    let counts = pump.until(|counts| counts.completed == 1).await;

    assert_eq!(counts.lost, 0);
    assert_eq!(pump.stop().await.handled, 1, "delivered once");
}

#[tokio::test]
async fn a_lost_lock_fires_the_token_and_settles_nothing() {
    let World { clock, queue, .. } = world().await;
    queue.send("slow").await.unwrap();
    let gate = gate();
    let (pump, told) = told(queue.pump());
    let handler = with(&gate, |gate, work| async move {
        if work.deliveries() == 1 {
            work.cancellation().cancelled().await;
            pass(&gate).await;
        }
    });
    let pump = start(pump, handler);

    pump.until(|counts| counts.running == 1).await;
    clock.advance(LOCK);
    pump.until(|counts| counts.lost == 1).await;
    let view = queue.peek(bellwether::SequenceNumber(0), 1).await.unwrap().remove(0);
    assert_eq!(view.view().message.standing.crashes, 1, "it is for others to have");
    gate.add_permits(1);
    let counts = pump.until(|counts| counts.completed == 1).await;

    assert_eq!((counts.handled, counts.abandoned, counts.released), (2, 0, 0));
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
    pump.stop().await;
    let told = told.lock().unwrap();
    assert!(matches!(told[..], [(Source::Renew, Why::GivenUp, _)]), "{told:?}");
}

#[tokio::test]
async fn a_paused_pump_holds_nothing_and_goes_on_when_resumed() {
    let World { clock, queue, .. } = world().await;
    let pump = queue.pump().prefetch(10);
    let handle = pump.handle();
    handle.pause();
    queue.send("before").await.unwrap();
    let gate = gate();
    let pump = start(pump, with(&gate, held));
    pump.until(|counts| counts.state == PumpState::Paused).await;
    assert_eq!(queue.info().await.unwrap().counts.ready, 1, "paused from the start");

    handle.resume();
    queue.send_batch(["one", "two", "three"]).await.unwrap();
    pump.until(|counts| counts.running == 1 && counts.waiting == 3).await;
    handle.pause();
    pump.until(|counts| counts.released == 3 && counts.running == 1).await;
    gate.add_permits(1);
    pump.until(PumpCounts::is_quiet).await;
    clock.advance(HOUR);
    let counts = queue.info().await.unwrap().counts;
    assert_eq!((counts.ready, counts.locked), (3, 0));
    let seen = queue.peek(bellwether::SequenceNumber(0), 9).await.unwrap();
    assert!(seen.iter().all(|seen| seen.deliveries() == 0), "no delivery count has risen");

    handle.resume();
    gate.add_permits(3);
    pump.until(|counts| counts.completed == 4).await;
    pump.stop().await;
}

#[tokio::test]
async fn a_stop_lets_handlers_end_and_settles_them() {
    let World { queue, .. } = world().await;
    queue.send_batch((0..20).map(|i| i.to_string())).await.unwrap();
    let gate = gate();
    let pump = start(queue.pump().concurrency(10), with(&gate, held));
    pump.until(|counts| counts.running == 10).await;
    pump.handle.stop();
    pump.until(|counts| counts.state == PumpState::Stopping).await;
    assert!(!pump.run.is_finished(), "what runs may end");
    gate.add_permits(10);
    let counts = pump.stop().await;

    assert_eq!((counts.completed, counts.state), (10, PumpState::Stopped));
    let info = queue.info().await.unwrap();
    assert_eq!((info.counts.ready, info.counts.locked, info.totals.completed), (10, 0, 10));
}

#[tokio::test]
async fn when_the_grace_is_over_handlers_are_told_and_the_rest_is_given_back() {
    let World { clock, queue, .. } = world().await;
    queue.send("slow").await.unwrap();
    let pump = queue.pump().stop_grace(Duration::from_secs(3));
    let pump = start(pump, |work: Work| async move {
        work.cancellation().cancelled().await;
        Err::<(), _>("interrupted")
    });

    pump.until(|counts| counts.running == 1).await;
    pump.handle.stop();
    pump.until(|counts| counts.state == PumpState::Stopping).await;
    clock.advance(Duration::from_secs(3));
    assert_eq!(pump.stop().await.released, 1);
    let again = queue.receive().one().await.unwrap().unwrap();
    assert_eq!(again.deliveries(), 1, "not the message's fault");
}

#[tokio::test]
async fn what_was_prefetched_is_given_back_uncounted_at_a_stop() {
    let World { queue, .. } = world().await;
    queue.send_batch((0..6).map(|i| i.to_string())).await.unwrap();
    let gate = gate();
    let pump = start(queue.pump().prefetch(5), with(&gate, held));
    pump.until(|counts| counts.running == 1 && counts.waiting == 5).await;
    pump.handle.stop();
    pump.until(|counts| counts.released == 5).await;
    gate.add_permits(1);
    assert_eq!(pump.stop().await.completed, 1);
    let back = queue.receive().max(9).many().await.unwrap();
    assert_eq!(back.len(), 5);
    assert!(back.iter().all(|back| back.deliveries() == 1));
}

#[tokio::test]
async fn several_pumps_compete_and_every_message_is_handled_once() {
    let World { bw, queue, .. } = world().await;
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let mut pumps = Vec::new();
    for _ in 0..3 {
        let queue = bw.another_member().await.unwrap().queue("orders").unwrap();
        let handler = with(&seen, |seen, work| async move {
            *seen.lock().unwrap().entry(work.sequence()).or_insert(0) += 1;
        });
        pumps.push(start(queue.pump().concurrency(2).prefetch(1), handler));
    }
    queue.send_batch((0..90).map(|i| i.to_string())).await.unwrap();
    while queue.info().await.unwrap().totals.completed < 90 {
        tokio::task::yield_now().await;
    }
    let mut completed = 0;
    for pump in pumps {
        completed += pump.stop().await.completed;
    }
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen.values().max(), completed), (90, Some(&1), 90));
}

#[tokio::test]
async fn the_error_callback_hears_the_source_and_may_panic() {
    let World { clock, bw, queue } = world().await;
    queue.send("fail").await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let pump = queue.pump().on_error({
        let told = Arc::clone(&told);
        move |error| {
            told.lock().unwrap().push((error.source, error.error.as_ref().unwrap().to_string()));
            panic!("the callback's own");
        }
    });
    let pump = start(pump, |_: Work| async { Err::<(), _>("no milk") });
    pump.until(|counts| counts.abandoned == 1 && counts.receiving).await;
    queue.delete().await.unwrap();
    pump.until(|counts| !counts.receiving).await;
    bw.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send("fail").await.unwrap();
    clock.advance(Duration::from_secs(1));
    pump.until(|counts| counts.abandoned == 2).await;
    pump.stop().await;

    let told = told.lock().unwrap();
    let sources: Vec<_> = told.iter().map(|(source, _)| *source).collect();
    assert_eq!(sources, [Source::Handler, Source::Receive, Source::Handler]);
    assert_eq!(told[0].1, "no milk");
    assert!(told[1].1.contains("no queue"), "{}", told[1].1);
}

#[tokio::test]
async fn a_handler_that_settles_by_itself_is_not_settled_again() {
    let World { queue, .. } = world().await;
    queue.send_batch(["well", "badly"]).await.unwrap();
    let (pump, told) = told(queue.pump());
    let pump = start(pump, |work: Work| async move {
        let delivery = work.into_delivery();
        let well = delivery.text() == Some("well");
        delivery.complete().await?;
        if well { Ok(()) } else { Err(bellwether::pump::Failure::from("after all")) }
    });
    pump.until(|counts| counts.handled == 2).await;
    let counts = pump.stop().await;
    assert_eq!((counts.completed, counts.abandoned), (0, 0), "nothing by the pump");
    assert_eq!(queue.info().await.unwrap().totals.completed, 2);
    let told = told.lock().unwrap();
    assert!(matches!(told[..], [(Source::Handler, Why::Failed, _)]), "{told:?}");
}

#[tokio::test]
async fn a_dropped_run_gives_everything_back_uncounted() {
    let World { queue, .. } = world().await;
    queue.send_batch(["running", "waiting"]).await.unwrap();
    let pump = start(queue.pump().prefetch(1), with(&gate(), held));
    pump.until(|counts| counts.running == 1 && counts.waiting == 1).await;

    pump.run.abort();
    assert_eq!(pump.handle.wait_for(|_| false).await.state, PumpState::Stopped);
    for _ in 0..2 {
        let delivery = queue.receive().wait(HOUR).one().await.unwrap().unwrap();
        assert_eq!(delivery.deliveries(), 1);
        delivery.complete().await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_store_ends_the_pump() {
    let World { bw, queue, .. } = world().await;
    let pump = start(queue.pump(), |_: Work| async {});
    pump.until(|counts| counts.receiving).await;
    bw.close().await;
    assert!(matches!(pump.run.await.unwrap(), Err(Error::Closed)));
}
