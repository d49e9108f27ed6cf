//! The program that dies: it leads or consumes, until it is killed.
//!
//! ```sh
//! death_child ADDRESS ELECTION…
//! death_child ADDRESS --consume QUEUE
//! ```
//!
//! Who consumes says what each message was, and only then completes it; a message that says `poison`
//! kills it.
//!
//! Each election has a member of its own; one whose name begins with `connected` is to be released
//! when the connection is closed. Whenever one is won it says so, with the term and when that was, in
//! nanoseconds of the boot clock.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::io::Write as _;
use std::time::Duration;

use bellwether::Bellwether;
use rustix::time::{ClockId, clock_gettime};

const TTL: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("usage: death_child ADDRESS ELECTION…");
    let arguments: Vec<String> = arguments.collect();
    if let [flag, queue] = &arguments[..]
        && flag == "--consume"
    {
        return consume(&address, queue).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for name in arguments {
        let store = Bellwether::open(&address).await.unwrap();
        tasks.spawn(lead(store, name));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn lead(store: Bellwether, name: String) {
    let election = store.election(&name).unwrap().ttl(TTL);
    let election = election.release_on_disconnect(name.starts_with("connected"));
    loop {
        let leadership = election.contend().await.unwrap();
        let now = clock_gettime(ClockId::Boottime);
        say(&format!("leads {name} {} {}{:09}\n", leadership.term(), now.tv_sec, now.tv_nsec));
        leadership.cancelled().await;
    }
}

async fn consume(address: &str, queue: &str) {
    let store = Bellwether::open(address).await.unwrap();
    let pump = store.queue(queue).unwrap().pump().concurrency(4);
    let handler = async |work: bellwether::Work| {
        let body = work.text().unwrap().to_owned();
        if body.starts_with("poison") {
            std::process::abort();
        }
        // Long enough that others are in work beside it.
        tokio::task::yield_now().await;
        say(&format!("did {body}\n"));
    };
    pump.run(handler, tokio_util::sync::CancellationToken::new()).await.unwrap();
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}
