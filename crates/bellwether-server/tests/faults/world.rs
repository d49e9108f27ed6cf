//! A world: candidates, whoever they elect on, and what they wrote down.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bellwether::clock::boot_ns;
use bellwether::core::chance::Chance;
use bellwether::{Bellwether, Stopwatch};
use bellwether_server::drill::{
    Event, History, Op, Phase, Recorder, Rules, Tail, Tally, Violation, check,
};
use rustix::process::Signal;

use crate::guise::Guise;
use crate::run::again;
use crate::servers::{Process, free_ports};

/// How long anything is waited for: it is not how fast it is that is tested here.
const PATIENCE: Duration = Duration::from_secs(60);

const PROGRAM: &str = env!("CARGO_BIN_EXE_bellwether");

/// See the module. Its processes are killed when it goes.
pub struct World {
    pub kind: &'static str,
    pub nth: u64,
    pub chance: Chance,
    pub ttl: Duration,
    pub candidates: Vec<Candidate>,
    pub server: Option<Process>,
    seed: u64,
    folder: PathBuf,
    recorder: Recorder,
    tail: Tail,
    started: u32,
    /// The last word of each process on its term.
    said: BTreeMap<String, Event>,
    /// When a leader was last heard.
    heard_ns: u64,
}

/// A process that wants to lead.
pub struct Candidate {
    pub name: String,
    pub process: Process,
    pub address: String,
    pub guise: Guise,
}

impl World {
    pub fn new(kind: &'static str, seed: u64, nth: u64) -> Self {
        let name = format!("bellwether-faults-{kind}-{}-{nth}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let path = folder.join("history.jsonl");
        Self {
            kind,
            nth,
            chance: Chance::new(seed.wrapping_add(nth << 32)),
            ttl: Duration::from_millis(400),
            candidates: Vec::new(),
            server: None,
            seed,
            recorder: Recorder::open(&path).unwrap(),
            tail: Tail::new(&path),
            started: 0,
            said: BTreeMap::new(),
            heard_ns: 0,
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a server with a store of its own, and says where; by its socket it is at `socket()`.
    pub fn serve(&mut self, guise: &Guise, wire: &str, more: &[&str]) -> String {
        let [port] = free_ports();
        let wire = format!("{wire}:{port}");
        let (data, socket) = (self.path("store"), self.path("s"));
        let mut arguments = guise.before.clone();
        arguments.extend([PROGRAM, "serve", "--http", "127.0.0.1:0", "--wire"].map(str::to_owned));
        arguments.extend([wire.clone(), "--data".into(), data.display().to_string()]);
        arguments.extend(["--unix-socket".into(), socket.display().to_string()]);
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        let program = arguments.remove(0);
        let mut server = Process::new("faults-server", None);
        server.start(&program, arguments);
        self.server = Some(server);
        self.await_server(1);
        format!("bellwether://{wire}")
    }

    pub fn socket(&self) -> String {
        format!("bellwether+unix:{}", self.path("s").display())
    }

    /// Lets time pass, and asks the server for something all the while. One whose clocks are
    /// libfaketime's sleeps by the kernel's, which run at another rate: it looks at its own only when
    /// somebody comes.
    pub fn pass_in_company(&self, during: Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let watch = Stopwatch::start();
        runtime.block_on(async {
            let store = Bellwether::open(self.socket()).await.unwrap();
            while watch.elapsed() < during {
                store.leases().await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            store.close().await;
        });
    }

    /// Until it has said so many times in its lives that it is ready.
    fn await_server(&mut self, times: usize) {
        let server = self.server.as_mut().unwrap();
        let watch = Stopwatch::start();
        while server.log().matches("Ctrl-C stops it").count() < times {
            server.must_run();
            assert!(watch.elapsed() < PATIENCE, "the server is not ready:\n{}", server.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill_server(&mut self) {
        self.server.as_mut().unwrap().kill();
    }

    pub fn start_server_again(&mut self) {
        let server = self.server.as_mut().unwrap();
        let before = server.log().matches("Ctrl-C stops it").count();
        server.start_again();
        self.await_server(before + 1);
    }

    /// One more candidate.
    pub fn stand(&mut self, address: &str, guise: Guise) {
        self.started += 1;
        let name = format!("c{}", self.started);
        let mut arguments = guise.before.clone();
        arguments.extend([PROGRAM.to_owned(), "__candidate".into()]);
        for (flag, value) in [
            ("--parent", std::process::id().to_string()),
            ("--name", name.clone()),
            ("--election", "faults".into()),
            ("--ttl-ms", self.ttl.as_millis().to_string()),
            ("--history", self.path("history.jsonl").display().to_string()),
            ("--fenced", self.path("fenced").display().to_string()),
            ("--seed", self.seed.to_string()),
            ("--engine", address.to_owned()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.extend(guise.flags.clone());
        let program = arguments.remove(0);
        let mut process = Process::new("faults-candidate", None);
        process.start(&program, arguments);
        self.candidates.push(Candidate { name, process, address: address.into(), guise });
    }

    /// A duration between these parts of the ttl.
    pub fn parts_of_ttl(&mut self, from: f64, to: f64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a part, by chance")]
        let part = self.chance.below(1000) as f64 / 1000.0;
        self.ttl.mul_f64(from + (to - from) * part)
    }

    /// Waits for somebody who leads now, and says which of the candidates it is.
    pub fn leader(&mut self) -> usize {
        let mut leader = 0;
        self.eventually("somebody leads", |world| {
            let now = boot_ns();
            let leads = |said: &&Event| said.op != Op::Stop && said.trusted_until_ns > Some(now);
            let Some(said) = world.said.values().filter(leads).max_by_key(|said| said.term) else {
                return false;
            };
            let found = world.candidates.iter().position(|candidate| candidate.name == said.proc);
            leader = found.unwrap_or(0);
            found.is_some()
        });
        leader
    }

    /// One who does not lead.
    pub fn follower(&mut self) -> usize {
        let leader = self.leader();
        let others = self.candidates.len() - 1;
        (leader + 1 + self.chance.below(others as u64) as usize) % self.candidates.len()
    }

    /// The newest term that anybody has said.
    pub fn newest_term(&mut self) -> u64 {
        self.read();
        self.said.values().filter_map(|said| said.term).max().unwrap_or(0)
    }

    /// Writes down that a fault begins.
    pub fn fault(&mut self, what: &str, target: &str) {
        self.record(Op::Fault, Phase::Invoke, what, target);
    }

    /// Freezes a candidate for so long.
    pub fn freeze(&mut self, index: usize, during: Duration) {
        let name = self.candidates[index].name.clone();
        self.fault("freeze", &name);
        self.candidates[index].process.signal(Signal::STOP);
        std::thread::sleep(during);
        self.candidates[index].process.signal(Signal::CONT);
    }

    /// Kills a candidate; another one like it comes in its place.
    pub fn kill(&mut self, index: usize) {
        let mut candidate = self.candidates.swap_remove(index);
        self.fault("kill", &candidate.name);
        self.record(Op::Kill, Phase::Ok, "", &candidate.name);
        candidate.process.kill();
        self.stand(&candidate.address, candidate.guise.clone());
    }

    /// Asks a candidate to end. It stops its work and gives back what it holds, or tries to.
    pub fn dismiss(&mut self, index: usize, what: &str) -> Candidate {
        let candidate = self.candidates.swap_remove(index);
        self.fault(what, &candidate.name);
        candidate.process.signal(Signal::TERM);
        candidate
    }

    /// Waits until it has ended; another one like it comes in its place.
    pub fn replace(&mut self, mut candidate: Candidate) {
        let stat = format!("/proc/{}/stat", candidate.process.pid());
        let is_over = |_: &mut Self| {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
        };
        self.eventually(&format!("{} ends", candidate.name), is_over);
        candidate.process.wait();
        self.stand(&candidate.address, candidate.guise.clone());
    }

    /// From now on nothing is wrong any more: waits until a leader is heard.
    pub fn somebody_leads(&mut self) {
        self.record(Op::Heal, Phase::Ok, "", "");
        let since_ns = boot_ns();
        // What is written down on a coarse clock may seem to be from before.
        self.eventually("somebody leads again", |world| world.heard_ns > since_ns + 10_000_000);
    }

    pub fn eventually(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let watch = Stopwatch::start();
        loop {
            self.read();
            if is_so(self) {
                return;
            }
            let waited = watch.elapsed();
            assert!(waited < PATIENCE, "{what}: not after {PATIENCE:?}; {}", self.logs());
            for candidate in &mut self.candidates {
                candidate.process.must_run();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The end of it: everybody is stopped, and the history must be right.
    pub fn judge(mut self, rules: Rules) -> Tally {
        // Those at the socket may follow each other until the last one is gone.
        for mut candidate in std::mem::take(&mut self.candidates) {
            self.record(Op::Kill, Phase::Ok, "", &candidate.name);
            candidate.process.kill();
        }
        let history = History::read(&self.path("history.jsonl"), &self.path("fenced")).unwrap();
        let (tally, violations) = check(&history, rules);
        let told: Vec<_> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
        assert!(violations.is_empty(), "{} must never happen:{}", violations.len(), told.concat());
        if rules.beyond_drift {
            let (_, met) = check(&history, Rules { beyond_drift: false, ..rules });
            let is_met = met.iter().any(|found| matches!(found, Violation::Overlap { .. }));
            assert!(is_met, "no two led at once: were the clocks as far apart as they should be?");
        }
        tally
    }

    fn logs(&self) -> String {
        let candidates = self.candidates.iter().map(|candidate| candidate.process.log());
        let server = self.server.as_ref().map(Process::log);
        candidates.chain(server).collect::<Vec<_>>().join("\n")
    }

    fn read(&mut self) {
        for event in self.tail.news().unwrap() {
            if matches!(event.op, Op::Lead | Op::Trust) {
                self.heard_ns = self.heard_ns.max(event.t_boot_ns);
            }
            if matches!(event.op, Op::Lead | Op::Trust | Op::Stop) {
                self.said.insert(event.proc.clone(), event);
            }
        }
    }

    fn record(&self, op: Op, phase: Phase, what: &str, target: &str) {
        let mut event = Event::new(op, phase, "faults", boot_ns());
        (event.seed, event.proc) = (self.seed, "world".into());
        event.what = (!what.is_empty()).then(|| what.into());
        event.target = (!target.is_empty()).then(|| target.into());
        self.recorder.record(&event).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.candidates.clear();
        self.server = None;
        if std::thread::panicking() {
            let (kept, again) = (self.folder.display(), again(self.kind, self.seed));
            eprintln!("the history is kept in {kept}; these faults again:\n  {again}");
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
