//! Deaths of real processes: what the kernel proves is acted on at once, and nothing else is.
//!
//! Every lease here lasts 60 seconds: whoever follows within the time of a test does so because a
//! death was seen.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod consumers;
mod world;

use bellwether::wire::accept::Peer;
use world::{Leader, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_is_followed_at_once_by_whoever_waits() {
    let world = World::new("killed", Peer::of).await;
    let elections = ["a", "b", "c"];
    let (mut leader, term) = Leader::start(&world.socket(), &elections).leads(3).await;
    let mut heirs = Vec::new();
    for election in elections {
        heirs.push(world.heir(election).await);
    }
    leader.kill();
    for heir in heirs {
        // The terms of other elections may be of the same millisecond.
        assert!(heir.wins().await >= term, "every member of the process has died");
    }
    assert_eq!(world.store.members().await.unwrap().len(), 4, "and is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_process_is_not_dead_until_it_is() {
    let world = World::new("frozen", Peer::of).await;
    let (mut leader, _) = Leader::start(&world.socket(), &["a"]).leads(1).await;
    let heir = world.heir("a").await;
    leader.freeze();
    heir.waits().await;
    leader.kill();
    heir.wins().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_is_no_death_and_a_death_needs_no_connection() {
    let mut world = World::new("closed", Peer::of).await;
    let (mut leader, term) = Leader::start(&world.socket(), &["a"]).leads(1).await;
    let heir = world.heir("a").await;
    // It comes back by itself.
    world.cut();
    heir.waits().await;
    // It cannot come back.
    world.shut();
    heir.waits().await;
    let info = world.store.election("a").unwrap().leader().await.unwrap();
    assert_eq!(info.map(|leader| leader.term), Some(term));
    leader.kill();
    heir.wins().await;
}

/// As ssh does it, or a proxy: the process that connected is not the one that leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_through_a_tunnel_is_not_watched() {
    let mut world = World::new("tunnel", Peer::of).await;
    let tunnel = world.tunnel();
    let (mut leader, _) = Leader::start(&tunnel, &["a"]).leads(1).await;
    let heir = world.heir("a").await;
    leader.kill();
    heir.waits().await;
}

/// As the kernel tells it of a process in another namespace: nobody can say which one it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_the_kernel_cannot_name_is_not_watched() {
    let world = World::new("unnamed", |_| Peer::default()).await;
    let (mut leader, _) = Leader::start(&world.socket(), &["a"]).leads(1).await;
    let heir = world.heir("a").await;
    leader.kill();
    heir.waits().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_only_what_asked_for_it_is_free_when_the_connection_is_closed() {
    let mut world = World::new("tcp", Peer::of).await;
    let address = world.tcp().await;
    let (mut leader, _) = Leader::start(&address, &["connected", "bound"]).leads(2).await;
    let (connected, bound) = (world.heir("connected").await, world.heir("bound").await);
    leader.freeze();
    connected.waits().await;
    leader.kill();
    connected.wins().await;
    bound.waits().await;
}
