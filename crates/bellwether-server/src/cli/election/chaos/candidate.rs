//! A candidate of a drill: a process that leads when it can, writes while it does, and says so.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether::clock::boot_ns;
use bellwether::fencing::FenceError;
use bellwether::fencing::file::FencedFile;
use bellwether::{Bellwether, Election, Elections, Error, Fence, Leadership, Open};
use clap::Args;
use rustix::process::Pid;
use tokio_util::sync::CancellationToken;

use super::super::super::failure::{Ended, Failure};
use super::super::super::lead::system::die_with;
use super::super::super::reach::Reach;
use super::super::super::stop::Stop;
use crate::drill::{Accepted, Event, Op, Phase, Recorder};

/// How often a leader looks at its trust, and every how many looks it writes.
const LOOK: Duration = Duration::from_millis(6);
const LOOKS_PER_WRITE: u32 = 4;
/// How often, and how many times, it writes after its term: as somebody does who has not heard of its end.
const LATE: Duration = Duration::from_millis(50);
const LATE_WRITES: u32 = 12;
/// Pause between two attempts to reach whoever keeps the election.
const REACH_AGAIN: Duration = Duration::from_millis(100);
/// How long a call in line waits, and a refusal is slept over: faults are short here.
const WAIT: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(100);

/// Stand for an election in a drill, which starts this.
#[derive(Clone, Debug, Args)]
pub(crate) struct Candidate {
    /// The process that started this: the end of it is the end of this.
    #[arg(long)]
    parent: i32,
    /// A name that is used once.
    #[arg(long)]
    name: String,
    /// Which election.
    #[arg(long)]
    election: String,
    /// The ttl.
    #[arg(long)]
    ttl_ms: u64,
    /// Where the history is written.
    #[arg(long)]
    history: PathBuf,
    /// The file that is written under the fence.
    #[arg(long)]
    fenced: PathBuf,
    /// What the faults are drawn from.
    #[arg(long, default_value_t)]
    seed: u64,
    /// An engine to elect on, by its address, instead of a server.
    #[arg(long)]
    engine: Option<String>,
    /// The rate of this process's boot clock, if somebody changes it: the history is then written on the
    /// kernel's own, read in hundredths of a second.
    #[arg(long)]
    rate: Option<f64>,
    /// By how much this process's boot clock is ahead of the machine's.
    #[arg(long, default_value_t)]
    ahead_s: u64,
    #[command(flatten)]
    reach: Reach,
}

impl Candidate {
    pub(crate) fn run(&self) -> Ended {
        let failed = |e: io::Error| Failure::Internal(format!("a candidate of a drill: {e}"));
        let parent =
            Pid::from_raw(self.parent).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        die_with(parent).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))?;
        let diary = Arc::new(Diary {
            recorder: Recorder::open(&self.history).map_err(failed)?,
            fenced: FencedFile::new(&self.fenced),
            ops: AtomicU64::new(0),
            candidate: self.clone(),
        });
        runtime.block_on(async {
            let (opened, election) = self.reach().await?;
            let election = election
                .ttl(Duration::from_millis(self.ttl_ms))
                .wait(WAIT)
                .retry(RETRY)
                .metadata(self.name.clone());
            let elector = election.lead(move |leadership| Arc::clone(&diary).lead(leadership));
            let stop = CancellationToken::new();
            let stopped = stop.clone();
            tokio::spawn(async move {
                let mut stop = Stop::listen()?;
                stop.asked().await;
                stopped.cancel();
                Ok::<_, Failure>(())
            });
            let ended = elector.run(stop.cancelled()).await;
            opened.close().await;
            ended?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// However long that takes: the fault may be that nobody is there.
    async fn reach(&self) -> Result<(Opened, Election), Failure> {
        loop {
            match self.try_to_reach().await {
                Err(Failure::Unreachable(_)) => tokio::time::sleep(REACH_AGAIN).await,
                reached => return reached,
            }
        }
    }

    async fn try_to_reach(&self) -> Result<(Opened, Election), Failure> {
        // What would be the same next time is not tried again.
        let failed = |error| match error {
            Error::Refused(_) | Error::Address { .. } | Error::Denied { .. } => {
                Failure::Store(error)
            }
            error => Failure::Unreachable(error.to_string()),
        };
        if let Some(address) = &self.engine {
            let elections = Elections::open(address).await.map_err(failed)?;
            let election = elections.election(&self.election)?;
            return Ok((Opened::Engine(elections), election));
        }
        // The work ends with its process here.
        let opened = self.reach.open_server(|open: Open| open).await;
        let store = opened.map_err(|failure| match failure {
            Failure::Store(error) => failed(error),
            failure => failure,
        })?;
        let election = store.election(&self.election)?;
        Ok((Opened::Server(store), election))
    }
}

/// What must live for as long as the candidacy does.
enum Opened {
    Engine(Elections),
    Server(Bellwether),
}

impl Opened {
    /// Says goodbye: what was granted to us in the last moment is free again.
    async fn close(&self) {
        match self {
            Self::Engine(elections) => elections.close().await,
            Self::Server(store) => store.close().await,
        }
    }
}

/// What one candidate writes down, and where it writes as a leader.
struct Diary {
    recorder: Recorder,
    fenced: FencedFile,
    ops: AtomicU64,
    candidate: Candidate,
}

impl Diary {
    /// One term.
    async fn lead(self: Arc<Self>, leadership: Leadership) -> io::Result<()> {
        let fence = leadership.fence().clone();
        self.say(Op::Lead, &fence, Some(self.until(&leadership)))?;
        let worked = self.work(&leadership, &fence).await;
        self.say(Op::Stop, &fence, None)?;
        // What the file cannot do here another leader may be able to.
        worked?;
        let late = Arc::clone(&self);
        // Not waited for: the next term may well begin before it has given up.
        std::thread::Builder::new().name("late".into()).spawn(move || late.write_late(&fence))?;
        leadership.cancelled().await;
        Ok(())
    }

    /// Writes again and again, until its trust is over, it is told to stop, or it is refused.
    async fn work(self: &Arc<Self>, leadership: &Leadership, fence: &Fence) -> io::Result<()> {
        let mut told = leadership.trusted_until();
        let mut looks = 0_u32;
        while leadership.ensure().is_ok() && !leadership.token().is_cancelled() {
            let until = leadership.trusted_until();
            if until != told {
                told = until;
                self.say(Op::Trust, fence, Some(self.until(leadership)))?;
            }
            if looks.is_multiple_of(LOOKS_PER_WRITE) && !self.write_aside(fence).await? {
                return Ok(());
            }
            looks += 1;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = leadership.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Writes once, beside this thread: the file may be shut for as long as somebody is frozen in it.
    async fn write_aside(self: &Arc<Self>, fence: &Fence) -> io::Result<bool> {
        let (diary, fence) = (Arc::clone(self), fence.clone());
        let written = tokio::task::spawn_blocking(move || diary.write(&fence)).await;
        written.map_err(|_| io::Error::other("a write panicked"))?
    }

    /// Writes on, without a look at its trust, until it is refused.
    fn write_late(&self, fence: &Fence) {
        for _ in 0..LATE_WRITES {
            std::thread::sleep(LATE);
            if !matches!(self.write(fence), Ok(true)) {
                return;
            }
        }
    }

    /// Whether the file let it in.
    fn write(&self, fence: &Fence) -> io::Result<bool> {
        let op_id = self.ops.fetch_add(1, Ordering::Relaxed);
        let say = |phase, what: Option<String>| {
            let mut event = self.event(Op::Write, phase, fence);
            (event.op_id, event.what) = (op_id, what);
            self.recorder.record(&event)
        };
        say(Phase::Invoke, None)?;
        let line = Accepted { term: fence.term.0, proc: self.candidate.name.clone(), op_id }.line();
        match self.fenced.append(fence, line.as_bytes()) {
            Ok(()) => say(Phase::Ok, None).map(|()| true),
            Err(FenceError::Fenced(fenced)) => {
                say(Phase::Fail, Some(fenced.to_string())).map(|()| false)
            }
            Err(FenceError::Fault(fault)) => {
                say(Phase::Unknown, Some(fault.to_string()))?;
                Err(fault)
            }
        }
    }

    fn say(&self, op: Op, fence: &Fence, until_ns: Option<u64>) -> io::Result<()> {
        let mut event = self.event(op, Phase::Ok, fence);
        event.trusted_until_ns = until_ns;
        event.op_id = self.ops.fetch_add(1, Ordering::Relaxed);
        self.recorder.record(&event)
    }

    fn event(&self, op: Op, phase: Phase, fence: &Fence) -> Event {
        let mut event = Event::new(op, phase, fence.election.as_str(), self.now_ns());
        event.seed = self.candidate.seed;
        event.proc.clone_from(&self.candidate.name);
        event.term = Some(fence.term.0);
        event
    }

    /// The machine's boot clock, whatever was done to this process's own.
    fn now_ns(&self) -> u64 {
        match self.candidate.rate {
            None => boot_ns().saturating_sub(self.candidate.ahead_s.saturating_mul(1_000_000_000)),
            Some(_) => uptime_ns().unwrap_or(0),
        }
    }

    /// The end of trust on the machine's boot clock. Read before what is left, so that it is never
    /// later than it is.
    fn until(&self, leadership: &Leadership) -> u64 {
        let ahead_ms = self.candidate.ahead_s.saturating_mul(1_000);
        match self.candidate.rate {
            None => leadership.trusted_until().0.saturating_sub(ahead_ms) * 1_000_000,
            Some(rate) => {
                let now_ns = self.now_ns();
                let left = leadership.trusted_for().div_f64(rate);
                now_ns + u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }
}

/// `/proc/uptime`, which no library stands in for.
fn uptime_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let (seconds, hundredths): (u64, u64) = (seconds.parse().ok()?, hundredths.parse().ok()?);
    Some((seconds * 100 + hundredths) * 10_000_000)
}
