//! Processes that are started, killed and measured.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether::{Bellwether, Queue, QueueSettings};
use bytes::Bytes;

use crate::sqlite::Sqlite;
use crate::{local, machine};

const FILLERS: u64 = 4;
pub(crate) const FILL_BATCH: u64 = 500;

/// This program once more, to do something else.
pub(crate) fn this_program(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(arguments);
    command
}

/// What is measured.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Engine {
    Bellwether,
    Sqlite,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bellwether => "bellwether",
            Self::Sqlite => "sqlite",
        })
    }
}

/// Does so many cycles and ends.
pub(crate) async fn count(engine: Engine, folder: &Path, waiting: u64, cycles: u64, callers: u64) {
    let each = cycles / callers;
    let mut tasks = Vec::new();
    match engine {
        Engine::Bellwether => {
            let (bw, queue) = store(folder).await;
            fill(&queue, waiting).await;
            for _ in 0..callers {
                let queue = queue.clone();
                tasks.push(tokio::spawn(async move {
                    for _ in 0..each {
                        local::cycle(&queue, 256).await;
                    }
                }));
            }
            join(tasks).await;
            bw.close().await;
        }
        Engine::Sqlite => {
            let sqlite = Arc::new(Sqlite::open(folder));
            for _ in 0..callers {
                let sqlite = Arc::clone(&sqlite);
                tasks.push(tokio::spawn(async move {
                    for _ in 0..each {
                        sqlite.cycle(&[0x42; 256]).await;
                    }
                }));
            }
            join(tasks).await;
        }
    }
}

async fn join(tasks: Vec<tokio::task::JoinHandle<()>>) {
    for task in tasks {
        task.await.expect("done");
    }
}

async fn store(folder: &Path) -> (Bellwether, Queue) {
    let bw = Bellwether::open(format!("file:{}", folder.display())).await.expect("a store");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    (bw, queue)
}

/// Sends so many messages.
pub(crate) async fn fill(queue: &Queue, waiting: u64) {
    let body = Bytes::from(vec![0x42u8; 256]);
    let tasks = (0..FILLERS).map(|_| {
        let (queue, body) = (queue.clone(), body.clone());
        tokio::spawn(async move {
            for _ in 0..waiting / FILLERS / FILL_BATCH {
                let batch = (0..FILL_BATCH).map(|_| body.clone());
                queue.send_batch(batch).await.expect("sent");
            }
        })
    });
    join(tasks.collect()).await;
}

/// Works on a store, then fills it, and prints how much memory that took: what waiting messages need
/// is asked, not what a program needs to work on any.
pub(crate) async fn grow(folder: &Path, waiting: u64) {
    let (bw, queue) = store(folder).await;
    let body = Bytes::from(vec![0x42u8; 256]);
    let at_work = |until| local::cycle_batches(bw.clone(), queue.clone(), body.clone(), until);
    local::round(16, at_work).await;
    let before = machine::resident_bytes();
    fill(&queue, waiting).await;
    println!("{}", machine::resident_bytes().saturating_sub(before));
    bw.close().await;
}

/// Fills a store, says so, and works on it until somebody kills this process.
pub(crate) async fn load(folder: &Path, waiting: u64) {
    let (_bw, queue) = store(folder).await;
    fill(&queue, waiting).await;
    println!("filled");
    std::io::stdout().flush().expect("a parent that listens");
    let body = Bytes::from(vec![0x42u8; 256]);
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (queue, body) = (queue.clone(), body.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                queue.send_batch((0..8).map(|_| body.clone())).await.expect("sent");
                let wait = Duration::from_secs(1);
                for delivery in queue.receive().max(8).wait(wait).many().await.expect("received") {
                    delivery.complete().await.expect("completed");
                }
            }
        }));
    }
    join(tasks).await;
}

/// Opens a store and prints how long it took, what it holds and what memory that needs.
pub(crate) async fn open(folder: &Path) {
    let before = machine::resident_bytes();
    let start = Instant::now();
    let bw = Bellwether::open(format!("file:{}", folder.display())).await.expect("a store");
    let took = start.elapsed();
    let after = machine::resident_bytes();
    let queue = bw.queue("bench").expect("a name");
    let counts = queue.info().await.expect("the queue").counts;
    println!("{} {} {}", took.as_micros(), counts.ready + counts.locked, after - before);
    bw.close().await;
}
