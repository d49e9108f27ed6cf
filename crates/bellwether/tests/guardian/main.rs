//! Guardians of real processes, on the real servers of every engine.
//!
//! Every lease here lasts 60 seconds: whoever follows within the time of a test does so because a
//! guardian has released what the dead one held.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../support/servers/direct.rs"]
mod direct;
#[path = "../support/servers/mod.rs"]
mod servers;
mod world;

use bellwether::guardian::Guardian;
use bellwether::{Elections, Error};
use rustix::process::{Signal, kill_process};

use direct::{Azurite, Nats, ZooKeeper};
use servers::{Etcd, Postgres};
use world::{Heir, Leader, TTL, eventually, is_alive};

async fn killed_and_followed(address: &str) {
    let mut leader = Leader::start(address, &["chores"]);
    let term = leader.leads();
    let heir = Heir::of(address, "chores").await;
    heir.waits().await;
    let guardians = leader.guardians();
    assert_eq!(guardians.len(), 1);
    leader.kill();
    let followed = heir.wins().await;
    assert!(followed.term() > term);
    eventually("it has done its part", async || !is_alive(guardians[0])).await;
    assert!(followed.ensure().is_ok(), "it released what was the dead one's only");
}

async fn etcd() -> (Etcd, String) {
    let server = Etcd::start().await;
    let address = server.url().replace("http://", "etcd://");
    (server, address)
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_etcd() {
    let (_server, address) = etcd().await;
    killed_and_followed(&address).await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_postgres() {
    let server = Postgres::start().await;
    killed_and_followed(&server.url()).await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_azure_blob() {
    let server = Azurite::start().await;
    let endpoint = format!("http://127.0.0.1:{}/devstoreaccount1", server.port());
    killed_and_followed(&format!("azblob://devstoreaccount1/elections?endpoint={endpoint}")).await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_nats() {
    let server = Nats::start().await;
    killed_and_followed(&format!("nats://127.0.0.1:{}", server.port())).await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_at_once_on_zookeeper() {
    let server = ZooKeeper::start_with("maxSessionTimeout=90000\n").await;
    let address = format!("zk://127.0.0.1:{}?session_ms=80000", server.port());
    killed_and_followed(&address).await;
}

#[tokio::test]
async fn what_a_dead_leader_has_started_holds_its_lease_until_it_is_dead_too() {
    let (_server, address) = etcd().await;
    let mut leader = Leader::start(&address, &["chores"]);
    leader.leads();
    let daemon = leader.daemon();
    let heir = Heir::in_line(&address, "chores").await;
    leader.kill();
    eventually("it is dead", async || !leader.is_alive()).await;
    heir.waits().await;
    assert!(is_alive(daemon), "nothing is killed for it");
    kill_process(daemon, Signal::KILL).unwrap();
    heir.wins().await;
}

#[tokio::test]
async fn a_signal_to_the_group_leaves_the_guardian_alone() {
    let (_server, address) = etcd().await;
    let mut leader = Leader::start(&address, &["chores"]);
    leader.leads();
    let heir = Heir::in_line(&address, "chores").await;
    leader.signal_group(Signal::KILL);
    heir.wins().await;
}

#[tokio::test]
async fn every_guardian_of_a_process_does_its_part() {
    let (_server, address) = etcd().await;
    let mut leader = Leader::start(&address, &["a", "b", "c"]);
    let mut heirs = Vec::new();
    for _ in 0..3 {
        leader.leads();
    }
    for election in ["a", "b", "c"] {
        heirs.push(Heir::in_line(&address, election).await);
    }
    assert_eq!(leader.guardians().len(), 3);
    leader.kill();
    for heir in heirs {
        heir.wins().await;
    }
}

#[tokio::test]
async fn who_dies_in_line_does_not_keep_its_place() {
    let (_server, address) = etcd().await;
    let first = Heir::of(&address, "chores").await.wins().await;
    let second = Leader::start(&address, &["chores"]);
    let third = Heir::of(&address, "chores").await;
    third.await_line("chores", 2).await;
    second.kill();
    third.await_line("chores", 1).await;
    first.release().await.unwrap();
    third.wins().await;
}

#[tokio::test]
async fn a_clean_close_leaves_no_guardian_behind() {
    let (_server, address) = etcd().await;
    let mut leader = Leader::start(&address, &["chores"]);
    leader.leads();
    let guardians = leader.guardians();
    assert_eq!(guardians.len(), 1);
    leader.tell("close");
    leader.says("closed");
    eventually("it has ended", async || !is_alive(guardians[0])).await;
    assert!(leader.is_alive());
    Heir::of(&address, "chores").await.wins().await;
}

#[tokio::test]
async fn without_its_guardian_the_ttl_counts() {
    let (_server, address) = etcd().await;
    let mut leader = Leader::start(&address, &["chores"]);
    leader.leads();
    leader.tell("guarded");
    assert_eq!(leader.says("guarded"), "true");
    kill_process(leader.guardians()[0], Signal::KILL).unwrap();
    eventually("it is noticed", async || {
        leader.tell("guarded");
        leader.says("guarded") == "false"
    })
    .await;
    let heir = Heir::in_line(&address, "chores").await;
    leader.kill();
    heir.waits().await;
}

#[tokio::test]
async fn no_guardian_is_an_error_that_says_why() {
    let (_server, address) = etcd().await;
    for (address, program, why) in [
        (address.as_str(), "/no/such/program", "there is no program /no/such/program"),
        (&address, "true", "true is no guardian"),
        ("memory:", "true", "a guardian is for engines that people already run"),
    ] {
        let refused = Elections::guarded(address, Guardian::program(program)).await.unwrap_err();
        assert!(matches!(refused, Error::Address { .. }), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    // What is not guarded works as ever.
    let elections = Elections::open(&address).await.unwrap();
    assert!(!elections.is_guarded());
    elections.election("chores").unwrap().ttl(TTL).contend().await.unwrap();
}
