//! The program that is killed: it works on a store and says every fact, one a line, when it is
//! acknowledged and not before. `try` lines say what is about to be asked.
//!
//! ```sh
//! crash_child FOLDER LIFE
//! ```

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod store;

use std::io::Write as _;
use std::time::Duration;

use bellwether::core::chance::Chance;
use bellwether::core::command::{Acquire, Command, LeaseKind, Request};
use bellwether::core::name::{LeaseId, LeaseName, RequestNumber};
use bellwether::core::outcome::Outcome;
use bellwether::{Bellwether, Error, Message, Queue};

use store::{QUEUE, SESSIONS, body_of, open};

const LEASE: &str = "leader";

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, life] = &arguments[..] else { panic!("usage: crash_child FOLDER LIFE") };
    let bellwether = open(folder).open().await.unwrap();
    say("open");
    let queue = bellwether.queue(QUEUE).unwrap();
    let sessions = bellwether.queue(SESSIONS).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..3 {
        tasks.spawn(sender(queue.clone(), format!("{life}-{task}")));
    }
    for task in 0..3 {
        tasks.spawn(receiver(queue.clone(), task));
    }
    tasks.spawn(session_worker(sessions, life.clone()));
    tasks.spawn(leader(bellwether.clone(), life.parse().unwrap()));
    if let Some(ended) = tasks.join_next().await {
        let error = ended.unwrap().unwrap_err();
        panic!("a task ended: {error}");
    }
}

/// One line, in one write: the parent sees it whole or not at all.
fn say(fact: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("fact {fact}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

async fn sender(queue: Queue, name: String) -> Result<(), Error> {
    let mut chance = Chance::new(name.bytes().map(u64::from).sum());
    for n in 0.. {
        let ids: Vec<String> = (0..=chance.below(4)).map(|i| format!("{name}-{n}-{i}")).collect();
        say(&format!("try send {}", ids.join(" ")));
        let messages = ids.iter().map(|id| Message::new(body_of(id)).id(id.clone()));
        let sent = queue.send_batch(messages).await?;
        let sent: Vec<String> =
            ids.iter().zip(sent).map(|(id, sequence)| format!("{id}={sequence}")).collect();
        say(&format!("sent {}", sent.join(" ")));
        if chance.below(3) == 0 {
            tokio::time::sleep(Duration::from_micros(chance.below(800))).await;
        }
    }
    Ok(())
}

async fn receiver(queue: Queue, task: u64) -> Result<(), Error> {
    let mut chance = Chance::new(task);
    loop {
        let wait = Duration::from_secs(10);
        for mut delivery in queue.receive().max(4).wait(wait).many().await? {
            let id = delivery.id.clone().unwrap_or_default();
            say(&format!("got {id} {} {}", delivery.sequence(), delivery.deliveries()));
            match chance.below(12) {
                0 => {
                    delivery.set_property("tries", delivery.deliveries());
                    delivery.abandon().await?;
                    say(&format!("abandoned {id}"));
                }
                1 => {
                    say(&format!("try dead {id}"));
                    delivery.dead_letter("Chosen", "by chance").await?;
                    say(&format!("dead {id}"));
                }
                2 => {
                    say(&format!("try defer {id}"));
                    delivery.defer().await?;
                    say(&format!("deferred {id}"));
                }
                _ => {
                    say(&format!("try complete {id}"));
                    delivery.complete().await?;
                    say(&format!("completed {id}"));
                }
            }
        }
    }
}

/// Keeps a count in the session's state: what is said was acknowledged.
async fn session_worker(queue: Queue, life: String) -> Result<(), Error> {
    for n in 0_u64.. {
        queue.send(Message::new(format!("{life}-{n}")).session("s")).await?;
        // A killed holder's hold lasts on; this one waits for it like anybody else.
        let accept = queue.accept_session().wait(Duration::from_secs(60)).named("s");
        let session = accept.await?;
        let state = session.state().await?;
        let count = state.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
        say(&format!("try count {}", count + 1));
        session.set_state(Some((count + 1).to_le_bytes().to_vec().into())).await?;
        say(&format!("count {}", count + 1));
        session.close().await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn leader(bellwether: Bellwether, life: u128) -> Result<(), Error> {
    let lease = LeaseName::new(LEASE).unwrap();
    let ask = async |command| {
        let (member, number) = (bellwether.slot(), RequestNumber(0));
        let request = Request { member, number, answered_below: number, command, fence: None };
        Ok::<_, Error>(bellwether.call(request, Vec::new()).await?.outcome)
    };
    for n in 1.. {
        let id = LeaseId(life << 64 | n);
        let acquire = Acquire {
            lease: lease.clone(),
            id,
            kind: LeaseKind::Standing,
            // As short as can be: what a killed holder held ends soon.
            ttl_ms: 100,
            metadata: String::new(),
            wait_ms: 10_000,
            priority: 0,
            slots: 1,
        };
        let Outcome::Granted { term, .. } = ask(Command::Acquire(acquire)).await? else {
            panic!("a grant")
        };
        say(&format!("term {term}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let release = Command::ReleaseLease { lease: lease.clone(), id, successor: None };
        // Refused if it took longer than the lease lasts: then the next grant is a new term all
        // the same.
        let _ = ask(release).await;
    }
    Ok(())
}
