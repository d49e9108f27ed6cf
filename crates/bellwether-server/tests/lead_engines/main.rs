//! `bellwether lead` on the engines that people already run, each a real server.
//!
//! Where a leader is killed its lease lasts a minute, or ten: whoever follows within the time of a test
//! does so because the guardian has given it back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

#[path = "../../../bellwether/tests/support/servers/direct.rs"]
mod direct;
#[path = "../lead/fleet.rs"]
mod fleet;
#[path = "../../../bellwether/tests/support/servers/mod.rs"]
mod servers;

use std::process::Output;
use std::time::Duration;

use bellwether::Stopwatch;
use rustix::process::Signal;

use direct::{Azurite, Nats, ZooKeeper};
use fleet::{BEAT, Fleet, Leader, boot_ms, eventually, is_alive};
use servers::{Etcd, Postgres};

/// Much longer than a death takes to be seen, much shorter than the leases of dead leaders last.
const SOON: Duration = Duration::from_secs(30);

/// Those who lead on one engine.
struct Office {
    fleet: Fleet,
    address: String,
}

impl Office {
    fn at(address: String) -> Self {
        Self { fleet: Fleet::without_server(), address }
    }

    /// Somebody who wants to lead `chores`. The address is not on its command line.
    fn lead(&self, who: &str, flags: &[&str], script: &str) -> Leader {
        let args = [&["lead", "chores"], flags, &["--", "sh", "-c", script]].concat();
        let mut command = self.fleet.command(&args);
        command.env("BELLWETHER_SERVER", &self.address).env("WHO", self.fleet.path(who));
        Leader::start(command)
    }

    /// Runs a command to its end.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.fleet.command(args);
        let Output { status, stdout, stderr } =
            command.env("BELLWETHER_SERVER", &self.address).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    /// Waits until a command runs under a later term, for a time in which no lease runs out.
    fn followed(&self, term: u64) -> u64 {
        let watch = Stopwatch::start();
        loop {
            match self.fleet.beats().last() {
                Some((newest, _)) if *newest > term => return *newest,
                _ => assert!(watch.elapsed() < SOON, "nobody followed term {term}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Heeds nothing and has two children: one in its group and one that has left it.
fn stubborn() -> String {
    format!(
        "trap '' TERM; export BEAT='{BEAT}'; echo $$ >> $WHO; (eval \"$BEAT\") & echo $! >> $WHO; \
         setsid sh -c 'trap \"\" TERM; echo $$ >> $WHO; eval \"$BEAT\"' & eval \"$BEAT\""
    )
}

fn killed_and_followed(address: String, ttl: &str) {
    let office = Office::at(address);
    let flags = ["--ttl", ttl, "--grace", "100ms"];
    let mut first = office.lead("first", &flags, &stubborn());
    first.says("leading");
    let term = office.followed(0);
    eventually("all three have started", || office.fleet.read("first").lines().count() == 3);
    let of_first: Vec<String> = office.fleet.read("first").lines().map(str::to_owned).collect();
    let mut second = office.lead("second", &flags, &stubborn());
    second.says("waiting");
    let guardians = children_of(&first);
    first.signal(Signal::KILL);
    let next = office.followed(term);
    assert!(next > term);
    assert!(of_first.iter().all(|pid| !is_alive(pid)), "they were dead before");
    eventually("they have done their part", || guardians.iter().all(|pid| !is_alive(pid)));
    retire(second);
    office.fleet.check();
}

/// Ends one in order, so that nobody is left who would speak to a server that is gone: another test's
/// guardian could not tell such a one from those it waits for.
fn retire(leader: Leader) {
    leader.signal(Signal::TERM);
    let (_, _, said) = leader.end();
    assert!(said.contains("is over: told to stop"), "{said}");
}

async fn etcd() -> (Etcd, String) {
    let server = Etcd::start().await;
    let address = server.url().replace("http://", "etcd://");
    (server, address)
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_etcd() {
    let (_server, address) = etcd().await;
    killed_and_followed(address, "10m");
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_postgres() {
    let server = Postgres::start().await;
    killed_and_followed(server.url(), "10m");
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_azure_blob() {
    let server = Azurite::start().await;
    let endpoint = format!("http://127.0.0.1:{}/devstoreaccount1", server.port());
    let address = format!("azblob://devstoreaccount1/elections?endpoint={endpoint}");
    killed_and_followed(address, "60s");
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_nats() {
    let server = Nats::start().await;
    killed_and_followed(format!("nats://127.0.0.1:{}", server.port()), "10m");
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_zookeeper() {
    let server = ZooKeeper::start_with("maxSessionTimeout=90000\n").await;
    killed_and_followed(format!("zk://127.0.0.1:{}?session_ms=80000", server.port()), "60s");
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_its_command_in_time() {
    let (server, address) = etcd().await;
    let office = Office::at(address);
    let mut leader = office.lead("first", &["--ttl", "3s", "--grace", "1s"], &stubborn());
    leader.says("leading");
    office.followed(0);
    server.process.signal(Signal::STOP);
    let cut_off_at = boot_ms();
    leader.says("stopping the command: no renewal succeeded in time");
    let all_dead = || office.fleet.read("first").lines().all(|pid| !is_alive(pid));
    eventually("they are dead", all_dead);
    let dead_after_ms = boot_ms() - cut_off_at;
    // The last renewal was asked for before that, so the lease has not ended.
    assert!(dead_after_ms < 3_000, "dead after {dead_after_ms} ms");
    server.process.signal(Signal::CONT);
    leader.says("leading");
    retire(leader);
    office.fleet.check();
}

#[tokio::test]
async fn a_command_that_ends_gives_the_lease_back_and_its_code() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    let flags = ["--ttl", "10m", "--once"];
    for _ in 0..2 {
        let leader = office.lead("first", &flags, &format!("({BEAT}) & sleep 0.1; exit 7"));
        let (code, _, said) = leader.end();
        assert_eq!(code, 7, "{said}");
    }
    office.fleet.check();
}

#[tokio::test]
async fn a_leader_that_is_killed_when_its_command_ends_is_followed() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    // The guardian has the command's end to tell, and nobody to tell it to.
    let script = format!(
        "({BEAT}) & while ! test -s lead; do sleep 0.05; done; kill -KILL $(cat lead); sleep 0.05; exit 0"
    );
    let first = office.lead("first", &["--ttl", "10m"], &script);
    let term = office.followed(0);
    let guardians = children_of(&first);
    std::fs::write(office.fleet.path("lead"), first.pid().to_string()).unwrap();
    let mut second = office.lead("second", &["--ttl", "10m"], BEAT);
    second.says("leading");
    office.followed(term);
    eventually("they have done their part", || guardians.iter().all(|pid| !is_alive(pid)));
    retire(second);
    office.fleet.check();
}

#[tokio::test]
async fn who_is_killed_in_line_does_not_keep_its_place() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    let flags = ["--ttl", "10m", "--grace", "100ms"];
    let mut first = office.lead("first", &flags, BEAT);
    first.says("leading");
    let term = office.followed(0);
    let mut second = office.lead("second", &flags, BEAT);
    second.says("waiting");
    let in_line = |many: usize| {
        let (_, told, said) =
            office.run(&["election", "watch", "chores", "-n1", "--output", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told).expect(&said);
        told["election"]["waiting"].as_array().unwrap().len() == many
    };
    eventually("one stands in line", || in_line(1));
    let mut third = office.lead("third", &flags, BEAT);
    third.says("waiting");
    eventually("two stand in line", || in_line(2));
    let guardians = children_of(&second);
    second.signal(Signal::KILL);
    first.signal(Signal::TERM);
    third.says("leading");
    office.followed(term);
    eventually("it has done its part", || guardians.iter().all(|pid| !is_alive(pid)));
    retire(third);
    office.fleet.check();
}

#[tokio::test]
async fn a_clean_end_leaves_nobody_behind() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    let mut leader = office.lead("first", &["--ttl", "10m"], BEAT);
    leader.says("leading");
    office.followed(0);
    let children = children_of(&leader);
    assert_eq!(children.len(), 2, "a guardian of the command, and one of the lease");
    leader.signal(Signal::TERM);
    let (code, _, said) = leader.end();
    assert_eq!(code, 128 + 15, "{said}");
    eventually("they have ended", || children.iter().all(|pid| !is_alive(pid)));
}

fn children_of(leader: &Leader) -> Vec<String> {
    // Each thread has its own children.
    let threads = std::fs::read_dir(format!("/proc/{}/task", leader.pid())).unwrap().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let found: String = lists.flatten().collect();
    found.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn who_leads_is_told_on_an_engine_too() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    let (code, _, said) = office.run(&["election", "who", "chores"]);
    assert_eq!(code, Some(66), "{said}");
    let flags = ["--ttl", "5s", "--metadata", "the first"];
    let mut leader = office.lead("first", &flags, BEAT);
    leader.says("leading");
    let (code, told, said) = office.run(&["election", "who", "chores"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(told.ends_with(" the first\n"), "{told}");
    let (code, told, said) = office.run(&["election", "watch", "chores", "--count", "1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(told.contains("leads under term"), "{told}");
    leader.signal(Signal::TERM);
    leader.says("is over");
    let (code, told, said) = office.run(&["election", "who", "chores"]);
    assert_eq!((code, told.as_str()), (Some(1), "nobody\n"), "{said}");
}

#[tokio::test]
async fn what_an_engine_cannot_do_is_refused() {
    let (_server, address) = etcd().await;
    let office = Office::at(address);
    let lead = |flag: &'static str, value: &'static str| {
        office.run(&["lead", "chores", flag, value, "--", "true"])
    };
    let (code, _, said) = lead("--ttl", "1s");
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("1s is shorter than 2s, the shortest that is safe on etcd"), "{said}");
    let (code, _, said) = office.run(&["queue", "list"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("that keeps elections only"), "{said}");
    let (code, _, said) = lead("--tls-ca", "ca.pem");
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("are for a Bellwether server"), "{said}");
    let (code, _, said) = lead("--server", "consul://10.0.0.5:8500");
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("this is not the address of a server"), "{said}");
}

#[test]
fn an_engine_that_is_not_there_is_said_without_its_password() {
    for scheme in ["etcd://127.0.0.1:1", "postgres://me:secret@127.0.0.1:1/db"] {
        let office = Office::at(scheme.into());
        let (code, _, said) = office.run(&["lead", "chores", "--once", "--", "true"]);
        assert_eq!(code, Some(69), "{said}");
        assert!(!said.contains("secret"), "{said}");
        let (code, _, said) = office.run(&["stats"]);
        assert_eq!(code, Some(64), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}
