//! Leaders that are killed, frozen and cut off: their commands are dead before anybody else leads.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::fleet::{BEAT, Fleet, Leader, boot_ms, eventually, is_alive};

const TTL_MS: u64 = 3_000;

/// Heeds nothing, writes down that it is alive, and has a child that does the same.
fn stubborn_beat() -> String {
    format!("trap '' TERM; echo $$ > $WHO; ({BEAT}) & echo $! >> $WHO; {BEAT}")
}

/// One of several whose commands write their numbers into a file of its own.
fn lead(fleet: &Fleet, who: &str) -> Leader {
    let script = stubborn_beat();
    let args = ["lead", "chores", "--ttl", "3s", "--", "sh", "-c", &script];
    let mut command = fleet.command(&args);
    command.env("WHO", fleet.path(who));
    Leader::start(command)
}

fn pids(fleet: &Fleet, who: &str) -> Vec<String> {
    eventually("both have started", || fleet.read(who).lines().count() == 2);
    fleet.read(who).lines().map(ToOwned::to_owned).collect()
}

fn guardian_of(leader: &Leader) -> Pid {
    // Each thread has its own children.
    let threads = fs::read_dir(format!("/proc/{}/task", leader.pid())).unwrap().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let found: String = lists.flatten().collect();
    Pid::from_raw(found.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_leader_that_is_killed_takes_its_command_along() {
    let fleet = Fleet::start();
    let mut first = lead(&fleet, "first");
    first.says("leading");
    let term = fleet.next_term(0);
    let mut second = lead(&fleet, "second");
    second.says("waiting");
    let of_first = pids(&fleet, "first");
    first.signal(Signal::KILL);
    eventually("they are dead", || of_first.iter().all(|pid| !is_alive(pid)));
    let next = fleet.next_term(term);
    assert!(next > term);
    second.signal(Signal::KILL);
    let of_second = pids(&fleet, "second");
    eventually("they are dead", || of_second.iter().all(|pid| !is_alive(pid)));
    fleet.check();
}

#[test]
fn a_leader_that_is_frozen_does_not_keep_its_command_alive() {
    let fleet = Fleet::start();
    let mut first = lead(&fleet, "first");
    first.says("leading");
    let term = fleet.next_term(0);
    let of_first = pids(&fleet, "first");
    let mut second = lead(&fleet, "second");
    second.says("waiting");
    first.signal(Signal::STOP);
    let frozen_at = boot_ms();
    eventually("they are dead", || of_first.iter().all(|pid| !is_alive(pid)));
    let dead_after_ms = boot_ms() - frozen_at;
    // The last renewal was asked for before that, so nobody else can have been granted the lease.
    assert!(dead_after_ms < TTL_MS * 105 / 100, "dead after {dead_after_ms} ms");
    let next = fleet.next_term(term);
    first.signal(Signal::CONT);
    first.says("is over: no renewal succeeded in time");
    first.says("waiting");
    drop(second);
    fleet.next_term(next);
    fleet.check();
}

#[test]
fn a_leader_that_is_cut_off_stops_its_command_in_time() {
    let fleet = Fleet::start();
    let mut leader = lead(&fleet, "first");
    leader.says("leading");
    let term = fleet.next_term(0);
    let before = pids(&fleet, "first");
    fleet.signal_server(Signal::STOP);
    let cut_off_at = boot_ms();
    leader.says("stopping the command: no renewal succeeded in time");
    eventually("they are dead", || before.iter().all(|pid| !is_alive(pid)));
    let dead_after_ms = boot_ms() - cut_off_at;
    assert!(dead_after_ms < TTL_MS * 105 / 100, "dead after {dead_after_ms} ms");
    fleet.signal_server(Signal::CONT);
    fleet.next_term(term);
    fleet.check();
}

#[test]
fn a_guardian_that_is_killed_takes_the_command_along() {
    let fleet = Fleet::start();
    let mut leader = lead(&fleet, "first");
    leader.says("leading");
    let term = fleet.next_term(0);
    let before = pids(&fleet, "first");
    kill_process(guardian_of(&leader), Signal::KILL).unwrap();
    leader.says("is over: the command's guardian has died");
    assert!(before.iter().all(|pid| !is_alive(pid)), "before the lease was given back");
    fleet.next_term(term);
    fleet.check();
}

#[test]
fn a_guardian_that_is_frozen_does_not_keep_the_command_alive() {
    let fleet = Fleet::start();
    let mut leader = lead(&fleet, "first");
    leader.says("leading");
    let term = fleet.next_term(0);
    let before = pids(&fleet, "first");
    let guardian = guardian_of(&leader);
    kill_process(guardian, Signal::STOP).unwrap();
    fleet.signal_server(Signal::STOP);
    leader.says("stopping the command");
    eventually("they are dead", || before.iter().all(|pid| !is_alive(pid)));
    fleet.signal_server(Signal::CONT);
    leader.says("is over");
    assert!(!is_alive(&guardian.to_string()));
    fleet.next_term(term);
    fleet.check();
}

#[test]
fn a_lease_that_is_taken_away_ends_the_command_at_once() {
    let fleet = Fleet::start();
    let mut leader = lead(&fleet, "first");
    leader.says("leading");
    let term = fleet.next_term(0);
    let before = pids(&fleet, "first");
    let broken = fleet.command(&["lease", "break", "chores", "--yes"]).output().unwrap();
    assert!(broken.status.success(), "{broken:?}");
    leader.says("stopping the command: the store says that the lease is not ours any more");
    eventually("they are dead", || before.iter().all(|pid| !is_alive(pid)));
    fleet.next_term(term);
    fleet.check();
}

#[test]
fn whoever_is_told_to_try_once_says_that_it_lost() {
    let fleet = Fleet::start();
    let args = ["lead", "chores", "--ttl", "1s", "--once", "--", "sh", "-c", BEAT];
    let mut leader = Leader::start(fleet.command(&args));
    leader.says("leading");
    fleet.next_term(0);
    fleet.signal_server(Signal::STOP);
    leader.says("is over: no renewal succeeded in time");
    let (code, _, said) = leader.end();
    assert_eq!(code, 75, "{said}");
    fleet.signal_server(Signal::CONT);
    fleet.check();
}
