//! Processes that lead on engines of others, and those who wait for them to die.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bellwether::guardian::ARGUMENT;
use bellwether::{Elections, LeadershipGuard, Stopwatch, Term};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::task::JoinHandle;

/// Leases last so long here: nobody follows before who did not see a death.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Much longer than a death takes to be seen, much shorter than leases last.
const SOON: Duration = Duration::from_secs(25);
/// What has not happened by now was not going to.
const A_WHILE: Duration = Duration::from_millis(700);

/// A process that leads, below one that adopts its orphans. Killed in the end.
pub(crate) struct Leader {
    nest: Child,
    pid: Pid,
    said: Receiver<String>,
    others: Vec<String>,
    daemons: Vec<Pid>,
}

impl Leader {
    pub(crate) fn start(address: &str, elections: &[&str]) -> Self {
        let mut nest = Command::new(env!("CARGO_BIN_EXE_guarded_child"))
            .args(["nest", "lead", address, &TTL.as_millis().to_string()])
            .args(elections)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(nest.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let mut leader =
            Self { nest, pid: getpid(), said, others: Vec::new(), daemons: Vec::new() };
        leader.pid = pid(&leader.says("started"));
        leader
    }

    /// Waits until it has said something that begins so; what follows.
    pub(crate) fn says(&mut self, what: &str) -> String {
        let begins = |line: &String| line.split(' ').next() == Some(what);
        let watch = Stopwatch::start();
        loop {
            if let Some(nth) = self.others.iter().position(begins) {
                let line = self.others.remove(nth);
                return line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            }
            assert!(watch.elapsed() < SOON, "it did not say {what:?}: {:?}", self.others);
            self.others.extend(self.said.recv_timeout(Duration::from_millis(100)));
        }
    }

    /// Waits until it leads.
    pub(crate) fn leads(&mut self) -> Term {
        let said = self.says("leads");
        Term(said.split(' ').nth(1).and_then(|term| term.parse().ok()).unwrap())
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.nest.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// What lives on when it has died, in a session of its own, let go of by whoever started it.
    pub(crate) fn daemon(&mut self) -> Pid {
        self.tell("run setsid sh -c 'echo daemon $$; exec sleep 1000' &");
        let daemon = pid(&self.says("daemon"));
        self.daemons.push(daemon);
        daemon
    }

    pub(crate) fn kill(&self) {
        kill_process(self.pid, Signal::KILL).unwrap();
    }

    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid, signal).unwrap();
    }

    pub(crate) fn is_alive(&self) -> bool {
        is_alive(self.pid)
    }

    /// Those that it has now.
    pub(crate) fn guardians(&self) -> Vec<Pid> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &Pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
            line.split(|byte| *byte == 0).nth(1) == Some(ARGUMENT.as_bytes())
                && parent == Some(&self.pid.to_string())
        };
        numbers.filter_map(Pid::from_raw).filter(is_ours).collect()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let left = self.daemons.iter().chain([&self.pid]).copied();
        for pid in left.filter(|pid| *pid != getpid() && is_alive(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.nest.kill();
        let _ = self.nest.wait();
    }
}

/// Who waits for an election, behind whoever leads.
pub(crate) struct Heir {
    won: JoinHandle<LeadershipGuard>,
    elections: Elections,
}

impl Heir {
    pub(crate) async fn of(address: &str, election: &str) -> Self {
        let elections = Elections::open(address).await.unwrap();
        let election = elections.election(election).unwrap().ttl(TTL);
        let won = tokio::spawn(async move { election.contend().await.unwrap() });
        Self { won, elections }
    }

    /// The same, once it stands in line; on an engine that has one.
    pub(crate) async fn in_line(address: &str, election: &str) -> Self {
        let heir = Self::of(address, election).await;
        heir.await_place(election, heir.elections.member()).await;
        heir
    }

    /// Waits until that member stands in line.
    pub(crate) async fn await_place(&self, election: &str, member: bellwether::MemberId) {
        let election = self.elections.election(election).unwrap();
        eventually("it stands in line", async || {
            let info = election.info().await.unwrap();
            info.is_some_and(|info| info.waiting.contains(&member))
        })
        .await;
    }

    /// How many stand in line.
    pub(crate) async fn await_line(&self, election: &str, length: usize) {
        let election = self.elections.election(election).unwrap();
        eventually("they stand in line", async || {
            election.info().await.unwrap().is_some_and(|info| info.waiting.len() == length)
        })
        .await;
    }

    /// Waits until it leads, and goes on to.
    pub(crate) async fn wins(self) -> LeadershipGuard {
        tokio::time::timeout(SOON, self.won).await.expect("long before the ttl is over").unwrap()
    }

    /// Waits for a while, in which it does not win.
    pub(crate) async fn waits(&self) {
        tokio::time::sleep(A_WHILE).await;
        assert!(!self.won.is_finished(), "somebody who may still act was followed");
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Whether there is such a process; one that waits for its parent to take leave of it is none.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let watch = Stopwatch::start();
    while !is_so().await {
        assert!(watch.elapsed() < SOON, "{what}: not after {SOON:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
