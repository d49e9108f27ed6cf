//! Consumers that are killed, and messages that kill them.
//!
//! ```sh
//! cargo test --all-features -p bellwether --test death consumers                              # small
//! MESSAGES=1000000 cargo test --release --all-features -p bellwether --test death consumers   # large
//! ```

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::core::chance::Chance;
use bellwether::core::name::SequenceNumber;
use bellwether::wire::accept::Peer;
use bellwether::{Failures, QueueSettings};

use crate::world::World;

const MESSAGES: u64 = 3_000;
const POISON: u64 = 3;
const CONSUMERS: usize = 3;
/// A kill for so many messages, by chance.
const MESSAGES_PER_KILL: u64 = 250;
const BATCH: usize = 1_000;
const DELIVERIES_MAX: u32 = 20;

type Effects = Arc<Mutex<BTreeSet<String>>>;

/// L5, M62 to M65: consumers are killed at random moments, and some messages kill them. What was done
/// is what was sent, the dead letters are the messages that kill and no others, and nobody was
/// delivered more often than it may be. Locks last an hour: whatever was lost is back because a death
/// was seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_die_and_only_what_kills_them_is_set_aside() {
    let wanted = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let messages: u64 = wanted("MESSAGES").unwrap_or(MESSAGES);
    let seed: u64 = wanted("BELLWETHER_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("BELLWETHER_SEED={seed}");
    let mut chance = Chance::new(seed);
    let world = World::new("consumers", Peer::of).await;
    // One that is only unlucky is not killed six times while it is alone.
    let failures = Failures { crashes_max: 5, ..Failures::default() };
    let lock_ms = 3_600_000;
    let settings =
        QueueSettings { lock_ms, deliveries_max: DELIVERIES_MAX, failures, ..<_>::default() };
    let queue = world.store.create_queue("work", settings).await.unwrap();
    let mut bodies: Vec<String> = (0..messages).map(|n| format!("message {n}")).collect();
    for n in 0..POISON {
        let at = chance.below(bodies.len() as u64) as usize;
        bodies.insert(at, format!("poison {n}"));
    }
    for batch in bodies.chunks(BATCH) {
        queue.send_batch(batch.iter().map(String::as_str)).await.unwrap();
    }
    let effects = Effects::default();
    let mut consumers: Vec<Child> =
        (0..CONSUMERS).map(|_| start(&world.socket(), &effects)).collect();
    let mut next_kill = chance.below(2 * MESSAGES_PER_KILL);
    let (mut kills, mut deaths) = (0, 0);
    loop {
        let counts = queue.info().await.unwrap().counts;
        if counts.ready + counts.locked + counts.scheduled == 0 {
            break;
        }
        let done = effects.lock().unwrap().len() as u64;
        if done >= next_kill {
            next_kill = done + chance.below(2 * MESSAGES_PER_KILL);
            let index = chance.below(CONSUMERS as u64) as usize;
            consumers[index].kill().unwrap();
            kills += 1;
        }
        for consumer in &mut consumers {
            if consumer.try_wait().unwrap().is_some() {
                deaths += 1;
                *consumer = start(&world.socket(), &effects);
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for consumer in &mut consumers {
        consumer.kill().unwrap();
        consumer.wait().unwrap();
    }
    println!("{messages} messages, {kills} kills, {deaths} deaths of consumers");
    let sent: BTreeSet<String> = (0..messages).map(|n| format!("message {n}")).collect();
    assert_eq!(*effects.lock().unwrap(), sent, "what was done is what was sent");
    let dead = queue.dead_letters().peek(SequenceNumber(0), 100).await.unwrap();
    let letters: BTreeSet<String> =
        dead.iter().map(|letter| letter.message().unwrap().text().unwrap().to_owned()).collect();
    assert_eq!(letters, (0..POISON).map(|n| format!("poison {n}")).collect());
    for letter in &dead {
        assert_eq!(letter.dead_letter_reason(), Some("ConsumerCrashed"), "{letter:?}");
        assert!(letter.deliveries() <= DELIVERIES_MAX, "{letter:?}");
    }
    assert!(deaths >= kills && deaths >= 6 * POISON, "{deaths} deaths, {kills} kills");
}

/// A consumer, and somebody who writes down what it says.
fn start(address: &str, effects: &Effects) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_death_child"))
        .args([address, "--consume", "work"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let effects = Arc::clone(effects);
    std::thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            if let Some(body) = line.strip_prefix("did ") {
                effects.lock().unwrap().insert(body.to_owned());
            }
        }
    });
    child
}
