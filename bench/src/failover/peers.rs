//! What others take, with the programs that their users have: `etcdctl lock`, kazoo, `psql`.
//!
//! Each candidate is a process that says a line when it leads; the time counts until that line is
//! read here.

use std::path::Path;
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
const UNEVEN: Duration = Duration::from_millis(37);
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
    /// Until one that was just started stands in line.
    rest: Duration,
    runs: usize,
}

/// How a leader is asked to go.
enum Release {
    Signal(Signal),
    Word(&'static str),
}

pub(super) async fn run(options: &Options, report: &mut Report) {
    etcd(options, report).await;
    zookeeper(options, report).await;
    postgres(options, report).await;
}

async fn etcd(options: &Options, report: &mut Report) {
    let name = "etcd's lock, ttl 2 s";
    let needs = [("etcd", "Debian's etcd-server"), ("etcdctl", "Debian's etcd-client")];
    if !are_there(report, name, &needs) {
        return;
    }
    let etcd = Etcd::start().await;
    let url = etcd.url();
    let command = move || {
        let mut command = Command::new("etcdctl");
        command.args(["--endpoints", &url, "lock", "--ttl", "2", "bench"]);
        command.env("ETCDCTL_API", "3");
        command
    };
    let release = Release::Signal(Signal::INT);
    let (rest, runs) = (Duration::from_millis(700), options.peer_runs);
    measure(report, &Peer { name, command: Box::new(command), first: None, release, rest, runs });
}

async fn zookeeper(options: &Options, report: &mut Report) {
    let name = "ZooKeeper's election, kazoo, session 2 s";
    let python = options.python.clone();
    let kazoo = python.display().to_string();
    let needs = [
        ("java", "Debian's default-jre-headless"),
        (zookeeper::JAR, "Debian's zookeeper, by tools/lease-servers"),
        (&kazoo, "PyPI's kazoo, by tools/lease-servers kazoo"),
    ];
    if !are_there(report, name, &needs) {
        return;
    }
    let zookeeper = zookeeper::ZooKeeper::start().await;
    let hosts = format!("127.0.0.1:{}", zookeeper.port());
    let command = move || {
        let mut command = Command::new(&python);
        command.args(["-c", KAZOO, &hosts, "2"]);
        command
    };
    let release = Release::Word("");
    let (rest, runs) = (Duration::from_millis(1200), options.peer_runs);
    measure(report, &Peer { name, command: Box::new(command), first: None, release, rest, runs });
}

async fn postgres(options: &Options, report: &mut Report) {
    let name = "PostgreSQL's advisory lock, psql";
    let needs = [("/usr/lib/postgresql", "Debian's postgresql"), ("psql", "Debian's postgresql")];
    if !are_there(report, name, &needs) {
        return;
    }
    let postgres = Postgres::start().await;
    let url = postgres.url();
    let command = move || {
        let mut command = Command::new("psql");
        command.args(["-AtqX", &url]);
        command
    };
    let first = Some("SELECT 'leads' FROM pg_advisory_lock(1);");
    let release = Release::Word("SELECT pg_advisory_unlock(1);");
    let (rest, runs) = (Duration::from_millis(200), options.peer_runs * 10);
    measure(report, &Peer { name, command: Box::new(command), first, release, rest, runs });
}

/// Whether these programs and files are there; one that is not is a part that failed.
pub(super) fn are_there(report: &mut Report, name: &str, needs: &[(&str, &str)]) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |what: &str| {
        // Joined to a whole path, a folder of the search path does not count.
        std::env::split_paths(&paths).any(|folder| folder.join(what).exists())
            || Path::new(what).exists()
    };
    let missing = needs.iter().find(|(what, _)| !is_there(what));
    if let Some((what, package)) = missing {
        let figure = format!("no {what}");
        report.check(name, figure, what.to_string(), &format!("install {package}"), false);
    }
    missing.is_none()
}

fn measure(report: &mut Report, peer: &Peer) {
    for (how, is_killed) in [("polite", false), ("kill -9", true)] {
        let mut times = times(peer, is_killed);
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
        // Not always as long after a heartbeat of theirs.
        std::thread::sleep(peer.rest + UNEVEN * (times.len() % 11) as u32);
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
