//! Signals, and commands that do not want to end.

use rustix::process::Signal;

use super::fleet::{BEAT, Fleet, eventually, is_alive};

#[test]
fn signals_are_passed_on() {
    let fleet = Fleet::start();
    let script = "for s in USR1 USR2 HUP WINCH; do trap \"echo $s >> heard\" $s; done; \
        trap 'echo TERM >> heard; exit 6' TERM; \
        echo ready >> heard; while :; do sleep 0.02; done";
    let leader = fleet.lead(&[], script);
    let hears = |what: &str| eventually(what, || fleet.read("heard").contains(what));
    hears("ready");
    for (signal, name) in [
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::HUP, "HUP"),
        (Signal::WINCH, "WINCH"),
        (Signal::TERM, "TERM"),
    ] {
        leader.signal(signal);
        hears(name);
    }
    let (code, _, said) = leader.end();
    assert_eq!(code, 6, "{said}");
    assert_eq!(fleet.read("heard").lines().count(), 6, "each of them once");
}

/// It, a child, and a child that left the group; none of them heeds SIGTERM.
const STUBBORN: &str = "trap '' TERM INT HUP; \
    sh -c 'echo $$ > child; while :; do sleep 1; done' & \
    setsid sh -c 'echo $$ > runaway; while :; do sleep 1; done' & \
    setsid sh -c 'sh -c \"echo \\$\\$ > orphan; while :; do sleep 1; done\" & exit' & \
    echo $$ > main; while :; do sleep 1; done";

fn stubborn_pids(fleet: &Fleet) -> Vec<String> {
    let names = ["main", "child", "runaway", "orphan"];
    eventually("all have started", || names.iter().all(|name| fleet.read(name).ends_with('\n')));
    let pids: Vec<String> = names.iter().map(|name| fleet.read(name)).collect();
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    pids
}

#[test]
fn what_does_not_heed_sigterm_is_killed_with_all_its_children() {
    let fleet = Fleet::start();
    let leader = fleet.lead(&["--grace", "500ms"], STUBBORN);
    let pids = stubborn_pids(&fleet);
    leader.signal(Signal::TERM);
    let (code, _, said) = leader.end();
    assert_eq!(code, 137, "{said}");
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
}

#[test]
fn whoever_says_it_twice_need_not_wait() {
    let fleet = Fleet::start();
    let mut leader = fleet.lead(&["--grace", "20h"], STUBBORN);
    let pids = stubborn_pids(&fleet);
    leader.signal(Signal::INT);
    leader.says("stopping the command: told to stop");
    leader.signal(Signal::INT);
    assert_eq!(leader.end().0, 137);
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
}

#[test]
fn what_a_command_leaves_behind_is_stopped_before_the_lease_is_given_back() {
    let fleet = Fleet::start();
    let leaves = format!("sh -c '{BEAT}' & sleep 0.3; exit 2");
    let (code, _, said) = fleet.lead(&["--grace", "20h"], &leaves).end();
    assert_eq!(code, 2, "{said}");
    let before = fleet.beats().len();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(fleet.beats().len(), before, "it was told to stop, too, and did");
}
