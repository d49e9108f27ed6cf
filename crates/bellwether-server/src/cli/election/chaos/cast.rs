//! Those who take part in a drill: candidates that were started here, and what they say.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use bellwether::Stopwatch;
use bellwether::clock::boot_ns;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::super::super::failure::Failure;
use super::super::super::human::ms;
use super::super::super::lead::system::this_program;
use super::super::super::reach::Reach;
use super::Fault;
use crate::drill::{Event, History, Op, Phase, Recorder, Tail};

/// Pause between two looks at the history.
const LOOK: Duration = Duration::from_millis(5);
/// How long candidates may take to give back what they hold.
const GOODBYE: Duration = Duration::from_secs(5);

/// How long somebody is waited for who should lead.
pub(super) fn patience(ttl: Duration) -> Duration {
    ttl * 10 + Duration::from_secs(30)
}

/// Somebody who leads.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    name: String,
    term: u64,
}

/// See the module. Its processes are killed when it goes, and by the kernel if this one is killed.
pub(super) struct Cast<'a> {
    reach: &'a Reach,
    election: &'a str,
    ttl: Duration,
    seed: u64,
    folder: PathBuf,
    /// It was named by whoever asked, or holds what must be looked at.
    is_kept: bool,
    recorder: Recorder,
    tail: Tail,
    processes: Vec<(String, Child)>,
    started: u32,
    /// The newest term that was heard of, and what is known of its trust.
    newest: Option<Event>,
}

impl<'a> Cast<'a> {
    pub(super) fn new(
        reach: &'a Reach,
        election: &'a str,
        ttl: Duration,
        seed: u64,
        keep: Option<&Path>,
    ) -> Result<Self, Failure> {
        let name = format!("bellwether-chaos-{}-{seed:016x}", std::process::id());
        let folder = keep.map_or_else(|| std::env::temp_dir().join(name), Path::to_owned);
        let unusable = |error: io::Error| {
            let what = format!("the folder for the history, {}", folder.display());
            Failure::Input { what, error }
        };
        // Only for us: what is in it is judged in the end.
        DirBuilder::new()
            .recursive(keep.is_some())
            .mode(0o700)
            .create(&folder)
            .map_err(unusable)?;
        let path = folder.join("history.jsonl");
        if path.exists() {
            return Err(Failure::Usage(format!(
                "--keep {}: there is a history in it already; name another folder",
                folder.display()
            )));
        }
        let recorder = Recorder::open(&path).map_err(unusable)?;
        Ok(Self {
            reach,
            election,
            ttl,
            seed,
            tail: Tail::new(&path),
            recorder,
            is_kept: keep.is_some(),
            processes: Vec::new(),
            started: 0,
            newest: None,
            folder,
        })
    }

    pub(super) fn election(&self) -> &str {
        self.election
    }

    /// One more candidate.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        self.started += 1;
        let name = format!("c{}", self.started);
        let log = File::options().append(true).create(true).open(self.folder.join("log"))?;
        let mut command = this_program();
        command
            .arg("__candidate")
            .args(["--name", &name, "--election", self.election])
            .args(["--parent", &getpid().to_string(), "--ttl-ms", &ms(self.ttl).to_string()])
            .args(["--seed", &self.seed.to_string()])
            .arg("--history")
            .arg(self.folder.join("history.jsonl"))
            .arg("--fenced")
            .arg(self.folder.join("fenced"))
            .envs(self.reach.environment()?)
            // Ctrl-C is for us, and not for them.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command
            .spawn()
            .map_err(|e| Failure::Internal(format!("cannot start a candidate: {e}")))?;
        self.processes.push((name, child));
        Ok(())
    }

    /// Waits until one of ours leads.
    pub(super) async fn leader(&mut self) -> Result<Option<Leader>, Failure> {
        self.wait(|cast| {
            let newest = cast.newest.as_ref()?;
            let leads = matches!(newest.op, Op::Lead | Op::Trust)
                && newest.trusted_until_ns > Some(boot_ns())
                && cast.processes.iter().any(|(name, _)| *name == newest.proc);
            leads.then(|| Leader { name: newest.proc.clone(), term: newest.term.unwrap_or(0) })
        })
        .await
    }

    /// Waits until another one of ours leads, and says since when.
    pub(super) async fn follower_of(&mut self, leader: &Leader) -> Result<Option<u64>, Failure> {
        let (mut since_ns, after) = (None, leader.term);
        self.wait(|cast| {
            let newest = cast.newest.as_ref().filter(|newest| newest.term > Some(after))?;
            since_ns = since_ns.or(Some(newest.t_boot_ns));
            since_ns
        })
        .await
    }

    /// Makes the fault, and says when that was.
    pub(super) fn strike(&mut self, leader: &Leader, fault: Fault) -> Result<u64, Failure> {
        let at_ns = boot_ns();
        let mut event = Event::new(Op::Fault, Phase::Invoke, self.election, at_ns);
        (event.seed, event.proc) = (self.seed, "drill".into());
        event.target = Some(leader.name.clone());
        event.what = Some(fault.name().into());
        self.recorder.record(&event)?;
        let Some(at) = self.processes.iter().position(|(name, _)| *name == leader.name) else {
            return Ok(at_ns);
        };
        match fault {
            Fault::Kill => {
                (event.op, event.phase) = (Op::Kill, Phase::Ok);
                self.recorder.record(&event)?;
                let (_, mut child) = self.processes.swap_remove(at);
                // It may have ended by itself, which is as good.
                let _ = child.kill();
                let _ = child.wait();
            }
            Fault::Freeze => {
                let _ = kill_process(Pid::from_child(&self.processes[at].1), Signal::STOP);
            }
        }
        Ok(at_ns)
    }

    /// Lets everybody go on.
    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until somebody leads, now that there are no faults any more; whether somebody does.
    pub(super) async fn heal(&mut self) -> Result<bool, Failure> {
        let at_ns = boot_ns();
        let mut event = Event::new(Op::Heal, Phase::Ok, self.election, at_ns);
        (event.seed, event.proc) = (self.seed, "drill".into());
        self.recorder.record(&event)?;
        let leads = |newest: &&Event| newest.t_boot_ns > at_ns && newest.trusted_until_ns.is_some();
        let led = self.wait(|cast| cast.newest.as_ref().filter(leads).map(drop)).await?;
        Ok(led.is_some())
    }

    /// Asks all of them to end, so that nobody waits for their leases, and takes leave of them.
    pub(super) async fn end(&mut self) {
        self.signal(Signal::TERM);
        let watch = Stopwatch::start();
        while watch.elapsed() < GOODBYE
            && self.processes.iter_mut().any(|(_, child)| matches!(child.try_wait(), Ok(None)))
        {
            tokio::time::sleep(LOOK).await;
        }
        self.kill();
    }

    pub(super) fn history(&self) -> Result<History, Failure> {
        let path = self.folder.join("history.jsonl");
        History::read(&path, &self.folder.join("fenced"))
            .map_err(|error| Failure::Input { what: "the history of the drill".into(), error })
    }

    /// Where the history is kept, if it is.
    pub(super) fn keep(&mut self, is_well: bool) -> Option<PathBuf> {
        self.is_kept |= !is_well;
        self.is_kept.then(|| self.folder.clone())
    }

    async fn wait<T>(
        &mut self,
        mut is_so: impl FnMut(&Self) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let watch = Stopwatch::start();
        loop {
            for event in self.tail.news()? {
                let is_newer = self.newest.as_ref().is_none_or(|newest| newest.term <= event.term);
                if is_newer && matches!(event.op, Op::Lead | Op::Trust | Op::Stop) {
                    self.newest = Some(event);
                }
            }
            if let Some(found) = is_so(self) {
                return Ok(Some(found));
            }
            if watch.elapsed() > patience(self.ttl) {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn signal(&self, signal: Signal) {
        for (_, child) in &self.processes {
            // A child that we have not taken leave of keeps its number: nobody else is hit.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    fn kill(&mut self) {
        for (_, mut child) in self.processes.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Cast<'_> {
    fn drop(&mut self) {
        self.kill();
        if !self.is_kept {
            // What is left in a folder for temporary files is nobody's trouble.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
