//! A leader on a machine that is busy: nobody may take it for dead.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::line::{Line, Said};
use super::{Options, onlooker, until_in_line};
use crate::child::this_program;
use crate::machine;
use crate::report::Report;

const TTL: Duration = Duration::from_millis(300);
const CANDIDATES: usize = 3;
/// Of every ten milliseconds, on every core.
const BUSY: Duration = Duration::from_millis(8);
const IDLE: Duration = Duration::from_millis(2);

pub(super) async fn run(options: &Options, report: &mut Report) {
    let server = options.server("calm");
    let election = onlooker(&server, "calm").await;
    let mut line = Line::new(Said::ours);
    for _ in 0..CANDIDATES {
        line.add_ours(server.socket(), "calm", TTL);
    }
    line.leads();
    until_in_line(&election, CANDIDATES - 1).await;
    let term = election.leader().await.expect("the election").expect("a leader").term;
    let burners = Burners::start();
    let before = machine::busy_and_all();
    let said = line.listen(Duration::from_secs_f64(options.minutes * 60.0));
    let after = machine::busy_and_all();
    drop(burners);
    let (busy, all) = (after.0 - before.0, after.1 - before.1);
    let load = 100.0 * busy as f64 / all as f64;
    report.figure("processors busy meanwhile", format!("{load:.0} %"), load);
    // A term more is a failover, also one that nobody has told of.
    let now = election.leader().await.expect("the election").map(|leader| leader.term);
    let changes = said.iter().filter(|(_, said)| matches!(said, Said::Leads(_))).count();
    let changes = changes.max(usize::from(now != Some(term)));
    let what = format!("failovers for nothing, {} min of load, ttl 300 ms", options.minutes);
    report.check(&what, changes.to_string(), changes, "0", changes == 0);
}

/// Processes that keep every core busy; killed when dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let burner = |_| {
            let mut command = this_program(&["burn"]);
            // Its end is our end.
            command.stdin(Stdio::piped()).spawn().expect("a child")
        };
        Self((0..cores).map(burner).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps one core busy for four fifths of the time, until its input ends.
pub(crate) fn burn() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        let until = Instant::now() + BUSY;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        std::thread::sleep(IDLE);
    }
}
