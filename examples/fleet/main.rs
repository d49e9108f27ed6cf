//! A fleet: five instances of one program, each a process of its own. One of them leads and plans;
//! all of them work. The leader is killed, then asked to hand over, then scaled away, and no work
//! is lost or done twice.
//!
//! ```text
//!   plans ──► the leader ──► items ──► five pumps ──► results
//!                  └──► notes, a session for each instance: how the leader speaks to one of them
//! ```
//!
//! `cargo run -p examples --bin fleet`
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod instance;
mod operator;

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::pump::Failure;
use bellwether::{Bellwether, Message, QueueSettings, Stopwatch};
use operator::{Fleet, listen};

const INSTANCES: usize = 5;
const ITEMS_PER_PLAN: u64 = 3;
/// So much must be done under a leader before the next thing happens to it.
const RESULTS_PER_ACT: usize = 60;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(address), Some(name)) => instance::run(&address, &name).await,
        _ => story().await,
    }
}

async fn story() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("bellwether-fleet-{}", std::process::id()));
    let bw = Bellwether::open(format!("file:{}", folder.display())).await?;
    // Whoever dies with a message in its hands holds it up for a second, not for a minute. What is
    // sent twice under one id is there once: that is what makes doing a plan again harmless.
    let settings = QueueSettings {
        lock_ms: 1000,
        duplicate_window_ms: Some(600_000),
        ..QueueSettings::default()
    };
    for queue in ["plans", "items", "results"] {
        bw.create_queue(queue, settings.clone()).await?;
    }
    let settings = QueueSettings { sessions: true, ..QueueSettings::default() };
    bw.create_queue("notes", settings).await?;
    let address = listen(&bw, &folder)?;

    // Work comes in all the time, whatever happens to the fleet.
    let plans = bw.queue("plans")?;
    let posting = tokio::spawn(async move {
        for number in 1.. {
            plans.send(Message::new(number.to_string()).id(format!("plan-{number}"))).await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
            if number >= 200 {
                break;
            }
        }
        Ok::<(), bellwether::Error>(())
    });
    let results = Results::default();
    let collecting = tokio::spawn(collect(bw.clone(), results.clone()));

    let mut fleet = Fleet::start(&bw, &address, INSTANCES)?;
    let first = fleet.leader_after(None).await?;
    println!("{} leads under term {}", first.metadata, first.term);
    results.more(RESULTS_PER_ACT).await;

    println!("{} is killed", first.metadata);
    fleet.kill(&first.metadata)?;
    let second = fleet.leader_after(Some(first.term)).await?;
    println!("{} leads under term {}: {}", second.metadata, second.term, fleet.why().await?);
    results.more(RESULTS_PER_ACT).await;

    let heir = fleet.last_in_line().await?;
    println!("{} is asked to hand over to the last in line", second.metadata);
    bw.lease(instance::ELECTION)?.hand_over(heir).await?;
    let third = fleet.leader_after(Some(second.term)).await?;
    println!("{} leads under term {}: {}", third.metadata, third.term, fleet.why().await?);
    assert_eq!(third.member, heir, "the one that was named");
    results.more(RESULTS_PER_ACT).await;

    println!("{} and another one are scaled away", third.metadata);
    let statuses = fleet.scale_in(&third.metadata).await?;
    assert!(statuses.iter().all(ExitStatus::success), "who is told to stop ends in order");
    let fourth = fleet.leader_after(Some(third.term)).await?;
    println!("{} leads under term {}: {}", fourth.metadata, fourth.term, fleet.why().await?);

    posting.await??;
    let expected = (200 * ITEMS_PER_PLAN) as usize;
    results.reach(expected).await;
    collecting.abort();
    fleet.stop().await?;
    assert_eq!(bw.election(instance::ELECTION)?.leader().await?, None, "and the lease is free");

    results.tell();
    let (items, dead) = (bw.queue("items")?.info().await?, bw.queue("plans")?.info().await?);
    assert_eq!(items.totals.completed as usize, expected, "every item was completed once");
    assert_eq!(items.counts.dead_letters + dead.counts.dead_letters, 0, "nothing was set aside");
    bw.close().await;
    Ok(std::fs::remove_dir_all(folder)?)
}

/// Which item was done by whom, and the longest time in which nothing was done.
#[derive(Clone, Debug, Default)]
struct Results {
    state: Arc<Mutex<(BTreeMap<String, String>, Duration)>>,
}

impl Results {
    fn count(&self) -> usize {
        self.state.lock().expect("nobody panics with it").0.len()
    }

    async fn more(&self, count: usize) {
        self.reach(self.count() + count).await;
    }

    async fn reach(&self, count: usize) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn tell(&self) {
        let (done, pause) = &*self.state.lock().expect("nobody panics with it");
        let mut shares = BTreeMap::<&str, u64>::new();
        for who in done.values() {
            *shares.entry(who).or_default() += 1;
        }
        let shares: Vec<String> = shares.iter().map(|(who, n)| format!("{who}: {n}")).collect();
        println!("{} items, each done once ({})", done.len(), shares.join(", "));
        println!("longest pause between two results: {} ms", pause.as_millis());
    }
}

async fn collect(bw: Bellwether, results: Results) -> Result<(), bellwether::Error> {
    let queue = bw.queue("results")?;
    let mut last: Option<Stopwatch> = None;
    loop {
        let batch = queue.receive().max(100).wait(Duration::from_secs(1)).many().await?;
        for result in batch {
            let (item, who) =
                (result.id.clone().unwrap_or_default(), result.text().unwrap_or_default());
            {
                let (done, pause) = &mut *results.state.lock().expect("nobody panics with it");
                let before = done.insert(item.clone(), who.to_owned());
                assert_eq!(before, None, "{item} has one result");
                *pause = last.map_or(*pause, |last| last.elapsed().max(*pause));
            }
            last = Some(Stopwatch::start());
            result.complete().await?;
        }
    }
}
