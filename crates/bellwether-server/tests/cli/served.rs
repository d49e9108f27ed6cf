//! The same commands on a running server: over the wire's TCP port, and over its Unix socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::carrying::lines;
use super::store::{Ran, Store, ended, program};

/// A server, and one of its addresses. Killed in the end if it was not stopped.
pub struct Served {
    child: Child,
    server: String,
    banner: String,
    folder: Store,
}

/// Which door is taken.
#[derive(Clone, Copy, Debug)]
pub enum Door {
    Wire,
    Socket,
}

const DOORS: [Door; 2] = [Door::Wire, Door::Socket];

impl Served {
    /// A server that keeps nothing, but for the socket.
    pub fn start(door: Door) -> Self {
        Self::start_with(door, &[])
    }

    /// A server that keeps everything in that folder.
    pub fn start_in(door: Door, kept: &Store) -> Self {
        Self::start_of(door, &["--data", kept.path().to_str().unwrap()], &[])
    }

    fn start_with(door: Door, more: &[&str]) -> Self {
        Self::start_of(door, &["--memory"], more)
    }

    /// A server with such a store, and more flags.
    pub fn start_of(door: Door, store: &[&str], more: &[&str]) -> Self {
        let folder = Store::none();
        std::fs::create_dir(folder.path()).unwrap();
        let socket = folder.path().join("s");
        let free = ["serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"];
        let mut child = program()
            .args(free)
            .args(store)
            .args(more)
            .arg("--unix-socket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            assert_ne!(stdout.read_line(&mut banner).unwrap(), 0, "it did not start: {banner}");
        }
        let wanted = match door {
            Door::Wire => "bellwether://",
            Door::Socket => "bellwether+unix:",
        };
        let at = banner.find(wanted).unwrap_or_else(|| panic!("no {wanted} in {banner}"));
        let server = banner[at..].lines().next().unwrap().to_owned();
        Self { child, server, banner, folder }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.args(args).env("BELLWETHER_SERVER", &self.server);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ended(self.command(args).spawn().unwrap())
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{} {args:?}", self.server);
        ran.stdout
    }

    pub fn fails(&self, args: &[&str], code: i32, why: &str) {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{args:?} {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{args:?} says {why:?}: {}", ran.stderr);
    }

    pub fn feed(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let ran = ended(child);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{} {args:?}", self.server);
        ran.stdout
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--output", "json"]].concat())).unwrap()
    }

    fn signal(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    pub fn stop(mut self) {
        self.signal();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let path = self.folder.path().join("s");
        assert!(!path.exists(), "the socket is gone with its server");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_the_server_says_to_try_works() {
    let served = Served::start(Door::Wire);
    let tries = served.banner.lines().filter_map(|line| line.strip_prefix("  bellwether "));
    let said: Vec<String> = tries
        .map(|line| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("\"$0\" {line}")).arg(program().get_program());
            let ran = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
            ran.stdout
        })
        .collect();
    let wanted = ["queue \"orders\" created\n", "sent message 1 to \"orders\"\n", "two coffees\n"];
    assert_eq!(said, wanted);
    served.stop();
}

#[test]
fn queues_and_messages() {
    for door in DOORS {
        let served = Served::start(door);
        served.ok(&["queue", "create", "orders", "--lock", "30s"]);
        served.ok(&["queue", "create", "mail", "--sessions"]);
        let list = served.ok(&["queue", "list"]);
        assert_eq!(list.lines().count(), 3, "{list}");
        let shown = served.json(&["queue", "show", "orders"]);
        assert_eq!(shown["settings"]["lock_ms"], 30_000, "{shown}");
        served.fails(&["queue", "show", "oders"], 66, "did you mean \"orders\"?");
        let sent = served.feed(&["send", "orders"], b"1\n2\n3\n4\n");
        assert_eq!(sent, "sent 4 messages to \"orders\", 1 to 4\n");
        let peeked = served.ok(&["peek", "orders", "--output", "json"]);
        assert_eq!(peeked.lines().count(), 4);
        assert_eq!(served.ok(&["receive", "orders", "--complete"]), "1\n");
        assert_eq!(served.ok(&["receive", "orders", "--abandon"]), "2\n");
        assert_eq!(served.ok(&["receive", "orders", "--defer"]), "2\n");
        assert_eq!(served.ok(&["receive", "orders", "--number", "2"]), "2\n");
        assert_eq!(served.ok(&["receive", "orders", "-n", "9"]), "3\n4\n");
        served.fails(&["receive", "orders"], 1, "no message came");
        served.ok(&["send", "mail", "a1", "--session", "a"]);
        assert_eq!(served.ok(&["receive", "mail", "--session", "a"]), "a1\n");
        served.ok(&["send", "orders", "x", "--delay", "1h"]);
        let why = served.ok(&["message", "explain", "orders", "5"]);
        assert!(why.contains("scheduled"), "{why}");
        served.ok(&["queue", "set", "orders", "--lock", "1m"]);
        served.ok(&["queue", "purge", "orders", "--yes"]);
        served.ok(&["queue", "delete", "orders", "--yes"]);
        assert_eq!(served.json(&["stats"])["queues"], 1);
        served.stop();
    }
}

#[test]
fn dead_letters() {
    for door in DOORS {
        let served = Served::start(door);
        served.ok(&["queue", "create", "orders"]);
        served.feed(&["send", "orders"], b"1\n2\n3\n");
        let die = ["receive", "orders", "--dead-letter", "--reason", "Bad", "-n", "3"];
        assert_eq!(served.ok(&die), "1\n2\n3\n");
        let summary = served.json(&["dead-letter", "list", "orders", "--summary"]);
        assert_eq!(summary["by_reason"], json!({ "Bad": 3 }));
        let shown = served.json(&["dead-letter", "show", "orders", "2"]);
        assert_eq!(shown["dead_letter"]["reason"], "Bad");
        let redriven = served.json(&["dead-letter", "redrive", "orders", "--number", "2"]);
        assert_eq!(redriven["redriven"], 1);
        assert_eq!(served.ok(&["receive", "orders"]), "2\n");
        let purged = served.json(&["dead-letter", "purge", "orders", "--yes"]);
        assert_eq!(purged["purged"], 2);
        served.stop();
    }
}

#[test]
fn leases() {
    for door in DOORS {
        let served = Served::start(door);
        let grant = served.json(&["lease", "acquire", "chores", "--ttl", "60s"]);
        let (term, id) = (grant["term"].as_u64().unwrap(), grant["id"].as_str().unwrap());
        served.fails(&["lease", "acquire", "chores", "--ttl", "60s"], 75, "chores");
        let renewed = served.json(&["lease", "renew", "chores", "--id", id]);
        assert_eq!(renewed["term"].as_u64(), Some(term), "the same term");
        assert_eq!(served.json(&["lease", "show", "chores"])["state"], "leased");
        served.ok(&["lease", "release", "chores", "--id", id]);
        let next = served.json(&["lease", "acquire", "chores", "--ttl", "60s"]);
        assert!(next["term"].as_u64().unwrap() > term, "terms only grow");
        served.ok(&["lease", "break", "chores", "--yes"]);
        assert_eq!(served.ok(&["lease", "list"]).lines().count(), 2);
        served.stop();
    }
}

#[test]
fn what_one_server_exports_another_imports() {
    let (from, to) = (Served::start(Door::Wire), Served::start(Door::Socket));
    from.ok(&["queue", "create", "orders"]);
    from.feed(&["send", "orders"], b"1\n2\n3\n");
    from.ok(&["receive", "orders", "--dead-letter", "--reason", "Bad"]);
    from.ok(&["receive", "orders", "--abandon"]);
    let export = from.ok(&["export"]);
    let imported = to.feed(&["import"], export.as_bytes());
    assert_eq!(imported, "imported 1 queue, 3 messages, 0 session states\n");
    assert_eq!(lines(&to.ok(&["export"])), lines(&export));
    from.stop();
    to.stop();
}

#[test]
fn a_server_that_stops_does_not_wait_for_those_who_wait() {
    for door in DOORS {
        let served = Served::start(door);
        served.ok(&["queue", "create", "orders"]);
        let mut waiting = served.command(&["receive", "orders", "--follow"]).spawn().unwrap();
        while served.json(&["stats"])["members"].as_u64().unwrap() < 3 {}
        served.stop();
        waiting.kill().unwrap();
        waiting.wait().unwrap();
    }
}

#[test]
fn one_connection_too_many_is_told_so() {
    for door in DOORS {
        let served = Served::start_with(door, &["--wire-connections-max", "1"]);
        served.ok(&["queue", "create", "orders"]);
        let mut first = served.command(&["receive", "orders", "--follow"]).spawn().unwrap();
        let refused = loop {
            let ran = served.run(&["queue", "list"]);
            if ran.code != 0 {
                break ran;
            }
        };
        assert_eq!(refused.code, 69);
        assert!(refused.stderr.contains("wire_connections_max"), "{}", refused.stderr);
        first.kill().unwrap();
        first.wait().unwrap();
        served.stop();
    }
}

#[test]
fn a_server_tells_who_led_also_before_it_was_started() {
    let kept = Store::none();
    for (round, door) in DOORS.into_iter().enumerate() {
        let served = Served::start_in(door, &kept);
        let granted = served.json(&["lease", "acquire", "chores", "--ttl", "forever"]);
        let id = granted["id"].as_str().unwrap();
        served.ok(&["lease", "release", "chores", "--id", id]);
        let history = served.json(&["election", "history", "chores"]);
        let history = history.as_array().unwrap();
        assert_eq!(history.len(), round + 1, "{history:?}");
        assert_eq!(history[round]["term"], granted["term"], "the newest last");
        assert!(history.iter().all(|term| term["left_as"] == "released"), "{history:?}");
        served.fails(&["election", "history", "choers"], 66, "no term of \"choers\"");
        served.stop();
    }
}
