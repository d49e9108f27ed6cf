//! What others take, with the programs that their users have: `etcdctl lock`, kazoo, `psql`.
//!
//! Each candidate is a process that says a line when it leads; the time counts until that line is
//! read here. A lease engine of ours with a guardian would be a row of this table, too: a [`Peer`]
//! whose command is our own candidate at the address of that engine.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::line::{Line, Said};
use super::{Options, between, boot_ns};
use crate::report::{Report, p50_us, spread};
use crate::servers::{Etcd, Postgres, Process};

#[path = "../../../crates/bellwether/tests/support/servers/zookeeper.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod zookeeper;

const CANDIDATES: usize = 3;
/// Until a candidate that was just started stands in line.
const REST: Duration = Duration::from_millis(700);
const KAZOO: &str = "\
import os, sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[2]))
client.start()
def lead():
    print('leads', flush=True)
    sys.stdin.readline()
client.Election('/bench', str(os.getpid())).run(lead)
client.stop()
";

/// A way to elect.
struct Peer {
    name: &'static str,
    /// A candidate.
    command: Box<dyn Fn() -> Command>,
    /// What is said to it first.
    first: Option<&'static str>,
    release: Release,
    runs: usize,
}

/// How a leader is asked to go.
enum Release {
    Signal(Signal),
    Word(&'static str),
}

pub(super) async fn run(options: &Options, report: &mut Report) {
    let etcd = Etcd::start().await;
    let url = etcd.url();
    measure(
        report,
        Peer {
            name: "etcd's lock, ttl 2 s",
            command: Box::new(move || {
                let mut command = Command::new("etcdctl");
                command
                    .args(["--endpoints", &url, "lock", "--ttl", "2", "bench"])
                    .env("ETCDCTL_API", "3");
                command
            }),
            first: None,
            release: Release::Signal(Signal::INT),
            runs: options.peer_runs,
        },
    );
    drop(etcd);
    let zookeeper = zookeeper::ZooKeeper::start().await;
    let (python, hosts) = (options.python.clone(), format!("127.0.0.1:{}", zookeeper.port()));
    assert!(
        python.exists(),
        "there is no {}; tools/lease-servers kazoo installs it",
        python.display()
    );
    measure(
        report,
        Peer {
            name: "ZooKeeper's election, kazoo, session 2 s",
            command: Box::new(move || {
                let mut command = Command::new(&python);
                command.args(["-c", KAZOO, &hosts, "2"]);
                command
            }),
            first: None,
            release: Release::Word(""),
            runs: options.peer_runs,
        },
    );
    drop(zookeeper);
    let postgres = Postgres::start().await;
    let url = postgres.url();
    measure(
        report,
        Peer {
            name: "PostgreSQL's advisory lock, psql",
            command: Box::new(move || {
                let mut command = Command::new("psql");
                command.args(["-AtqX", &url]);
                command
            }),
            first: Some("SELECT 'leads' FROM pg_advisory_lock(1);"),
            release: Release::Word("SELECT pg_advisory_unlock(1);"),
            runs: options.peer_runs * 10,
        },
    );
}

fn measure(report: &mut Report, peer: Peer) {
    for (how, is_killed) in [("polite", false), ("kill -9", true)] {
        let mut times = times(&peer, is_killed);
        let what = format!("{}: {how}, {} runs", peer.name, times.len());
        report.figure(&what, spread(&mut times), p50_us(&mut times));
    }
}

fn times(peer: &Peer, is_killed: bool) -> Vec<Duration> {
    let mut line = Line::new(leads);
    let join = |line: &mut Line| {
        let number = line.add((peer.command)().stderr(Stdio::null()));
        if let Some(first) = peer.first {
            line.tell(number, first);
        }
    };
    (0..CANDIDATES).for_each(|_| join(&mut line));
    let (mut leader, _) = line.leads();
    let mut times = Vec::new();
    while times.len() < peer.runs {
        std::thread::sleep(REST);
        let from = match &peer.release {
            _ if is_killed => line.signal(leader, Signal::KILL),
            Release::Signal(signal) => line.signal(leader, *signal),
            Release::Word(word) => {
                let before = boot_ns();
                line.tell(leader, word);
                before
            }
        };
        let (next, at) = line.leads();
        times.push(between(from, at));
        line.remove(leader);
        leader = next;
        join(&mut line);
    }
    times
}

/// Whatever they say, they say it when they lead.
fn leads(line: &str) -> Option<Said> {
    let is_word = line == "leads" || line.starts_with("bench/");
    is_word.then(|| Said::Leads(boot_ns()))
}

/// What the server's starter asks of its module.
async fn until_listening(process: &mut Process, port: u16) {
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        process.must_run();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
