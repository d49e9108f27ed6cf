//! A backup of a store that is at work: how long a step of it takes, and what those who send notice.
//!
//! It goes nowhere: a file on the same disk would be measured instead, and where to put it is the
//! user's choice.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use bellwether::{Bellwether, QueueSettings};

use super::active::Active;
use super::{BODY_BYTES, FRAME_BYTES, Options};
use crate::child::fill;
use crate::raw::Raw;
use crate::report::{Report, median, p50_us, percentile, spread};
use crate::server::{Server, fresh};

/// Messages that lie in the store.
const WAITING: u64 = 200_000;
/// The writer never stops for longer.
const STEP_MS_MAX: f64 = 5.0;
const TO_WITHOUT_MAX: f64 = 2.0;
const RAW_FLUSHES: usize = 300;

pub(super) async fn run(options: &Options, report: &mut Report) {
    steps(options, report).await;
    noticed(options, report).await;
}

/// How long one step of a backup takes, all of it, in a store of this process that does nothing else.
/// The writer is kept for a part of that: contents are read after it was let go.
async fn steps(options: &Options, report: &mut Report) {
    let folder = fresh(&options.folder, "backup");
    let bw = Bellwether::open(format!("file:{}", folder.display())).await.expect("a store");
    let queue = bw.create_queue("bench", QueueSettings::default()).await.expect("a queue");
    fill(&queue, WAITING).await;
    let (mut steps, mut rates) = (vec![], vec![]);
    for _ in 0..options.pairs {
        let (begun, mut bytes) = (Instant::now(), 0);
        let mut backup = bw.backup();
        loop {
            let start = Instant::now();
            let Some(part) = backup.next().await.expect("a part of it") else { break };
            steps.push(start.elapsed());
            bytes += part.len();
        }
        rates.push(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64());
    }
    bw.close().await;
    let rate = median(&mut rates);
    report.figure(&format!("backup of {WAITING} waiting, 256 B"), format!("{rate:.0} MB/s"), rate);
    let p99_ms = percentile(&mut steps, 0.99).as_secs_f64() * 1e3;
    let met = p99_ms <= STEP_MS_MAX;
    report.check("one step of it, p99", spread(&mut steps), p99_ms, "<= 5 ms", met);
}

/// What ten connections at work notice of backups taken over the wire, one behind the other.
async fn noticed(options: &Options, report: &mut Report) {
    let server = options.server("backup", &[]);
    let (bw, queue) = server.queue().await;
    fill(&queue, WAITING).await;
    let active = Active::connect(&server).await;
    let mut raw = Raw::new(&options.folder, BODY_BYTES + FRAME_BYTES);
    active.sends().await;
    let (mut flushes, mut alone, mut beside) = (vec![], vec![], vec![]);
    let (mut ratios, mut taken) = (vec![], 0);
    for _ in 0..options.pairs {
        raw.run(RAW_FLUSHES, &mut flushes);
        let mut without = active.sends().await;
        let backups = Backups::start(options, &server);
        let mut with = active.sends().await;
        taken += backups.stop();
        let p99 = |times: &mut Vec<_>| percentile(times, 0.99).as_secs_f64();
        ratios.push(p99(&mut with) / p99(&mut without));
        alone.extend(without);
        beside.extend(with);
    }
    active.close().await;
    bw.close().await;
    report.figure("raw overwrite + fdatasync", spread(&mut flushes), p50_us(&mut flushes));
    report.figure("send, 10 connections, 200000 waiting", spread(&mut alone), p50_us(&mut alone));
    report.figure("backups taken meanwhile", taken.to_string(), taken);
    report.figure(
        "send, 10 connections, during a backup",
        spread(&mut beside),
        p50_us(&mut beside),
    );
    let ratio = median(&mut ratios);
    let (what, met) = ("send p99 during a backup, to without one", ratio <= TO_WITHOUT_MAX);
    report.check(what, format!("{ratio:.2}"), ratio, "<= 2", met);
}

/// Backups, one behind the other, as a user takes them.
struct Backups {
    is_over: Arc<AtomicBool>,
    taken: JoinHandle<u64>,
}

impl Backups {
    fn start(options: &Options, server: &Server) -> Self {
        let mut command = Command::new(&options.program);
        command.args(["backup", "-", "--server", server.wire()]).stdout(Stdio::null());
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let taken = std::thread::spawn(move || {
            let mut taken = 0;
            while !over.load(Ordering::Relaxed) {
                assert!(command.status().expect("the program").success(), "a backup is taken");
                taken += 1;
            }
            taken
        });
        Self { is_over, taken }
    }

    /// How many were taken; the last one is whole.
    fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.taken.join().expect("a thread")
    }
}
