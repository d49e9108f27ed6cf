//! A leader's process that is killed, on engines that cannot see it: its guardian gives the lease back.
//!
//! The leases last far longer than what is measured: whoever follows does so because of the guardian.

use std::time::Duration;

use rustix::process::Signal;

use super::line::{Line, Said};
use super::peers::are_there;
use super::{Options, between, check};
use crate::report::Report;
use crate::servers::{Etcd, Postgres, Process, free_ports};

/// The shortest that Azure has.
const TTL: Duration = Duration::from_secs(15);
const CANDIDATES: usize = 3;
/// Until one that was just started, and its guardian, stand in line.
const REST: Duration = Duration::from_millis(700);
const UNEVEN: Duration = Duration::from_millis(37);
const MAX: Duration = Duration::from_millis(100);

pub(super) async fn run(options: &Options, report: &mut Report) {
    if are_there(report, "etcd with a guardian", &[("etcd", "Debian's etcd-server")]) {
        let etcd = Etcd::start().await;
        measure(options, report, "etcd", &etcd.url().replace("http://", "etcd://"));
    }
    let needs = [("/usr/lib/postgresql", "Debian's postgresql")];
    if are_there(report, "PostgreSQL with a guardian", &needs) {
        let postgres = Postgres::start().await;
        measure(options, report, "PostgreSQL", &postgres.url());
    }
    let azurite = options.azurite.display().to_string();
    let needs = [(&*azurite, "npm's azurite, by tools/lease-servers azurite")];
    if are_there(report, "Azurite with a guardian", &needs) {
        let (_azurite, address) = start_azurite(options).await;
        measure(options, report, "Azurite", &address);
    }
}

async fn start_azurite(options: &Options) -> (Process, String) {
    let program = options.azurite.canonicalize().expect("Azurite");
    let mut process = Process::new("azurite", None);
    let [port] = free_ports();
    let (port_text, folder) = (port.to_string(), process.folder.display().to_string());
    let arguments =
        ["--blobPort", &port_text, "--location", &folder, "--silent", "--disableTelemetry"];
    process.start(&program.display().to_string(), arguments.map(str::to_owned).to_vec());
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        process.must_run();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let endpoint = format!("http://127.0.0.1:{port}/devstoreaccount1");
    (process, format!("azblob://devstoreaccount1/bench?endpoint={endpoint}"))
}

fn measure(options: &Options, report: &mut Report, engine: &str, address: &str) {
    let mut line = Line::new(Said::ours);
    for _ in 0..CANDIDATES {
        line.add_ours(address, "guarded", TTL);
    }
    let (mut leader, _) = line.leads();
    let mut times = Vec::new();
    while times.len() < options.slow_runs {
        // Not always as long after a renewal.
        std::thread::sleep(REST + UNEVEN * (times.len() % 11) as u32);
        let killed = line.signal(leader, Signal::KILL);
        let (next, at) = line.leads();
        times.push(between(killed, at));
        line.remove(leader);
        leader = next;
        line.add_ours(address, "guarded", TTL);
    }
    let what = format!("kill -9 of the leader, {engine} with a guardian");
    check(report, &what, &mut times, "100 ms", MAX);
}
