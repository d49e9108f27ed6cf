//! A server, those who want to lead, and what their commands wrote down.

#![allow(dead_code, reason = "no test needs all of it")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bellwether::{Clock, Stopwatch};
use rustix::process::{Pid, Signal, kill_process};

/// Writes down, again and again, that it is alive: the term, and the boot clock.
pub const BEAT: &str = "while :; do read up rest < /proc/uptime; \
    echo \"$BELLWETHER_TERM $up\" >> \"$HISTORY\"; sleep 0.02; done";

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

static FLEETS: AtomicU32 = AtomicU32::new(0);

/// A server and a folder of its own. Killed and removed in the end.
pub struct Fleet {
    server: Option<Child>,
    folder: PathBuf,
    /// What the server said when it was started.
    banner: String,
}

/// A `bellwether lead` and what it says. Killed in the end.
pub struct Leader {
    child: Child,
    said: Receiver<String>,
    all: String,
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

impl Fleet {
    pub fn start() -> Self {
        let mut fleet = Self::without_server();
        fleet.serve();
        fleet
    }

    pub fn without_server() -> Self {
        let nth = FLEETS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-lead-{}-{nth}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self { server: None, folder, banner: String::new() }
    }

    pub fn serve(&mut self) {
        self.serve_with(&[]);
    }

    pub fn serve_with(&mut self, flags: &[&str]) {
        let addresses = ["--http", "127.0.0.1:0", "--wire", "127.0.0.1:0", "--unix-socket"];
        let mut server = program()
            .args(["serve", "--memory"])
            .args(addresses)
            .arg(self.folder.join("s"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            assert_ne!(stdout.read_line(&mut banner).unwrap(), 0, "it did not start: {banner}");
        }
        self.server = Some(server);
        self.banner = banner;
    }

    /// The address of the wire, for a server whose addresses begin like this.
    pub fn wire(&self, scheme: &str) -> String {
        let (_, rest) = self.banner.split_once(scheme).unwrap();
        let port = rest.lines().next().unwrap().rsplit_once(':').unwrap().1;
        format!("{scheme}localhost:{port}")
    }

    pub fn signal_server(&self, signal: Signal) {
        kill_process(Pid::from_child(self.server.as_ref().unwrap()), signal).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a command wrote into this file; nothing if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command
            .args(args)
            .env("BELLWETHER_SERVER", format!("bellwether+unix:{}/s", self.folder.display()))
            .env("HISTORY", self.path("history"))
            .current_dir(&self.folder);
        command
    }

    /// Somebody who wants to lead `chores`, and to run this script.
    pub fn lead(&self, flags: &[&str], script: &str) -> Leader {
        let args = [&["lead", "chores"], flags, &["--", "sh", "-c", script]].concat();
        Leader::start(self.command(&args))
    }

    /// The times at which commands were alive, with their terms, in the order they wrote them down.
    pub fn beats(&self) -> Vec<(u64, u64)> {
        let history = self.read("history");
        let lines = history.lines().filter_map(|line| {
            let (term, seconds) = line.split_once(' ')?;
            let (whole, hundredths) = seconds.split_once('.')?;
            let ms = whole.parse::<u64>().ok()? * 1000 + hundredths.parse::<u64>().ok()? * 10;
            Some((term.parse().ok()?, ms))
        });
        lines.collect()
    }

    /// Waits until a command runs under a term after `term`, and says which.
    pub fn next_term(&self, term: u64) -> u64 {
        let newest = || self.beats().last().map_or(0, |(newest, _)| *newest);
        eventually("somebody leads", || newest() > term);
        newest()
    }

    /// Terms only grow, and no two of them were at work at once.
    pub fn check(&self) {
        let beats = self.beats();
        assert!(!beats.is_empty(), "somebody led");
        // A command and its child write in any order, but nobody before or after his term.
        let mut latest = (0, 0);
        for (term, at) in beats {
            assert!(term >= latest.0, "term {term} came back after {}", latest.0);
            assert!(term == latest.0 || at >= latest.1, "two were at work at once, at {at}");
            latest = (term, latest.1.max(at));
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Leader {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, said) = channel();
        // Read all the time, so that nobody has to wait for us.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        Self { child, said, all: String::new() }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until it has said that, and forgets what it said before.
    pub fn says(&mut self, what: &str) -> String {
        let watch = Stopwatch::start();
        while watch.elapsed() < PATIENCE {
            if let Ok(line) = self.said.recv_timeout(Duration::from_millis(100)) {
                self.all += &line;
                self.all.push('\n');
                if line.contains(what) {
                    return line;
                }
            }
        }
        panic!("it did not say {what:?}: {}", self.all);
    }

    /// Its exit code, its output, and what it had to say.
    pub fn end(mut self) -> (i32, String, String) {
        let mut ended = None;
        eventually("it ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        for line in &self.said {
            self.all += &line;
            self.all.push('\n');
        }
        let code = ended.and_then(|status| status.code());
        (code.expect("an exit code"), stdout, std::mem::take(&mut self.all))
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !is_so() {
        assert!(watch.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Milliseconds of the boot clock.
pub fn boot_ms() -> u64 {
    Clock::System.now().boot.0
}

/// Whether there is such a process; one that waits for its parent to take leave of it is none.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}
