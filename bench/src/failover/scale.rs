//! A hundred members that hold a hundred thousand elections: what keeping them costs, next to keeping
//! one each; and one more member that dies with a thousand, for each of which somebody waits.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use bellwether::{Bellwether, Election, LeadershipGuard};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use super::candidate::words;
use super::proxy::Proxy;
use super::{Options, between, boot_ns};
use crate::child::this_program;
use crate::machine::Work;
use crate::report::{Report, percentile, spread};
use crate::server::Server;

const MEMBERS: usize = 100;
/// What the one that dies holds.
const LEFT_BEHIND: usize = 1000;
const DEATHS: usize = 9;
const ALL_LED_MAX: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(10);
/// Until the renewals that follow the grants are over.
const REST: Duration = Duration::from_secs(12);
/// Three ttl.
const SECONDS: u32 = 30;
const RATIO_MAX: f64 = 1.2;

pub(super) async fn run(options: &Options, report: &mut Report) {
    let few = Kept::measure(options, report, MEMBERS).await;
    let many = Kept::measure(options, report, options.elections).await;
    let elections = options.elections;
    for (of, few, many) in
        [("bytes", few.bytes, many.bytes), ("processor time", few.cpu_ms, many.cpu_ms)]
    {
        let (what, ratio) = (format!("{of}, {elections} elections to {MEMBERS}"), many / few);
        let met = ratio <= RATIO_MAX;
        report.check(&what, format!("{ratio:.2}"), ratio, "<= 1.2", met);
    }
    many.deaths(report).await;
}

/// Members that hold elections and do nothing else.
struct Kept {
    /// Goes first: it would look for the others.
    members: Members,
    server: Server,
    _proxy: Proxy,
    /// Each second, both ways.
    bytes: f64,
    /// Of the server, each second.
    cpu_ms: f64,
}

impl Kept {
    async fn measure(options: &Options, report: &mut Report, elections: usize) -> Self {
        let server = options.server("scale");
        let proxy = Proxy::start(server.wire()).await;
        let each = elections / MEMBERS;
        let begun = boot_ns();
        let mut members = Members::start(proxy.address(), MEMBERS, each, "held");
        let held = members.hear("held")[0];
        let what = format!("{elections} elections won by {MEMBERS} members in");
        let took = between(begun, held);
        report.figure(&what, format!("{took:.1?}"), took.as_secs_f64());
        tokio::time::sleep(REST).await;
        let (mut work, packets, bytes) = (Work::of(server.pid()), proxy.packets(), proxy.bytes());
        for _ in 0..SECONDS {
            tokio::time::sleep(Duration::from_secs(1)).await;
            work.look();
        }
        let each_second = |count: u64| count as f64 / f64::from(SECONDS);
        let (packets, bytes) =
            (each_second(proxy.packets() - packets), each_second(proxy.bytes() - bytes));
        let cpu_ms = work.cpu().as_secs_f64() * 1e3 / f64::from(SECONDS);
        let figure = format!("{bytes:.0} B/s, {packets:.0} packets/s");
        report.figure(&format!("{elections} elections kept, traffic"), figure, bytes);
        let figure = format!("{cpu_ms:.2} ms/s");
        report.figure(
            &format!("{elections} elections kept, server's processor time"),
            figure,
            cpu_ms,
        );
        Self { members, server, _proxy: proxy, bytes, cpu_ms }
    }

    /// Lets one member after the other die.
    async fn deaths(mut self, report: &mut Report) {
        let store = Bellwether::open(self.server.socket()).await.expect("a connection");
        let (mut firsts, mut lasts, mut each) = (Vec::new(), Vec::new(), Vec::new());
        for death in 0..DEATHS {
            let prefix = format!("left behind {death}");
            let mut member = Members::start(self.server.socket(), 1, LEFT_BEHIND, &prefix);
            member.hear("held");
            self.members.tell(&format!("wait {prefix}"));
            for nth in 0..LEFT_BEHIND {
                let election = store.election(&name(&prefix, nth)).expect("a name");
                super::until_in_line(&election, 1).await;
            }
            // Longer than an ask is worth.
            tokio::time::sleep(TTL / 2).await;
            let killed = member.kill();
            let mut led: Vec<_> =
                self.members.hear("led").into_iter().map(|at| between(killed, at)).collect();
            led.sort_unstable();
            firsts.push(led[0]);
            lasts.push(led[LEFT_BEHIND - 1]);
            each.extend(led);
            self.members.tell("let go");
            self.members.hear("free");
        }
        let what = format!("a member dies with {LEFT_BEHIND}, each is led again");
        report.figure(&what, spread(&mut each), percentile(&mut each, 0.5).as_micros() as u64);
        let (first, last) = (percentile(&mut firsts, 0.5), percentile(&mut lasts, 0.5));
        let what = format!("the first and the last of {LEFT_BEHIND}, p50 of {DEATHS} deaths");
        report.figure(&what, format!("{first:.1?}, {last:.1?}"), last.as_micros() as u64);
        let most = percentile(&mut lasts, 1.0);
        let what = format!("all {LEFT_BEHIND} are led again, slowest of {DEATHS} deaths");
        let met = most <= ALL_LED_MAX;
        report.check(&what, format!("{most:.1?}"), most.as_micros() as u64, "<= 100 ms", met);
    }
}

/// A process that is some members; killed when dropped.
struct Members {
    child: Child,
    ear: ChildStdin,
    mouth: BufReader<ChildStdout>,
}

impl Members {
    fn start(address: &str, members: usize, each: usize, prefix: &str) -> Self {
        let (members, each) = (members.to_string(), each.to_string());
        let mut child = this_program(&["members", address, &members, &each, prefix])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let (ear, mouth) = (child.stdin.take(), child.stdout.take());
        let mouth = BufReader::new(mouth.expect("its words"));
        Self { child, ear: ear.expect("its ear"), mouth }
    }

    fn tell(&mut self, word: &str) {
        self.ear.write_all(format!("{word}\n").as_bytes()).expect("it listens");
    }

    /// Until it says this, and the numbers that come with it.
    fn hear(&mut self, word: &str) -> Vec<u64> {
        let mut line = String::new();
        self.mouth.read_line(&mut line).expect("a line");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(word), "it said {line:?}");
        words.map(|number| number.parse().expect("a number")).collect()
    }

    /// The moment just before.
    fn kill(&mut self) -> u64 {
        let pid = Pid::from_child(&self.child);
        let before = boot_ns();
        kill_process(pid, Signal::KILL).expect("it runs");
        before
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn name(prefix: &str, nth: usize) -> String {
    format!("{prefix} {nth}")
}

/// Is so many members that hold so many elections each, and waits for others when it is told to.
pub(crate) async fn members(address: &str, members: usize, each: usize, prefix: &str) {
    crate::machine::raise_files();
    let mut stores = Vec::new();
    for _ in 0..members {
        stores.push(Bellwether::open(address).await.expect("a connection"));
    }
    let wins = (0..members * each).map(|nth| election(&stores[nth / each], &name(prefix, nth)));
    // As they come in life: not all at one moment, which would let them be renewed at one, too.
    let spread_ms = TTL.as_millis() as u64 / 3;
    let pauses_ms = (0u64..).map(|nth| nth * 7919 % spread_ms);
    let held = all_of(wins.zip(pauses_ms)).await;
    println!("held {}", boot_ns());
    let mut words = words();
    while let Some(word) = words.recv().await {
        let Some(prefix) = word.strip_prefix("wait ") else { continue };
        let heirs = (0..LEFT_BEHIND).zip(stores.iter().cycle());
        let wins = heirs.map(|(nth, store)| election(store, &name(prefix, nth)));
        let led = all_of(wins.zip(std::iter::repeat(0))).await;
        let at: Vec<String> = led.iter().map(|(at, _)| at.to_string()).collect();
        println!("led {}", at.join(" "));
        while words.recv().await.is_some_and(|word| word != "let go") {}
        let mut leaving = JoinSet::new();
        for (_, leadership) in led {
            leaving.spawn(leadership.release());
        }
        while let Some(left) = leaving.join_next().await {
            left.expect("no panic").expect("given back");
        }
        println!("free");
    }
    drop(held);
}

fn election(store: &Bellwether, name: &str) -> Election {
    store.election(name).expect("a name").ttl(TTL)
}

/// Until all of them are won, each asked for after its pause: when each was.
async fn all_of(elections: impl Iterator<Item = (Election, u64)>) -> Vec<(u64, LeadershipGuard)> {
    let mut contending = JoinSet::new();
    for (election, pause_ms) in elections {
        contending.spawn(async move {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            let leadership = election.contend().await.expect("an election");
            leadership.ensure().expect("just won");
            (boot_ns(), leadership)
        });
    }
    contending.join_all().await
}
