//! The program is killed at random moments, and opened again.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use bellwether::VirtualClock;
use bellwether::core::chance::Chance;

use crate::ledger_of_facts::Facts;
use crate::opening::{Folder, create, start_child};
use crate::store::open;

const KILLS: u32 = 50;

/// D1, D4, D7, D8, L5, L8, E1: fifty kills lose nothing that was acknowledged, bring nothing back
/// that was settled, and use no number twice.
#[test]
fn fifty_kills_lose_nothing() {
    let seed = match std::env::var("BELLWETHER_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => u64::from(std::process::id()),
    };
    println!("BELLWETHER_SEED={seed}");
    let mut chance = Chance::new(seed);
    let folder = Folder::new("kills");
    let mut facts = Facts::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(create(&folder.path));
    for life in 0..KILLS {
        for line in live_and_die(&folder.path, life, &mut chance) {
            facts.hear(&line);
        }
        let patient = chance.below(2) == 0;
        runtime.block_on(async {
            // Opens at once: the lock died with its holder.
            let clock = VirtualClock::new();
            let open = open(&folder.path);
            let open = if patient { open.clock(clock.clone()) } else { open };
            let bellwether = open.open().await.unwrap();
            facts.check(&bellwether).await;
            if patient {
                clock.advance(Duration::from_secs(3600));
                bellwether.queues().await.unwrap();
                facts.check_free(&bellwether).await;
            }
            if chance.below(2) == 0 {
                bellwether.close().await;
            }
        });
    }
    println!("{KILLS} kills, {} facts, {} messages completed", facts.lines, facts.completed());
    assert!(facts.completed() > 1000, "too little was tried");
}

/// One life: what the child said before it was killed.
fn live_and_die(folder: &str, life: u32, chance: &mut Chance) -> Vec<String> {
    let mut child = start_child(folder, life);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ms = chance.below(400);
    // Some die while they open, some in their first moments, the others at work.
    if chance.below(5) == 0 {
        ms = chance.below(60);
    } else {
        let opened = lines.by_ref().find(|line| line.as_ref().is_ok_and(|l| l == "fact open"));
        assert!(opened.is_some(), "life {life}: the child did not open its store");
    }
    let hearing = std::thread::spawn(move || lines.map_while(Result::ok).collect());
    std::thread::sleep(Duration::from_millis(ms));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "life {life}: it ended by itself, {status}");
    hearing.join().unwrap()
}
