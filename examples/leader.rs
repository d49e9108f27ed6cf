//! Five candidates, one leader. The leader is stopped twice; each time another one takes over,
//! under a higher term, after the old one's work has ended.
//!
//! `cargo run -p examples --bin leader`
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bellwether::{Bellwether, Fence, Leadership};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What only the leader may do. A real one writes somewhere and carries the fence along.
async fn lead(
    who: usize,
    leadership: Leadership,
    working: Arc<AtomicU32>,
    news: mpsc::UnboundedSender<(usize, Fence)>,
) -> Result<(), Failure> {
    let others = working.fetch_add(1, Ordering::SeqCst);
    assert_eq!(others, 0, "exactly one leads at a time");
    // Look at the clock right before every act outside the process.
    news.send((who, leadership.ensure()?))?;
    let reason = leadership.cancelled().await;
    println!("candidate {who} stops: {reason:?}");
    working.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bw = Bellwether::open("memory:").await?;
    let working = Arc::new(AtomicU32::new(0));
    let (news, mut elected) = mpsc::unbounded_channel();

    let mut candidates = Vec::new();
    for who in 0..5 {
        // In production every candidate is a process of its own; here each is a member.
        let member = bw.another_member().await?;
        let election = member.election("nightly-report")?.ttl(Duration::from_secs(1));
        let (working, news) = (Arc::clone(&working), news.clone());
        let elector = election
            .lead(move |leadership| lead(who, leadership, Arc::clone(&working), news.clone()));
        let shutdown = CancellationToken::new();
        let run = tokio::spawn(elector.run(shutdown.clone().cancelled_owned()));
        candidates.push((shutdown, run));
    }
    drop(news);

    let election = bw.election("nightly-report")?;
    let mut last_term = None;
    for round in 1..=3 {
        let waited = tokio::time::timeout(Duration::from_secs(10), elected.recv()).await?;
        let (who, fence) = waited.ok_or("nobody is left to lead")?;
        println!("candidate {who} leads under term {}", fence.term);
        assert!(last_term < Some(fence.term), "terms only grow");
        last_term = Some(fence.term);
        let leader = election.leader().await?.ok_or("the store knows who leads")?;
        assert_eq!(leader.term, fence.term, "and everybody sees the same leader");
        if round < 3 {
            candidates[who].0.cancel();
        }
    }

    for (shutdown, run) in candidates {
        shutdown.cancel();
        run.await??;
    }
    // A work that failed, by the assertion above or otherwise, has left its mark here.
    assert_eq!(working.load(Ordering::SeqCst), 0, "all work has ended in order");
    assert_eq!(election.leader().await?, None, "and the lease is free");
    Ok(())
}
