//! How many there are.

use std::time::Duration;

use rustix::process::Signal;

use super::fleet::{Leader, eventually};
use super::world::{WORKER, World};

/// XM-22, XM-28: from none to the maximum and back, with reasons that all can read.
#[test]
fn workers_come_with_messages_and_go_without() {
    let world = World::start();
    let mut scale = world.scale(&["--min", "0", "--max", "3", "--per-worker", "1"], WORKER);
    scale.says("keep 0: not enough waits to start one");
    world.send(5);
    let out = scale.says("out from 0 to ");
    assert!(out.contains(" messages, 1 to a worker, want "), "{out}");
    world.has_workers(3);
    scale.says("wanted, but this is the maximum");
    world.purge();
    scale.says("in from 3 to ");
    world.has_workers(0);
    scale.says("stopped, exit code 0");
    let reasons = world.reasons();
    for wanted in ["dormant", "out", "at-maximum", "calming", "in"] {
        assert!(reasons.iter().any(|why| why == wanted), "{wanted} is not in {reasons:?}");
    }
    let text = world.run(&["scale", "orders", "--show"]);
    assert!(text.contains(out.trim_start_matches("bellwether: ")), "{text}");
    scale.signal(Signal::TERM);
    assert_eq!(scale.end().0, 0);
    assert!(world.shown()["hosts"].as_array().unwrap().is_empty(), "it has taken its leave");
}

/// Pain 31: nobody works on a paused queue, however much waits there.
#[test]
fn a_paused_queue_gets_no_workers() {
    let world = World::start();
    world.send(5);
    world.run(&["queue", "pause", "orders"]);
    let mut scale = world.scale(&["--min", "0", "--per-worker", "1"], WORKER);
    scale.says("keep 0: the queue is paused");
    assert!(world.fleet.read("workers").is_empty());
    world.run(&["queue", "resume", "orders"]);
    scale.says("out from 0 to 4");
    world.has_workers(5);
}

/// XM-26, pain 31: the one with a message stays, even if it is the youngest.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_message_is_not_sent_away() {
    let world = World::start();
    world.send(3);
    let scale = world.scale(&["--min", "0", "--max", "3", "--per-worker", "1"], WORKER);
    let workers = world.has_workers(3);
    let ((instance, number), busy) = workers.last_key_value().unwrap();
    let store = world.open_as(&format!("{instance}.{number}")).await;
    let queue = store.queue("orders").unwrap();
    let held = queue.receive().wait(Duration::from_secs(30)).one().await.unwrap().unwrap();
    world.purge();
    // One or two: who was busy for long leaves no time to spare, and with it stays another one.
    eventually("some go", || world.workers().len() < 3);
    let left = world.workers();
    assert!(left.values().any(|pid| pid == busy), "{busy} of {workers:?} is not in {left:?}");
    held.complete().await.unwrap();
    world.has_workers(0);
    store.close().await;
    drop(scale);
}

/// A worker that cannot work is started again, ever later, and everybody can see it.
#[test]
fn a_worker_that_fails_again_and_again_is_seen_to() {
    let world = World::start();
    let mut scale = world.scale(&["--max", "1"], "exit 3");
    scale.says("ended by itself, exit code 3, 1 in a row; started again in 1s");
    scale.says("ended by itself, exit code 3, 3 in a row; started again in 4s");
    eventually("it is told", || world.shown()["hosts"][0]["failing"] == 1);
}

#[test]
fn what_cannot_work_is_refused() {
    let world = World::start();
    let code = |args: &[&str]| {
        let args = [&["scale"], args, &["--", "true"]].concat();
        let ran = world.fleet.command(&args).output().unwrap();
        (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let (refused, said) = code(&["orders", "--min", "5", "--max", "4"]);
    assert_eq!(refused, 65, "{said}");
    assert!(said.contains("5 is more than max, which is 4"), "{said}");
    assert_eq!(code(&["nowhere"]).0, 66);
    assert_eq!(code(&["orders", "--data", "."]).0, 64);
    assert_eq!(world.fleet.command(&["scale", "orders"]).output().unwrap().status.code(), Some(64));
}

/// Who opens the store as the worker it is, is known by its name: from then on it runs.
#[test]
fn a_worker_is_known_when_it_has_opened_the_store() {
    let world = World::start();
    world.send(3);
    let program = env!("CARGO_BIN_EXE_bellwether");
    let receive = format!("exec {program} receive \"$BELLWETHER_QUEUE\" --follow >> got");
    let flags = ["scale", "orders", "--every", "50ms", "--start-within", "1h"];
    let args = [&flags[..], &["--", "sh", "-c", &receive]].concat();
    let scale = Leader::start(world.fleet.command(&args));
    eventually("it receives", || world.fleet.read("got").lines().count() == 3);
    eventually("it is known", || world.shown()["hosts"][0]["running"] == 1);
    let shown = world.shown();
    assert_eq!(
        (&shown["hosts"][0]["starting"], &shown["hosts"][0]["idle"]),
        (&0.into(), &1.into())
    );
    scale.signal(Signal::TERM);
    assert_eq!(scale.end().0, 0);
}
