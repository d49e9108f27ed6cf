//! A queue, those who scale it, and the workers they started.

use std::collections::BTreeMap;

use bellwether::{Bellwether, Open};

use super::fleet::{Fleet, Leader, eventually, is_alive};

/// A worker that does nothing until it is told to stop; it writes down its name and its process.
pub const WORKER: &str =
    "trap 'exit 0' TERM; echo $BELLWETHER_WORKER $$ >> workers; while :; do sleep 0.02; done";

/// Quick rounds, and no pauses that a test would have to wait for.
pub const QUICK: [&str; 10] = [
    "--every",
    "50ms",
    "--window",
    "1s",
    "--out-pause",
    "0s",
    "--in-pause",
    "500ms",
    "--start-within",
    "100ms",
];

pub struct World {
    pub fleet: Fleet,
}

impl World {
    pub fn start() -> Self {
        let world = Self { fleet: Fleet::start() };
        world.run(&["queue", "create", "orders"]);
        world
    }

    pub fn run(&self, args: &[&str]) -> String {
        let ran = self.fleet.command(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    pub fn send(&self, count: usize) {
        for _ in 0..count {
            self.run(&["send", "orders", "work"]);
        }
    }

    pub fn purge(&self) {
        self.run(&["queue", "purge", "orders", "--yes"]);
    }

    /// One who scales `orders` with this worker.
    pub fn scale(&self, flags: &[&str], worker: &str) -> Leader {
        let args = [&["scale", "orders"], flags, &QUICK, &["--", "sh", "-c", worker]].concat();
        Leader::start(self.fleet.command(&args))
    }

    /// The workers that are alive: process by name, the youngest last.
    pub fn workers(&self) -> BTreeMap<(String, u64), String> {
        let file = self.fleet.read("workers");
        let lines = file.lines().filter_map(|line| {
            let (name, pid) = line.split_once(' ')?;
            let (instance, number) = name.split_once('.')?;
            Some(((instance.to_owned(), number.parse().ok()?), pid.to_owned()))
        });
        lines.filter(|(_, pid)| is_alive(pid)).collect()
    }

    pub fn has_workers(&self, count: usize) -> BTreeMap<(String, u64), String> {
        eventually(&format!("{count} workers"), || self.workers().len() == count);
        self.workers()
    }

    /// What those who scale tell.
    pub fn shown(&self) -> serde_json::Value {
        let args = ["scale", "orders", "--show", "--output", "json"];
        let ran = self.fleet.command(&args).output().unwrap();
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    pub fn reasons(&self) -> Vec<String> {
        let shown = self.shown();
        let decisions = shown["plan"]["decisions"].as_array().cloned().unwrap_or_default();
        decisions.iter().map(|told| told["why"].as_str().unwrap().to_owned()).collect()
    }

    /// The store as a worker of that name has it open.
    pub async fn open_as(&self, worker: &str) -> Bellwether {
        let address = format!("bellwether+unix:{}", self.fleet.path("s").display());
        Open::new(address).metadata(format!("a test worker={worker}")).open().await.unwrap()
    }
}
