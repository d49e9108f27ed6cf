//! Several hosts: one decides, all have their share.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::fleet::{Leader, eventually};
use super::world::{WORKER, World};

fn by_instance(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (instance, _) in world.workers().into_keys() {
        *counts.entry(instance).or_default() += 1;
    }
    counts
}

fn two(world: &World) -> (Leader, Leader) {
    let flags = ["--min", "4", "--max", "8", "--max-here", "3", "--per-worker", "1"];
    let mut leader = world.scale(&flags, WORKER);
    leader.says("leading \"scale/orders\" under term");
    (leader, world.scale(&flags, WORKER))
}

#[test]
fn workers_are_spread_over_the_hosts_that_have_room() {
    let world = World::start();
    let (_leader, _other) = two(&world);
    world.has_workers(4);
    let counts: Vec<usize> = by_instance(&world).into_values().collect();
    assert!(counts == [2, 2] || counts == [1, 3] || counts == [3, 1], "{counts:?}");
    world.send(8);
    world.has_workers(6);
    assert_eq!(
        by_instance(&world).into_values().collect::<Vec<_>>(),
        [3, 3],
        "there is no more room"
    );
    let shown = world.shown();
    assert_eq!(shown["plan"]["wanted"], 6);
    assert_eq!(shown["hosts"].as_array().unwrap().len(), 2);
}

/// XM-02, XM-26: when the leader dies, the workers of the others go on, and the next leader starts
/// those that are missing where there is room.
#[test]
fn the_next_leader_goes_on_where_the_last_one_was() {
    let world = World::start();
    let flags = ["--min", "4", "--max", "8", "--per-worker", "1"];
    let mut leader = world.scale(&flags, WORKER);
    leader.says("leading");
    let first = world.has_workers(4);
    let leaders = first.keys().next().unwrap().0.clone();
    let mut other = world.scale(&flags, WORKER);
    world.send(8);
    world.has_workers(8);
    let others = |world: &World| -> BTreeMap<_, _> {
        world.workers().into_iter().filter(|((instance, _), _)| *instance != leaders).collect()
    };
    let before = others(&world);
    assert_eq!(before.len(), 4, "the new ones went to where none were");
    let reasons = world.reasons();
    leader.signal(Signal::KILL);
    other.says("leading");
    eventually("all are with the other", || others(&world).len() == 8);
    let after = others(&world);
    assert!(before.iter().all(|(name, pid)| after.get(name) == Some(pid)), "{before:?} {after:?}");
    // What was decided last may have gone on when it was read.
    let past = reasons.len() - 1;
    assert_eq!(world.reasons()[..past], reasons[..past], "the past is not forgotten");
}

/// Whoever stops says so: its share goes to the others at once.
#[test]
fn a_host_that_stops_leaves_its_share_to_the_others() {
    let world = World::start();
    let (leader, mut other) = two(&world);
    world.has_workers(4);
    leader.signal(Signal::TERM);
    assert_eq!(leader.end().0, 0);
    other.says("leading");
    world.has_workers(3);
    assert_eq!(by_instance(&world).len(), 1);
}
