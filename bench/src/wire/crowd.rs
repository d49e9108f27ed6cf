//! Ten thousand connections that do nothing, and ten that work beside them.
//!
//! Whoever does nothing is a client as the library makes it: it has said hello, has joined as a
//! member, and says every ten seconds that it is still there. Two processes have half of them each,
//! because one may not open so many files everywhere.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bellwether::Bellwether;
use tokio::task::JoinSet;

use super::active::Active;
use super::{BODY_BYTES, FRAME_BYTES, Options};
use crate::child::this_program;
use crate::machine;
use crate::raw::Raw;
use crate::report::{Report, median, p50_us, percentile, rate, spread};
use crate::server::Server;

const CROWD: u64 = 10_000;
const PROCESSES: u64 = 2;
/// Each pair lets all of them in and out once.
const PAIRS_MAX: usize = 5;
/// So many knock at the same time.
const AT_A_TIME: u64 = 64;
/// Room for the crowd, for those who work, and for whoever looks at the metrics.
const FLAGS: [&str; 4] = ["--wire-connections-max", "10100", "--http-connections-max", "100"];
/// Long enough for all of them to have said once more that they are there.
const REST: Duration = Duration::from_secs(11);
const OPEN: &str = "bellwether_wire_connections";
const RAW_FLUSHES: usize = 300;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("crowd", &FLAGS);
    let active = Active::connect(&server).await;
    let mut raw = Raw::new(&options.folder, BODY_BYTES + FRAME_BYTES);
    // So that what everybody needs is there already when the crowd comes.
    active.sends().await;
    let (mut flushes, mut alone, mut beside) = (vec![], vec![], vec![]);
    let (mut grown, mut arrivals, mut ratios, mut open_min) = (vec![], vec![], vec![], u64::MAX);
    for _ in 0..options.pairs.min(PAIRS_MAX) {
        raw.run(RAW_FLUSHES, &mut flushes);
        let mut without = active.sends().await;
        let (before, at_work) = (machine::resident_bytes_of(server.pid()), server.metric(OPEN));
        let begun = Instant::now();
        let crowd = Crowd::start(&server);
        arrivals.push(CROWD as f64 / begun.elapsed().as_secs_f64());
        open_min = open_min.min(server.metric(OPEN) - at_work);
        if open_min < CROWD {
            break;
        }
        tokio::time::sleep(REST).await;
        let mut with = active.sends().await;
        grown
            .push((machine::resident_bytes_of(server.pid()) as f64 - before as f64) / CROWD as f64);
        // Once more: nobody was sent away meanwhile.
        open_min = open_min.min(server.metric(OPEN) - at_work);
        let p99 = |times: &mut Vec<_>| percentile(times, 0.99).as_secs_f64();
        ratios.push(p99(&mut with) / p99(&mut without));
        alone.extend(without);
        beside.extend(with);
        crowd.leave();
        gone(&server, at_work).await;
    }
    let (what, met) = ("idle connections that are open at the server", open_min >= CROWD);
    report.check(what, open_min.to_string(), open_min, ">= 10000", met);
    if !met {
        // What fewer cost is another figure.
        return;
    }
    active.close().await;
    let arrivals = median(&mut arrivals);
    report.figure(
        &format!("connections that say hello and join, {CROWD}"),
        rate(arrivals),
        arrivals,
    );
    // The first: what they need is kept for those who come after them.
    let what = format!("resident memory per idle connection, {CROWD}");
    let each = grown[0];
    report.check(&what, format!("{each:.0} B"), each, "<= 16 KiB", each <= f64::from(16 << 10));
    report.figure("raw overwrite + fdatasync", spread(&mut flushes), p50_us(&mut flushes));
    report.figure("send, 10 connections", spread(&mut alone), p50_us(&mut alone));
    let what = format!("send, 10 connections beside {CROWD}");
    report.figure(&what, spread(&mut beside), p50_us(&mut beside));
    let ratio = median(&mut ratios);
    let what = format!("send p99 beside {CROWD}, to without them");
    report.check(&what, format!("{ratio:.2}"), ratio, "<= 2", ratio <= 2.0);
}

/// Until the server has noticed that all have left.
async fn gone(server: &Server, at_work: u64) {
    let patience = Instant::now() + Duration::from_secs(60);
    while server.metric(OPEN) > at_work {
        assert!(Instant::now() < patience, "the server keeps connections that are closed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Processes that hold connections; they leave when they are dropped.
struct Crowd(Vec<Child>);

impl Crowd {
    /// Until all are in.
    fn start(server: &Server) -> Self {
        let each = (CROWD / PROCESSES).to_string();
        let children = (0..PROCESSES).map(|_| {
            this_program(&["crowd", server.wire(), &each])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child")
        });
        let mut crowd = Self(children.collect());
        for child in &mut crowd.0 {
            let mut line = String::new();
            let stdout = child.stdout.take().expect("its words");
            // A child that could not let all in has said so itself, and what it says is counted.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        crowd
    }

    fn leave(mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            child.wait().expect("it ends");
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have left before.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Holds so many connections, says when all are in, and ends when its input does.
pub(crate) async fn crowd(address: &str, count: u64) {
    machine::raise_files();
    let (mut knocking, mut open) = (JoinSet::new(), Vec::new());
    for nth in 0..count + AT_A_TIME {
        if nth >= AT_A_TIME {
            match knocking.join_next().await.expect("one that knocks").expect("no panic") {
                Ok(bw) => open.push(bw),
                Err(error) => {
                    eprintln!("not all were let in: {error}");
                    break;
                }
            }
        }
        if nth < count {
            let address = address.to_owned();
            knocking.spawn(async move { Bellwether::open(address).await });
        }
    }
    println!("open");
    std::io::stdout().flush().expect("a parent that listens");
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    end.await.expect("a thread").expect("an end of the input");
    let mut leaving = JoinSet::new();
    for bw in open {
        leaving.spawn(async move { bw.close().await });
    }
    leaving.join_all().await;
}
