//! Transactions: everything in one of them happens, or nothing.

use bellwether_core::command::{Command, Disposition, Settlement};
use bellwether_core::error::{Refusal, StepRefusal};
use bellwether_core::limits;
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::QueueSettings;
use bellwether_core::transaction::Step;
use bytes::Bytes;

use super::Fixture;
use super::exactly_once::numbering;
use super::support::{next, nothing, path_of, refusal, sessions, short_locks, taken, text};
use crate::error::Error;
use crate::handle::Bellwether;
use crate::message::{Message, Value};
use crate::queue::{Queue, prepare};

/// Which step was refused, and why.
fn refused_step<T: std::fmt::Debug>(result: Result<T, Error>) -> (u32, Refusal) {
    match refusal(result) {
        Refusal::Step(StepRefusal { step, why }) => (step, *why),
        other => panic!("a refused step was expected, not {other:?}"),
    }
}

async fn ready(queue: &Queue) -> u64 {
    queue.info().await.unwrap().counts.ready
}

/// D20: the input goes and the outputs come, together.
pub async fn input_and_output_change_together(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send_batch(["one", "two"]).await.unwrap();
    let (one, two) = (next(&input).await, next(&input).await);
    let transaction = fixture.bellwether().transaction();
    let transaction =
        transaction.complete(one).send(&output, "bill").send_batch(&output, ["a", "b"]);
    let done = transaction.dead_letter(two, "Torn", "half of it").commit().await.unwrap();
    let numbers: Vec<Vec<u64>> =
        done.sent.iter().map(|send| send.iter().map(|number| number.0).collect()).collect();
    assert_eq!(numbers, [vec![1], vec![2, 3]]);
    nothing(&input).await;
    for wanted in ["bill", "a", "b"] {
        assert_eq!(taken(&output).await, wanted);
    }
    let dead = next(&input.dead_letters()).await;
    assert_eq!(dead.received().dead_letter_reason(), Some("Torn"));
    assert_eq!(dead.received().dead_letter_description(), Some("half of it"));
}

/// A step that is refused refuses all, whichever it is; the refusal names it and its cause.
pub async fn a_refused_step_refuses_all(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    let missing = bellwether.queue("missing").unwrap();
    for at in 0..3 {
        input.send("one").await.unwrap();
        let one = next(&input).await;
        let mut transaction = bellwether.transaction();
        for step in 0..3 {
            let queue = if step == at { &missing } else { &output };
            transaction = transaction.send(queue, "bill");
        }
        let (step, why) = refused_step(transaction.complete(one).commit().await);
        assert_eq!((step, why), (at, Refusal::QueueNotFound(missing.name().clone())));
        // Nothing was sent, and the input is given back as a dropped delivery is.
        assert_eq!(ready(&output).await, 0);
        let again = next(&input).await;
        assert_eq!(again.deliveries(), 2);
        again.complete().await.unwrap();
    }
}

/// D5: who settles without the lock sends nothing either.
pub async fn a_lost_lock_refuses_all(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send("one").await.unwrap();
    let slow = next(&input).await;
    fixture.advance(super::support::LOCK).await;
    let other = next(&input).await;
    let commit = fixture.bellwether().transaction().send(&output, "late").complete(slow).commit();
    let (step, why) = refused_step(commit.await);
    assert_eq!((step, why), (1, Refusal::LockLost(other.sequence())));
    assert_eq!(ready(&output).await, 0);
    fixture
        .bellwether()
        .transaction()
        .send(&output, "bill")
        .complete(other)
        .commit()
        .await
        .unwrap();
    assert_eq!(taken(&output).await, "bill");
}

/// A delivery is settled once, also within one transaction.
pub async fn a_delivery_is_settled_once(fixture: &Fixture) {
    let queue = fixture.queue().await;
    queue.send("one").await.unwrap();
    let token = next(&queue).await.keep();
    let step = |disposition| {
        let settlement = Settlement { token, disposition, overlay: None };
        Step::Settle { from: path_of(&queue), settlement }
    };
    let steps = vec![step(Disposition::Defer), step(Disposition::Complete)];
    let caller = super::support::Caller::of(&fixture.bellwether());
    let (at, why) = refused_step(caller.ask(Command::Transact { steps }).await);
    assert_eq!((at, why), (1, Refusal::LockLost(token.sequence)));
    assert_eq!(queue.info().await.unwrap().counts.locked, 1, "neither was done");
}

/// What is sent adds up over the steps; what is completed makes room for it.
pub async fn sizes_add_up(fixture: &Fixture) {
    let settings = QueueSettings { size_bytes_max: 3_000, ..short_locks() };
    let queue = fixture.queue_with(settings).await;
    let large = || Message::new(vec![7; 1_200]);
    let bellwether = fixture.bellwether();
    let twice = bellwether.transaction().send(&queue, large()).send(&queue, large());
    let (step, why) = refused_step(twice.send(&queue, large()).commit().await);
    assert_eq!(step, 2, "each alone would fit: {why}");
    assert!(matches!(why, Refusal::QueueFull { .. }), "{why:?}");
    assert_eq!(ready(&queue).await, 0);
    queue.send_batch([large(), large()]).await.unwrap();
    let full = bellwether.transaction().send(&queue, large()).commit().await;
    assert!(matches!(refused_step(full), (0, Refusal::QueueFull { .. })));
    let one = next(&queue).await;
    bellwether.transaction().complete(one).send(&queue, large()).commit().await.unwrap();
    assert_eq!(ready(&queue).await, 2);
}

/// A session's state changes with what is settled in it, or not at all.
pub async fn a_session_keeps_its_state_with_the_rest(fixture: &Fixture) {
    let queue = fixture.queue_with(sessions()).await;
    let output = fixture.other_queue("bills").await;
    queue.send_batch(["a", "b"].map(|body| Message::new(body).session("s"))).await.unwrap();
    let session = queue.accept_session().named("s").await.unwrap();
    let bellwether = fixture.bellwether();
    let state = |text: &'static str| Some(Bytes::from(text));

    let one = session.receive().one().await.unwrap().unwrap();
    let commit = bellwether.transaction().set_state(&session, state("one")).complete(one);
    commit.send(&output, "bill").commit().await.unwrap();
    assert_eq!(session.state().await.unwrap(), state("one"));

    let two = session.receive().one().await.unwrap().unwrap();
    let missing = bellwether.queue("missing").unwrap();
    let commit = bellwether.transaction().set_state(&session, state("two")).complete(two);
    let (step, _) = refused_step(commit.send(&missing, "bill").commit().await);
    assert_eq!(step, 2);
    assert_eq!(session.state().await.unwrap(), state("one"));
    assert_eq!(taken(&output).await, "bill");
    nothing(&output).await;
}

/// What was scheduled is taken back with the rest; twice is refused.
pub async fn cancelling_is_a_step(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let later = || Message::new("later").scheduled_at(fixture.wall_in(600_000));
    let numbers = queue.send_batch([later(), later()]).await.unwrap();
    let bellwether = fixture.bellwether();
    let twice = bellwether.transaction().cancel(&queue, [numbers[0]]).cancel(&queue, [numbers[0]]);
    assert_eq!(refused_step(twice.commit().await), (1, Refusal::MessageNotFound(numbers[0])));
    assert_eq!(queue.info().await.unwrap().counts.scheduled, 2);
    let instead = bellwether.transaction().cancel(&queue, [numbers[0]]).send(&queue, "now");
    instead.commit().await.unwrap();
    assert_eq!(queue.info().await.unwrap().counts.scheduled, 1);
    assert_eq!(taken(&queue).await, "now");
}

/// A transaction that is never committed does nothing: its input comes back, nothing was sent.
pub async fn a_dropped_transaction_does_nothing(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send("one").await.unwrap();
    let one = next(&input).await;
    drop(fixture.bellwether().transaction().complete(one).send(&output, "bill"));
    let again = next(&input).await;
    assert_eq!((text(&again), again.deliveries()), ("one", 2));
    nothing(&output).await;
}

/// D3: a transaction that is repeated happens once, and both answers are the same.
pub async fn a_repeated_transaction_happens_once(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    let caller = numbering(fixture, 1).await;
    input.send("one").await.unwrap();
    let token = next(&input).await.keep();
    let (new, content) = prepare(&Message::new("bill")).unwrap();
    let settlement = Settlement { token, disposition: Disposition::Complete, overlay: None };
    let steps = vec![
        Step::Settle { from: path_of(&input), settlement },
        Step::Send { queue: output.name().clone(), messages: vec![new].into(), first: 0 },
    ];
    let transact = Command::Transact { steps };
    let first = caller.ask_as(1, transact.clone(), vec![content.clone()]).await.unwrap();
    assert!(matches!(first.outcome, Outcome::Transacted(_)));
    for _ in 0..3 {
        let again = caller.ask_as(1, transact.clone(), vec![content.clone()]).await.unwrap();
        assert_eq!(again, first);
    }
    assert_eq!(output.info().await.unwrap().totals.sent, 1);
    let second = caller.ask_as(2, transact, vec![content]).await;
    assert_eq!(refused_step(second), (0, Refusal::LockLost(SequenceNumber(1))));
}

/// A leader that was deposed commits nothing.
pub async fn a_deposed_leader_commits_nothing(fixture: &Fixture) {
    let bellwether = fixture.bellwether();
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send_batch(["one", "two"]).await.unwrap();
    let lease = bellwether.lease("chores").unwrap();
    let grant = lease.acquire(std::time::Duration::from_secs(60)).await.unwrap();
    let fenced = input.with_fence(&lease.fence(&grant));
    let one = next(&fenced).await;
    bellwether.transaction().complete(one).send(&output, "bill").commit().await.unwrap();
    let two = next(&fenced).await;
    lease.release(grant.id).await.unwrap();
    let late = bellwether.transaction().complete(two).send(&output, "late").commit().await;
    assert!(matches!(refusal(late), Refusal::Fenced { .. }));
    assert_eq!(ready(&output).await, 1);
}

/// Changed properties stay with a message that comes back, on top of what was changed before.
pub async fn changed_properties_are_merged(fixture: &Fixture) {
    let (input, output) = (fixture.queue().await, fixture.other_queue("bills").await);
    input.send(Message::new("one").property("sent", 1)).await.unwrap();
    let mut one = next(&input).await;
    one.set_property("first", 2);
    one.abandon().await.unwrap();
    let mut one = next(&input).await;
    one.set_property("second", 3);
    fixture.bellwether().transaction().abandon(one).send(&output, "tried").commit().await.unwrap();
    let one = next(&input).await;
    for (name, value) in [("sent", 1), ("first", 2), ("second", 3)] {
        assert_eq!(one.properties.get(name), Some(&Value::from(value)), "{name}");
    }
}

/// There may be a hundred steps, and not one more; and none is none.
pub async fn steps_have_a_limit(fixture: &Fixture) {
    let queue = fixture.queue().await;
    let of = |bellwether: &Bellwether, steps: usize| {
        (0..steps).fold(bellwether.transaction(), |all, _| all.send(&queue, "one"))
    };
    let bellwether = fixture.bellwether();
    let max = limits::TRANSACTION_STEPS_MAX;
    let refused = refusal(of(&bellwether, max + 1).commit().await);
    assert_eq!(refused, Refusal::TooMany { what: "steps of one transaction", max: max as u64 });
    let none = refusal(of(&bellwether, 0).commit().await);
    assert!(matches!(none, Refusal::InvalidValue { what: "steps", .. }), "{none:?}");
    of(&bellwether, max).commit().await.unwrap();
    assert_eq!(ready(&queue).await, max as u64);
}
