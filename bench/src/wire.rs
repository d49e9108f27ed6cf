//! The server, reached over its wire on the loopback, next to Redis Streams in the same run.
//!
//! Server, load and the other server share the machine's cores.

mod redis;

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bellwether::{Bellwether, Queue, QueueSettings};
use bytes::Bytes;
use clap::Args;

use crate::local::{cycle_batches, cycles, round};
use crate::machine;
use crate::raw::Raw;
use crate::report::{Report, median, percentile, rate};
use redis::Redis;

/// Messages of one figure of latency.
const PER_PAIR: usize = 300;
const BODY_BYTES: usize = 256;
/// A frame around one message: header, changes, checksum.
const FRAME_BYTES: usize = 64;
const IDLE_CONNECTIONS: u64 = 10_000;

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only these: latency, cycles, batches, idle.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the stores are made; on the disk to be measured.
    #[arg(long, default_value = "bench-data")]
    folder: PathBuf,
    /// Pairs per comparison; the median of their ratios counts.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// The server to measure: `cargo build --release` makes it.
    #[arg(long, default_value = "target/release/bellwether")]
    program: PathBuf,
}

pub(crate) async fn run(options: Options) {
    std::fs::create_dir_all(&options.folder).expect("a folder for the stores");
    let mut report = Report::default();
    machine::describe(&mut report, &options.folder);
    report.fact("pairs", options.pairs);
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let server = Server::start(&options, "wire");
    let bw = server.connect().await;
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    if wanted("latency") {
        latency(&options, &queue, &mut report).await;
    }
    if wanted("cycles") {
        against_redis(&options, &queue, &mut report).await;
    }
    if wanted("batches") {
        batches(&options, &server, &mut report).await;
    }
    if wanted("idle") {
        idle(&server, &queue, &mut report).await;
    }
    bw.close().await;
    drop(server);
    let _ = std::fs::remove_dir_all(&options.folder);
    if !report.print(options.json) {
        std::process::exit(1);
    }
}

/// A running server; killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(options: &Options, name: &str) -> Self {
        let folder = fresh(&options.folder, name);
        let mut child = Command::new(&options.program)
            .args(["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0", "--data"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}; build it first", options.program.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = lines
            .find_map(|line| {
                let line = line.expect("a line");
                let at = line.find("bellwether://")?;
                line[at..].split_whitespace().next().map(str::to_owned)
            })
            .expect("the server says where it is");
        // It goes on talking.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    async fn connect(&self) -> Bellwether {
        Bellwether::open(self.address.as_str()).await.expect("a connection")
    }

    fn socket(&self) -> &str {
        self.address.trim_start_matches("bellwether://")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

fn fresh(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    // It is not there at the first run.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// One caller, one message at a time.
async fn latency(options: &Options, queue: &Queue, report: &mut Report) {
    let mut raw = Raw::new(&options.folder, BODY_BYTES + FRAME_BYTES);
    let body = vec![0x42u8; BODY_BYTES];
    let (mut over, mut raws, mut sends, mut looks) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.pairs {
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        raw.run(PER_PAIR, &mut floor);
        for _ in 0..PER_PAIR {
            let start = Instant::now();
            queue.send(body.clone()).await.expect("sent");
            ours.push(start.elapsed());
            let start = Instant::now();
            queue.info().await.expect("shown");
            looks.push(start.elapsed());
        }
        let p50 = |times: &mut Vec<_>| percentile(times, 0.5).as_secs_f64();
        over.push((p50(&mut ours) - p50(&mut floor)) * 1e6);
        raws.extend(floor);
        sends.extend(ours);
    }
    let show =
        |times: &mut [_]| format!("p50 {:?}, p99 {:?}", percentile(times, 0.5), percentile(times, 0.99));
    let p50_us = |times: &mut [_]| percentile(times, 0.5).as_micros() as u64;
    report.figure("raw overwrite + fdatasync", show(&mut raws), p50_us(&mut raws));
    report.figure("a look at a queue, over the wire", show(&mut looks), p50_us(&mut looks));
    report.figure("send, one caller, over the wire", show(&mut sends), p50_us(&mut sends));
    let over = median(&mut over);
    report.check("send p50 beyond raw p50", format!("{over:.0} us"), over, "<= 150 us", over <= 150.0);
    queue.purge(None).await.expect("emptied");
}

async fn against_redis(options: &Options, queue: &Queue, report: &mut Report) {
    const CALLERS: usize = 64;
    for (fsync, target) in [("always", 2.5), ("everysec", 1.3)] {
        let redis = Redis::start(&fresh(&options.folder, "redis"), fsync).await;
        let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.pairs {
            let our = round(CALLERS, |until| cycles(queue.clone(), BODY_BYTES, until)).await;
            let their = round(CALLERS, |until| redis.clone().cycles(BODY_BYTES, until)).await;
            ratios.push(our / their);
            ours.push(our);
            theirs.push(their);
        }
        let what = "full cycles, 64 callers on one connection";
        let (our, their) = (median(&mut ours), median(&mut theirs));
        report.figure(what, rate(our), our);
        report.figure(&format!("{what}, Redis, appendfsync {fsync}"), rate(their), their);
        let (ratio, text) = (median(&mut ratios), format!(">= {target}"));
        let what = format!("{what}, to Redis {fsync}");
        report.check(&what, format!("{ratio:.2}"), ratio, &text, ratio >= target);
    }
}

async fn batches(options: &Options, server: &Server, report: &mut Report) {
    const CONNECTIONS: usize = 8;
    let mut handles = Vec::new();
    for _ in 0..CONNECTIONS {
        handles.push(server.connect().await);
    }
    let body = Bytes::from(vec![0x42u8; BODY_BYTES]);
    let mut rates = Vec::new();
    for _ in 0..options.pairs {
        let next = std::sync::atomic::AtomicUsize::new(0);
        rates.push(
            round(CONNECTIONS, |until| {
                let nth = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let bw = handles[nth].clone();
                let queue = bw.queue("bench").expect("a name");
                cycle_batches(bw, queue, body.clone(), until)
            })
            .await,
        );
    }
    let cycles = median(&mut rates);
    report.figure("full cycles, 8 connections, batches of 64", rate(cycles), cycles);
    for bw in handles {
        bw.close().await;
    }
}

/// What connections cost that do nothing.
async fn idle(server: &Server, queue: &Queue, report: &mut Report) {
    let pid = server.child.id();
    let before = machine::resident_bytes_of(pid);
    let mut idle = Vec::new();
    for _ in 0..IDLE_CONNECTIONS {
        idle.push(TcpStream::connect(server.socket()).expect("a connection"));
    }
    // Everybody before this one is in.
    queue.info().await.expect("shown");
    let grown = machine::resident_bytes_of(pid).saturating_sub(before) / IDLE_CONNECTIONS;
    let what = format!("resident memory per idle connection, {IDLE_CONNECTIONS}");
    report.check(&what, format!("{grown} B"), grown, "<= 16 KiB", grown <= 16 << 10);
}
