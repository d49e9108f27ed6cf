//! As many pumps as there is work for: a clock that the tests move, and handlers that wait.

use bellwether::scaler::{Policy, Why};

use super::*;

const EVERY: Duration = Duration::from_secs(1);

fn policy() -> Policy {
    Policy { max: 3, per_worker: Some(1), out_pause_ms: 0, in_pause_ms: 0, ..Policy::default() }
}

/// Lets the scaler look once more, and waits until there are so many pumps.
async fn look(world: &World, pumps: &bellwether::pump::ScaledHandle, count: usize) {
    for _ in 0..2_000 {
        if pumps.pumps() == count {
            return;
        }
        world.clock.advance(EVERY);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} pumps and not {count}: {:?}", pumps.pumps(), pumps.decisions());
}

#[tokio::test]
async fn pumps_come_with_messages_and_go_without() {
    let world = world().await;
    let gate = gate();
    let scaled = world.queue.pump().scaled(policy());
    let (pumps, shutdown) = (scaled.handle(), CancellationToken::new());
    let run = tokio::spawn(scaled.run(with(&gate, held), shutdown.clone()));
    look(&world, &pumps, 1).await;
    world.queue.send_batch(["a", "b", "c", "d", "e"]).await.unwrap();
    look(&world, &pumps, 3).await;
    let out = pumps.decisions().into_iter().find(|decision| decision.from == 1).unwrap();
    assert!(matches!(out.why, Why::Out(_)), "{out}");
    gate.add_permits(5);
    look(&world, &pumps, 1).await;
    let last = pumps.decisions().pop().unwrap();
    assert!(matches!(last.why, Why::In { .. }), "{last}");
    assert_eq!(world.queue.info().await.unwrap().totals.completed, 5);
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

/// Pain 31: one with a message is not stopped while another has none.
#[tokio::test]
async fn a_pump_with_a_message_goes_on() {
    let world = world().await;
    let gate = gate();
    let scaled = world.queue.pump().scaled(policy());
    let (pumps, shutdown) = (scaled.handle(), CancellationToken::new());
    let run = tokio::spawn(scaled.run(with(&gate, held), shutdown.clone()));
    world.queue.send_batch(["a", "b", "c"]).await.unwrap();
    look(&world, &pumps, 3).await;
    for _ in 0..20 {
        world.clock.advance(EVERY);
        // Locks are renewed meanwhile.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(pumps.pumps(), 3, "all have one: {:?}", pumps.decisions());
    gate.add_permits(2);
    // One that is busy all the time leaves no time to spare: with it stays another one.
    look(&world, &pumps, 2).await;
    assert_eq!(world.queue.info().await.unwrap().counts.locked, 1, "it kept its message");
    gate.add_permits(1);
    shutdown.cancel();
    run.await.unwrap().unwrap();
    assert_eq!(world.queue.info().await.unwrap().totals.completed, 3);
}

#[tokio::test]
async fn it_ends_with_its_store_and_refuses_what_cannot_work() {
    let world = world().await;
    let wrong = world.queue.pump().scaled(Policy { max: 0, ..policy() });
    let refused = wrong.run(|_| async {}, CancellationToken::new()).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let scaled = world.queue.pump().scaled(policy());
    let (pumps, shutdown) = (scaled.handle(), CancellationToken::new());
    let run = tokio::spawn(scaled.run(|_| async {}, shutdown.clone()));
    look(&world, &pumps, 1).await;
    world.bw.close().await;
    assert!(run.await.unwrap().is_err());
    assert!(!shutdown.is_cancelled(), "that is the caller's own affair");
}
