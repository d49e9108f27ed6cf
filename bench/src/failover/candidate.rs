//! A process that contends for an election and does what its parent says while it leads.
//!
//! ```text
//!   contend ─► "leads NS" ─► release ─► "left NS" ─┐        NS: when it began to lead, to step down,
//!      ▲                  ─► stall ───► "left NS" ─┤            or when its limit was over
//!      └───────────────────── "lost NS" ◄──────────┘
//! ```

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use bellwether::guardian::Guardian;
use bellwether::{Elections, LeadershipGuard};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::boot_ns;

/// Contends until its input ends.
pub(crate) async fn candidate(address: &str, name: &str, ttl_ms: u64, stall_ms: u64) {
    let elections = open(address).await;
    let mut election = elections.election(name).expect("a name").ttl(Duration::from_millis(ttl_ms));
    if stall_ms > 0 {
        election = election.stall(Duration::from_millis(stall_ms));
    }
    let mut words = words();
    loop {
        let leadership = tokio::select! {
            won = election.contend() => won.expect("an election"),
            // Whatever is said to somebody who does not lead comes too late.
            word = words.recv() => match word {
                Some(_) => continue,
                None => return,
            },
        };
        if leadership.ensure().is_err() {
            continue;
        }
        say("leads", boot_ns());
        if serve(leadership, &mut words, stall_ms).await.is_none() {
            return;
        }
    }
}

/// On an engine of others with a guardian, which is this program again.
async fn open(address: &str) -> Elections {
    let opened = if address.starts_with("bellwether") {
        Elections::open(address).await
    } else {
        let program = std::env::current_exe().expect("this program");
        Elections::guarded(address, Guardian::program(program)).await
    };
    opened.expect("a connection")
}

/// One term; `None` if there is nobody any more to say what to do.
async fn serve(
    leadership: LeadershipGuard,
    words: &mut UnboundedReceiver<String>,
    stall_ms: u64,
) -> Option<()> {
    let pause = Duration::from_millis((stall_ms / 4).max(1));
    let word = loop {
        tokio::select! {
            word = words.recv() => break word?,
            _ = leadership.cancelled() => {
                say("lost", boot_ns());
                return Some(());
            }
            () = tokio::time::sleep(pause), if stall_ms > 0 => leadership.progress(),
        }
    };
    match word.as_str() {
        "release" => {
            let left = boot_ns();
            leadership.release().await.expect("given back");
            say("left", left);
        }
        "stall" => {
            let left = boot_ns() + stall_ms * 1_000_000;
            leadership.progress();
            leadership.cancelled().await;
            leadership.release().await.expect("given back");
            say("left", left);
        }
        other => panic!("what is {other:?}?"),
    }
    Some(())
}

fn say(what: &str, at_ns: u64) {
    let mut out = std::io::stdout();
    // Without a parent there is nobody to tell.
    let _ = out.write_all(format!("{what} {at_ns}\n").as_bytes()).and_then(|()| out.flush());
}

/// What comes in, line by line.
pub(super) fn words() -> UnboundedReceiver<String> {
    let (said, words) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                return;
            }
        }
    });
    words
}
