//! The pump on a queue with sessions, on a store in memory and a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::message::Message;
use bellwether::pump::{IntoVerdict, Pump, PumpCounts, PumpHandle, PumpState, Source, Why};
use bellwether::{Bellwether, Error, Queue, QueueSettings, Refusal, VirtualClock, Work};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LOCK: Duration = Duration::from_secs(10);

struct World {
    clock: VirtualClock,
    bw: Bellwether,
    queue: Queue,
}

async fn world() -> World {
    let clock = VirtualClock::new();
    let bw = Bellwether::open_with_clock("memory:", clock.clone()).await.unwrap();
    let lock_ms = LOCK.as_millis() as u32;
    let settings = QueueSettings { lock_ms, sessions: true, ..QueueSettings::default() };
    let queue = bw.create_queue("accounts", settings).await.unwrap();
    World { clock, bw, queue }
}

async fn send(queue: &Queue, session: &str, bodies: impl IntoIterator<Item = u32>) {
    let of = |body: u32| Message::new(body.to_string()).session(session);
    queue.send_batch(bodies.into_iter().map(of)).await.unwrap();
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

type Seen = Arc<Mutex<BTreeMap<String, Vec<u32>>>>;

/// Writes down what came in which session, in which order.
fn seeing(seen: &Seen) -> impl Fn(Work) -> std::future::Ready<()> + use<> {
    let seen = Arc::clone(seen);
    move |work| {
        let (session, body) = (work.session.clone().unwrap(), work.text().unwrap().parse());
        seen.lock().unwrap().entry(session).or_default().push(body.unwrap());
        std::future::ready(())
    }
}

/// Handlers wait here until the test lets them go on.
fn held(gate: &Arc<Semaphore>) -> impl Fn(Work) -> futures::Held + use<> {
    let gate = Arc::clone(gate);
    move |work| futures::held(Arc::clone(&gate), work)
}

mod futures {
    use super::{Arc, Semaphore, Work};
    use std::pin::Pin;

    pub(super) type Held = Pin<Box<dyn Future<Output = ()> + Send>>;

    pub(super) fn held(gate: Arc<Semaphore>, work: Work) -> Held {
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            drop(work);
        })
    }
}

/// More sessions than places, and no clock that moves: who is idle gives way.
#[tokio::test]
async fn every_session_has_its_turn_and_its_order() {
    let World { queue, .. } = world().await;
    for round in 0..5 {
        for session in 0..20 {
            send(&queue, &format!("s{session}"), [round]).await;
        }
    }
    let seen = Seen::default();
    let pump = start(queue.pump().sessions(3), seeing(&seen));
    pump.until(|counts| counts.completed == 100).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 20);
    assert!(seen.values().all(|bodies| *bodies == [0, 1, 2, 3, 4]), "{seen:?}");
    assert!(pump.stop().await.is_quiet());
    assert!(queue.accept_session().named("s0").await.is_ok(), "nobody holds it any more");
}

#[tokio::test]
async fn so_many_sessions_at_once_and_one_call_in_each() {
    let World { queue, .. } = world().await;
    for session in ["a", "b", "c"] {
        send(&queue, session, [1, 2]).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let pump = start(queue.pump().sessions(2), held(&gate));
    pump.until(|counts| counts.running == 2).await;
    assert_eq!(queue.info().await.unwrap().counts.locked, 2, "one message of each");
    assert!(queue.accept_session().next().await.unwrap().is_some(), "the third is for others");
    gate.add_permits(6);
    pump.until(|counts| counts.completed == 6).await;
    pump.stop().await;
}

#[tokio::test]
async fn calls_in_a_session_may_be_several() {
    let World { queue, .. } = world().await;
    send(&queue, "a", 0..5).await;
    let gate = Arc::new(Semaphore::new(0));
    let pump = start(queue.pump().sessions(1).concurrency(3), held(&gate));
    pump.until(|counts| counts.running == 3).await;
    gate.add_permits(5);
    pump.until(|counts| counts.completed == 5).await;
    pump.stop().await;
}

#[tokio::test]
async fn the_hold_is_kept_while_a_handler_runs() {
    let World { clock, queue, .. } = world().await;
    send(&queue, "a", [1]).await;
    let gate = Arc::new(Semaphore::new(0));
    let pump = start(queue.pump().sessions(1), held(&gate));
    pump.until(|counts| counts.running == 1).await;
    for renewals in 1..=8 {
        clock.advance(LOCK * 2 / 5);
        pump.until(|counts| counts.renewed == renewals).await;
    }
    gate.add_permits(1);
    let counts = pump.until(|counts| counts.completed == 1).await;
    assert_eq!((counts.lost, counts.handled), (0, 1));
    pump.stop().await;
}

#[tokio::test]
async fn a_lost_hold_fires_the_token_and_settles_nothing() {
    let World { clock, bw, queue } = world().await;
    send(&queue, "a", [1]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let pump = queue.pump().sessions(1).on_error({
        let told = Arc::clone(&told);
        move |error| {
            assert_eq!(error.session.as_ref().map(ToString::to_string).as_deref(), Some("a"));
            told.lock().unwrap().push((error.source, error.why, error.sequence.is_some()));
        }
    });
    let pump = start(pump, |work: Work| async move {
        if work.deliveries() == 1 {
            work.cancellation().cancelled().await;
        }
    });
    pump.until(|counts| counts.running == 1).await;
    clock.advance(LOCK);
    pump.until(|counts| counts.lost == 1).await;
    let counts = pump.until(|counts| counts.completed == 1).await;
    assert_eq!((counts.handled, counts.abandoned), (2, 0), "again, by whoever holds it next");
    let queue = bw.queue("accounts").unwrap();
    assert_eq!(queue.info().await.unwrap().totals.completed, 1);
    pump.stop().await;
    let told = told.lock().unwrap();
    assert_eq!(told[0], (Source::Renew, Why::GivenUp, false), "the session: {told:?}");
    assert_eq!(told[1], (Source::Renew, Why::GivenUp, true), "and its message: {told:?}");
}

#[tokio::test]
async fn an_idle_session_is_closed_after_a_wait_and_not_before() {
    let World { clock, bw, queue } = world().await;
    send(&queue, "a", [1]).await;
    let pump = queue.pump().sessions(1).session_idle(Duration::from_secs(3));
    let pump = start(pump, |_: Work| async {});
    pump.until(|counts| counts.completed == 1 && counts.settling == 0).await;
    let other = bw.another_member().await.unwrap().queue("accounts").unwrap();
    let refused = other.accept_session().named("a").await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::SessionLocked(_)))), "{refused:?}");
    let waits = tokio::spawn(other.accept_session().wait(LOCK).named("a"));
    // The wait of the patient receive ends, on the store's clock as on everybody's.
    while !waits.is_finished() {
        clock.advance(Duration::from_secs(3));
        tokio::task::yield_now().await;
    }
    assert!(waits.await.unwrap().is_ok());
    assert_eq!(pump.stop().await.lost, 0);
}

#[tokio::test]
async fn handlers_reach_the_state_of_their_session() {
    let World { queue, .. } = world().await;
    send(&queue, "a", 1..=4).await;
    send(&queue, "b", 5..=6).await;
    let pump = start(queue.pump().sessions(2), |work: Work| async move {
        let session = work.held_session().unwrap();
        let before: u32 = match session.state().await? {
            Some(state) => std::str::from_utf8(&state)?.parse()?,
            None => 0,
        };
        let sum = before + work.text().unwrap().parse::<u32>()?;
        session.set_state(Some(Bytes::from(sum.to_string()))).await?;
        Ok::<(), bellwether::pump::Failure>(())
    });
    pump.until(|counts| counts.completed == 6).await;
    pump.stop().await;
    for (name, sum) in [("a", "10"), ("b", "11")] {
        let (_, state) = queue.session(name).await.unwrap().unwrap();
        assert_eq!(state.unwrap(), sum);
    }
}

#[tokio::test]
async fn a_failing_message_holds_its_session_back_and_no_other() {
    let World { clock, queue, .. } = world().await;
    send(&queue, "a", [1, 2]).await;
    send(&queue, "b", [3]).await;
    let seen = Seen::default();
    let see = seeing(&seen);
    let pump = start(queue.pump().sessions(1), move |work: Work| {
        let fails = work.text() == Some("1") && work.deliveries() == 1;
        let done = (!fails).then(|| see(work));
        async move {
            done.ok_or("not now")?.await;
            Ok::<(), &str>(())
        }
    });
    pump.until(|counts| counts.abandoned == 1 && counts.completed == 1).await;
    assert_eq!(*seen.lock().unwrap(), BTreeMap::from([("b".into(), vec![3])]));
    clock.advance(Duration::from_secs(1));
    pump.until(|counts| counts.completed == 3).await;
    assert_eq!(seen.lock().unwrap()["a"], [1, 2], "in their order all the same");
    pump.stop().await;
}

#[tokio::test]
async fn a_paused_pump_lets_others_have_the_sessions() {
    let World { queue, .. } = world().await;
    send(&queue, "a", [1, 2]).await;
    let gate = Arc::new(Semaphore::new(0));
    let pump = start(queue.pump().sessions(1).prefetch(4), held(&gate));
    pump.until(|counts| counts.running == 1 && counts.waiting == 1).await;
    pump.handle.pause();
    pump.until(|counts| counts.released == 1).await;
    gate.add_permits(1);
    pump.until(PumpCounts::is_quiet).await;
    let session = queue.accept_session().named("a").await.unwrap();
    let message = session.receive().one().await.unwrap().unwrap();
    assert_eq!((message.text(), message.deliveries()), (Some("2"), 1));
    drop((message, session));
    pump.handle.resume();
    gate.add_permits(1);
    pump.until(|counts| counts.completed == 2).await;
    pump.stop().await;
}

#[tokio::test]
async fn a_dropped_run_lets_go_of_its_sessions() {
    let World { queue, .. } = world().await;
    send(&queue, "a", [1]).await;
    let gate = Arc::new(Semaphore::new(0));
    let pump = start(queue.pump().sessions(1), held(&gate));
    pump.until(|counts| counts.running == 1).await;
    pump.run.abort();
    let session = queue.accept_session().wait(LOCK).named("a").await.unwrap();
    let message = session.receive().one().await.unwrap().unwrap();
    assert_eq!(message.deliveries(), 1, "uncounted");
}

#[tokio::test]
async fn the_wrong_pump_for_a_queue_ends_and_says_so() {
    let World { bw, queue, .. } = world().await;
    let plain = start(queue.pump(), |_: Work| async {}).run.await.unwrap();
    assert!(matches!(plain, Err(Error::Refused(Refusal::SessionRequired(_)))), "{plain:?}");
    let other = bw.create_queue("plain", QueueSettings::default()).await.unwrap();
    let sessions = start(other.pump().sessions(2), |_: Work| async {}).run.await.unwrap();
    assert!(matches!(sessions, Err(Error::Refused(Refusal::SessionNotSupported(_)))));
    let dead = start(queue.dead_letters().pump().sessions(2), |_: Work| async {}).run.await;
    assert!(matches!(dead.unwrap(), Err(Error::Refused(Refusal::SessionNotSupported(_)))));
}
