//! Fleets without a store, over real sockets on loopback: every member is one of its own, and all
//! of them are in this process. Only that things come to pass is asserted, never how fast.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bellwether::fleet::{Fleet, FleetId, FleetOptions, FleetView, Obstacle, Strategy};
use bellwether::{Credential, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SECRET: &str = "known to all members of this test";

/// Quick, with room for a machine that is busy with other tests.
fn options(id: u64) -> FleetOptions {
    FleetOptions {
        beat: Duration::from_millis(50),
        silence: Duration::from_secs(1),
        hold: Duration::from_millis(500),
        ..FleetOptions::new(id)
    }
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| panic!("in time: {what}"))
}

async fn sees(fleet: &Fleet, what: &str, wanted: impl FnMut(&FleetView) -> bool) -> FleetView {
    let mut watch = fleet.watch();
    *in_time(what, watch.wait_for(wanted)).await.unwrap()
}

/// All see the same leader, at the same time, and it is one of `fleets` or gone.
async fn agree(fleets: &[(u64, Fleet)], what: &str, wanted: impl Fn(u64) -> bool) -> u64 {
    in_time(what, async {
        loop {
            let leaders: Vec<Option<FleetId>> =
                fleets.iter().map(|(_, fleet)| fleet.watch().borrow().leader).collect();
            if let Some(Some(FleetId(leader))) = leaders.first().copied()
                && leaders.iter().all(|other| *other == leaders[0])
                && wanted(leader)
                && fleets.iter().any(|(id, fleet)| *id == leader && fleet.watch().borrow().is_us)
            {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// The lowest and the highest id of five fleets, so that no strategy starts with the answer.
const IDS: [u64; 5] = [30, 10, 50, 20, 40];

/// Five members that are told each other's addresses.
async fn five(base: &FleetOptions) -> Vec<(u64, Fleet)> {
    let mut fleets: Vec<(u64, Fleet)> = Vec::new();
    for id in IDS {
        let members = fleets.iter().map(|(_, fleet)| fleet.address().to_string()).collect();
        let options = FleetOptions { id, members, ..base.clone() };
        fleets.push((id, Fleet::join(options).await.unwrap()));
    }
    fleets
}

async fn a_leader_is_closed_and_comes_back(strategy: Strategy, majority_of: Option<u32>) {
    let base = FleetOptions { strategy, majority_of, ..options(0) };
    let mut fleets = five(&base).await;
    let by_rank = |rank: usize| {
        let mut ids = IDS;
        ids.sort_unstable();
        if strategy == Strategy::LowestId { ids[rank] } else { ids[4 - rank] }
    };
    let sticks = strategy == Strategy::Ring;
    let first = agree(&fleets, "a first leader", |id| sticks || id == by_rank(0)).await;

    // Closed without a word: its sockets just go away.
    let at = fleets.iter().position(|(id, _)| *id == first).unwrap();
    let (_, old) = fleets.remove(at);
    let address = old.address();
    drop(old);
    let second =
        agree(&fleets, "a second leader", |id| id != first && (sticks || id == by_rank(1))).await;
    let reign = fleets[0].1.watch().borrow().reign;

    // It comes back where it was, under the same id.
    let members = fleets.iter().map(|(_, fleet)| fleet.address().to_string()).collect();
    let back = FleetOptions { id: first, listen: address.to_string(), members, ..base };
    fleets.push((first, Fleet::join(back).await.unwrap()));
    let third = agree(&fleets, "a third leader", |id| sticks || id == by_rank(0)).await;
    assert!(sticks || (second, third) == (by_rank(1), first), "{first}, {second}, {third}");
    assert!(fleets[0].1.watch().borrow().reign >= reign, "reigns grow while members remember");
    for (_, fleet) in &fleets {
        fleet.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lowest_id_is_followed_and_returns() {
    a_leader_is_closed_and_comes_back(Strategy::LowestId, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bully_is_followed_and_returns() {
    a_leader_is_closed_and_comes_back(Strategy::Bully, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bully_of_a_majority_is_followed_and_returns() {
    a_leader_is_closed_and_comes_back(Strategy::Bully, Some(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ring_goes_on_without_its_leader() {
    a_leader_is_closed_and_comes_back(Strategy::Ring, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_is_enough_to_find_all() {
    let base = FleetOptions { secret: Credential::new(SECRET), ..options(0) };
    let first = Fleet::join(FleetOptions { id: 1, ..base.clone() }).await.unwrap();
    let mut last = first.address();
    let mut fleets = vec![(1, first)];
    for id in 2..=4 {
        // A chain: each is told of the one before it only, and of itself, as lists often do.
        let own = free_address().await;
        let members = vec![last.to_string(), own.to_string()];
        let listen = own.to_string();
        let fleet =
            Fleet::join(FleetOptions { id, members, listen, ..base.clone() }).await.unwrap();
        last = fleet.address();
        fleets.push((id, fleet));
    }
    for (id, fleet) in &fleets {
        in_time("everybody is found", async {
            while fleet.members().iter().filter(|member| member.is_present).count() != 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let others = fleet.members();
        assert!(others.iter().all(|other| other.id != Some(FleetId(*id))), "{id}: {others:?}");
    }
    agree(&fleets, "the highest leads", |id| id == 4).await;
}

async fn free_address() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_is_not_led() {
    let base = FleetOptions { majority_of: Some(5), strategy: Strategy::LowestId, ..options(0) };
    let mut fleets = Vec::new();
    let mut members = Vec::new();
    for id in 1..=2 {
        let options = FleetOptions { id, members: members.clone(), ..base.clone() };
        let fleet = Fleet::join(options).await.unwrap();
        members.push(fleet.address().to_string());
        fleets.push((id, fleet));
    }
    for (_, fleet) in &fleets {
        let alone = |view: &FleetView| view.obstacle == Some(Obstacle::NoMajority);
        assert_eq!(sees(fleet, "two of five", alone).await.leader, None);
        assert!(!fleet.is_trusted());
    }
    let third = Fleet::join(FleetOptions { id: 3, members, ..base }).await.unwrap();
    fleets.push((3, third));
    agree(&fleets, "three of five", |id| id == 1).await;
    fleets.remove(2);
    sees(&fleets[0].1, "it steps down without its majority", |view| !view.is_us).await;
    in_time("nor is it trusted any more", async {
        while fleets[0].1.is_trusted() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_runs_where_the_leader_is_and_ends_before_it_leaves() {
    let base = FleetOptions { majority_of: Some(3), ..options(0) };
    let working = Arc::new(AtomicU32::new(0));
    let mut fleets = Vec::new();
    let mut members = Vec::new();
    for id in 1..=3 {
        let options = FleetOptions { id, members: members.clone(), ..base.clone() };
        let fleet = Arc::new(Fleet::join(options).await.unwrap());
        members.push(fleet.address().to_string());
        let (led, working) = (Arc::clone(&fleet), Arc::clone(&working));
        let run = tokio::spawn(async move {
            led.lead(|reign| {
                let working = Arc::clone(&working);
                async move {
                    if reign.is_trusted() {
                        assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "two work at once");
                        reign.cancelled().await;
                        working.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            })
            .await;
        });
        fleets.push((fleet, run));
    }
    for round in 0..3 {
        let worked = async {
            while working.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if round < 2 {
            in_time("somebody works", worked).await;
            let leads = |fleet: &Fleet| fleet.watch().borrow().is_us;
            let at = fleets.iter().position(|(fleet, _)| leads(fleet)).unwrap_or(0);
            let (fleet, run) = fleets.remove(at);
            in_time("it leaves", fleet.leave()).await;
            in_time("its work has ended", run).await.unwrap();
            assert!(!fleet.is_trusted());
        }
    }
    // One of three is left: no majority, no work.
    let (fleet, run) = fleets.pop().unwrap();
    sees(&fleet, "nobody leads", |view| view.leader.is_none()).await;
    fleet.leave().await;
    in_time("the last work has ended", run).await.unwrap();
    assert_eq!(working.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_do_no_harm() {
    let secret = Credential::new(SECRET);
    let fleet = Fleet::join(FleetOptions { secret: secret.clone(), ..options(1) }).await.unwrap();
    sees(&fleet, "alone it leads", |view| view.is_us).await;
    let garbage: [&[u8]; 4] = [b"", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], b"BWF1"];
    for bytes in garbage {
        let mut stream = TcpStream::connect(fleet.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        // Whatever it is answered, the connection ends. A reset is an end, too.
        let _ = in_time("it is shown out", stream.read_to_end(&mut Vec::new())).await;
    }
    // A greeting in order, and then frames that nobody sealed.
    let mut stream = TcpStream::connect(fleet.address()).await.unwrap();
    stream.write_all(b"BWF1sixteen bytes ok").await.unwrap();
    stream.write_all(&[10, 0, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
    stream.write_all(&[0; 64]).await.unwrap();
    let _ = in_time("it is shown out", stream.read_to_end(&mut Vec::new())).await;

    // Another secret, and another idea of the rules: told at whoever calls.
    let members = vec![fleet.address().to_string()];
    let wrong = Credential::new("quite another secret");
    let other = FleetOptions { members: members.clone(), secret: wrong, ..options(2) };
    let other = Fleet::join(other).await.unwrap();
    assert!(!trouble(&other).await.is_empty());
    let strategy = Strategy::Ring;
    let ring = FleetOptions { members, secret, strategy, ..options(3) };
    let ring = Fleet::join(ring).await.unwrap();
    let why = trouble(&ring).await;
    assert!(why.contains("its strategy is Bully and ours is Ring"), "{why}");
    assert!(fleet.watch().borrow().is_us, "and nothing of it changed who leads");
    assert_eq!(fleet.members(), [], "nobody was believed");
}

async fn trouble(fleet: &Fleet) -> String {
    in_time("it is told what is wrong", async {
        loop {
            if let Some(why) = fleet.members().first().and_then(|other| other.trouble.clone()) {
                return why;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_used_twice_leads_nowhere() {
    let first = Fleet::join(options(1)).await.unwrap();
    let members = vec![first.address().to_string()];
    let second = Fleet::join(FleetOptions { members, ..options(1) }).await.unwrap();
    for fleet in [&first, &second] {
        let twice = |view: &FleetView| view.obstacle == Some(Obstacle::DuplicateId);
        assert!(!sees(fleet, "they meet", twice).await.is_us);
    }
}

#[tokio::test]
async fn other_machines_need_a_secret() {
    let told = |result: Result<Fleet, Error>| result.err().unwrap().to_string();
    let open = FleetOptions { listen: "0.0.0.0:0".into(), ..options(1) };
    let why = told(Fleet::join(open.clone()).await);
    assert!(why.contains("give all members the same `secret`"), "{why}");
    let far = FleetOptions { members: vec!["192.0.2.1:7405".into()], ..options(1) };
    let why = told(Fleet::join(far.clone()).await);
    assert!(why.contains("192.0.2.1:7405") && why.contains("`secret`"), "{why}");

    let secret = Credential::new("short");
    let why = told(Fleet::join(FleetOptions { secret, ..far.clone() }).await);
    assert!(why.contains("16 bytes"), "{why}");
    let secret = Credential::new(SECRET);
    let why = told(Fleet::join(FleetOptions { secret: secret.clone(), ..open.clone() }).await);
    assert!(why.contains("`advertise`"), "{why}");
    let advertise = Some("127.0.0.1:1".to_owned());
    let told_where = FleetOptions { secret: secret.clone(), advertise, ..open };
    assert!(Fleet::join(told_where).await.is_ok());
    assert!(Fleet::join(FleetOptions { secret, ..far }).await.is_ok());

    let nowhere = FleetOptions { members: vec!["no port".into()], ..options(1) };
    let why = told(Fleet::join(nowhere).await);
    assert!(why.contains("HOST:PORT"), "{why}");
}
