//! The program that dies: it leads, with a guardian, until it is killed.
//!
//! ```sh
//! guarded_child __lease-guardian                  # is a guardian
//! guarded_child nest lead ADDRESS TTL_MS NAME…    # leads, below a process that adopts its orphans
//! ```
//!
//! Each election is opened by itself, with a guardian of its own. It says `started PID`, `leads NAME
//! TERM`, and answers the lines it is told: `run SCRIPT`, `guarded`, `close`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![cfg_attr(not(target_os = "linux"), allow(unused, reason = "guardians are Linux's"))]

use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use bellwether::guardian::{self, Guardian};
use bellwether::{Elections, LeadershipGuard};
use rustix::process::{WaitOptions, getpid, wait};

fn main() {
    if guardian::is_meant() {
        return guardian::run().unwrap();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments[0].as_str() {
        "nest" => nest(&arguments[1..]),
        "lead" => lead(&arguments[1..]),
        other => panic!("{other}?"),
    }
}

/// Orphans of its child come to this one, and those of nobody else.
fn nest(arguments: &[String]) {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid())).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    drop(command.args(arguments).process_group(0).spawn().unwrap());
    while wait(WaitOptions::empty()).is_ok() {}
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn lead(arguments: &[String]) {
    let [address, ttl_ms, names @ ..] = arguments else { panic!("{arguments:?}?") };
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    say(&format!("started {}", getpid()));
    let guardian = Guardian::program(std::env::current_exe().unwrap());
    let mut all = Vec::new();
    for name in names {
        let elections = Elections::guarded(address, guardian.clone()).await.unwrap();
        all.push((elections.clone(), tokio::spawn(contend(elections, name.clone(), ttl))));
    }
    let lines = std::io::stdin().lock().lines().map_while(Result::ok);
    for line in lines {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("run", script) => drop(Command::new("sh").arg("-c").arg(script).spawn().unwrap()),
            ("guarded", _) => say(&format!("guarded {}", all[0].0.is_guarded())),
            ("close", _) => {
                for (elections, contending) in all.drain(..) {
                    contending.await.unwrap().release().await.unwrap();
                    elections.close().await;
                }
                say("closed");
            }
            other => panic!("{other:?}?"),
        }
    }
}

async fn contend(elections: Elections, name: String, ttl: Duration) -> LeadershipGuard {
    let leadership = elections.election(&name).unwrap().ttl(ttl).contend().await.unwrap();
    say(&format!("leads {name} {}", leadership.term()));
    leadership
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
