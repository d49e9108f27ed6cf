//! Shards: everybody leads a fair part, nobody the same one twice, and nothing is left without a
//! leader for longer than a look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::{Error, Refusal, Term};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::World;

const COUNT: u32 = 24;

/// Who leads what, as the leaders themselves say.
#[derive(Clone, Default)]
struct Floor {
    led: Arc<Mutex<BTreeMap<u32, (usize, Term)>>>,
    last: Arc<Mutex<BTreeMap<u32, Term>>>,
}

impl Floor {
    fn enter(&self, shard: u32, who: usize, term: Term) {
        let beside = self.led.lock().unwrap().insert(shard, (who, term));
        assert_eq!(beside, None, "two lead shard {shard}");
        let before = self.last.lock().unwrap().insert(shard, term);
        assert!(before < Some(term), "terms of shard {shard} only grow");
    }

    fn leave(&self, shard: u32) {
        self.led.lock().unwrap().remove(&shard);
    }

    /// How many each leads.
    fn loads(&self, members: usize) -> Vec<usize> {
        let led = self.led.lock().unwrap();
        (0..members).map(|who| led.values().filter(|(by, _)| *by == who).count()).collect()
    }
}

struct Part {
    shutdown: CancellationToken,
    run: JoinHandle<Result<(), Error>>,
}

async fn join(world: &World, floor: &Floor, who: usize, weight: u32) -> Part {
    let member = world.bw.another_member().await.unwrap();
    let shards = member.shards("orders", COUNT).unwrap().weight(weight);
    let shards = shards.configure(|election| election.ttl(Duration::from_secs(10)));
    let (floor, shutdown) = (floor.clone(), CancellationToken::new());
    let work = move |shard, leadership: bellwether::Leadership| {
        let floor = floor.clone();
        async move {
            floor.enter(shard, who, leadership.term());
            leadership.cancelled().await;
            floor.leave(shard);
        }
    };
    let run = tokio::spawn(shards.run(work, shutdown.clone().cancelled_owned()));
    world.pass(6_000).await;
    Part { shutdown, run }
}

#[tokio::test]
async fn shards_follow_the_members_that_come_and_go() {
    let (world, floor) = (World::new().await, Floor::default());
    let mut parts = Vec::new();
    for (who, loads) in [vec![24], vec![12, 12], vec![8, 8, 8]].into_iter().enumerate() {
        parts.push(join(&world, &floor, who, 1).await);
        assert_eq!(floor.loads(who + 1), loads);
    }
    // One twice as strong as each of the others.
    parts.push(join(&world, &floor, 3, 2).await);
    assert_eq!(floor.loads(4), [5, 5, 5, 9], "24 by 1, 1, 1 and 2");

    // One leaves in order: what it led is led by those who stood by at once, and evenly soon.
    let left = parts.remove(0);
    left.shutdown.cancel();
    left.run.await.unwrap().unwrap();
    world.settle().await;
    assert_eq!(floor.loads(4).iter().sum::<usize>(), 24, "before anybody had to look");
    world.pass(6_000).await;
    assert_eq!(floor.loads(4), [0, 6, 6, 12]);
}

#[tokio::test]
async fn what_cannot_be_spread_is_refused() {
    let world = World::new().await;
    for count in [0, bellwether::shards::SHARDS_MAX + 1] {
        let refused = world.bw.shards("orders", count).expect_err("no such count");
        assert!(refused.to_string().contains("count of shards"), "{refused}");
    }
    let weightless = world.bw.shards("orders", 1).unwrap().weight(0);
    let refused = weightless.run(|_, _| async {}, std::future::pending::<()>()).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidValue { what: "weight", .. }))));
    assert!(world.bw.shards(&"x".repeat(2_000), 1).is_err(), "no name is that long");
}
