//! How workers end.

use rustix::process::Signal;

use super::fleet::eventually;
use super::world::{WORKER, World};

/// Whoever is told to stop may finish what it does; whoever does not hear is killed after the grace.
#[test]
fn all_workers_end_with_it_and_have_their_grace() {
    let world = World::start();
    let slow = "trap 'sleep 0.3; echo done >> finished; exit 7' TERM; \
        echo $BELLWETHER_WORKER $$ >> workers; while :; do sleep 0.02; done";
    let scale = world.scale(&["--min", "2", "--grace", "60s"], slow);
    world.has_workers(2);
    scale.signal(Signal::TERM);
    let (code, _, said) = scale.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches("stopped, exit code 7").count(), 2, "{said}");
    assert_eq!(world.fleet.read("finished").lines().count(), 2);

    let deaf = "trap '' TERM; echo $BELLWETHER_WORKER $$ >> workers; while :; do sleep 0.02; done";
    let scale = world.scale(&["--min", "1", "--grace", "200ms"], deaf);
    world.has_workers(1);
    scale.signal(Signal::TERM);
    let (code, _, said) = scale.end();
    assert_eq!(code, 0);
    assert!(said.contains("stopped, exit code 137"), "{said}");
    world.has_workers(0);
}

/// Told twice is told by somebody who will not wait.
#[test]
fn told_twice_it_kills() {
    let world = World::start();
    let deaf = "trap '' TERM; echo $BELLWETHER_WORKER $$ >> workers; while :; do sleep 0.02; done";
    let mut scale = world.scale(&["--min", "1", "--grace", "1h"], deaf);
    world.has_workers(1);
    scale.signal(Signal::TERM);
    scale.says("is told to stop");
    scale.signal(Signal::TERM);
    let (code, _, said) = scale.end();
    assert_eq!(code, 0);
    assert!(said.contains("stopped, exit code 137"), "{said}");
}

/// Without somebody to look after them workers do not stay; but they are asked, not killed.
#[test]
fn workers_are_asked_to_stop_when_it_is_killed() {
    let world = World::start();
    let polite = "trap 'echo asked >> asked; exit 0' TERM; \
        echo $BELLWETHER_WORKER $$ >> workers; while :; do sleep 0.02; done";
    let scale = world.scale(&["--min", "2"], polite);
    world.has_workers(2);
    scale.signal(Signal::KILL);
    world.has_workers(0);
    eventually("both were asked", || world.fleet.read("asked").lines().count() == 2);
}

/// XM-02: without a store nothing is decided, and workers go on.
#[test]
fn workers_go_on_without_a_server() {
    let world = World::start();
    let mut scale = world.scale(&["--min", "2"], WORKER);
    let before = world.has_workers(2);
    world.fleet.signal_server(Signal::KILL);
    scale.says("nothing is decided, workers go on");
    assert_eq!(world.workers(), before);
    scale.signal(Signal::TERM);
    assert_eq!(scale.end().0, 0, "and it can be stopped");
    world.has_workers(0);
}
