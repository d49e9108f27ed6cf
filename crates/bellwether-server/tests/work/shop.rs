//! A server, those who work for it, and what their commands wrote down.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bellwether::Stopwatch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

static SHOPS: AtomicU32 = AtomicU32::new(0);

/// A server and a folder of its own. Killed and removed in the end.
pub struct Shop {
    server: Option<Child>,
    folder: PathBuf,
}

/// A `bellwether work`. Killed in the end.
pub struct Worker(Child);

/// Its exit code, its output, and what it had to say.
pub type Ran = (i32, String, String);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

impl Shop {
    /// With a queue `orders`, made with these flags.
    pub fn open(flags: &[&str]) -> Self {
        let mut shop = Self::folder();
        let addresses = ["--http", "127.0.0.1:0", "--wire", "127.0.0.1:0", "--unix-socket"];
        let mut server = program()
            .args(["serve", "--memory"])
            .args(addresses)
            .arg(shop.folder.join("s"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            assert_ne!(stdout.read_line(&mut banner).unwrap(), 0, "it did not start: {banner}");
        }
        shop.server = Some(server);
        shop.ok(&[&["queue", "create", "orders"], flags].concat());
        shop
    }

    /// Without a server.
    pub fn folder() -> Self {
        let nth = SHOPS.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("bellwether-work-{}-{nth}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self { server: None, folder }
    }

    /// What a command wrote into this file; nothing if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command
            .args(args)
            .env("BELLWETHER_SERVER", format!("bellwether+unix:{}/s", self.folder.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .current_dir(&self.folder);
        command
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.command(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    pub fn send(&self, bodies: &[&str]) {
        for body in bodies {
            self.ok(&["send", "orders", body]);
        }
    }

    /// Somebody who works for `orders`, with this script.
    pub fn work(&self, flags: &[&str], script: &str) -> Worker {
        let args = [&["work", "orders"], flags, &["--", "sh", "-c", script]].concat();
        Worker(self.command(&args).spawn().unwrap())
    }

    /// The same until nothing is left.
    pub fn work_off(&self, flags: &[&str], script: &str) -> Ran {
        self.work(&[flags, &["--until-empty"]].concat(), script).end()
    }

    /// All messages, or all dead letters, as the program shows them.
    pub fn messages(&self, flags: &[&str]) -> Vec<Value> {
        let all = self.ok(&[&["peek", "orders", "--output", "json"], flags].concat());
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Worker {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn end(mut self) -> Ran {
        let (mut out, mut err) = (self.0.stdout.take().unwrap(), self.0.stderr.take().unwrap());
        let reads = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        let mut ended = None;
        eventually("it ends", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        (ended.and_then(|status| status.code()).unwrap_or(-1), text, reads.join().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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

/// Whether there is such a process; one that waits for its parent to take leave of it is none.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}
