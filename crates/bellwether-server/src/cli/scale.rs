//! `bellwether scale`: as many worker processes as a queue has work for.
//!
//! ```text
//!   host A: scale ── elected ──► reads the queue, decides, tells the plan ─┐   (leader only)
//!     └ worker, worker                                                     ▼
//!   host B: scale ── follows ──► tells its workers, hears its share ◄── the store
//!     └ worker
//! ```
//!
//! Rounds with the store ([`pulse`]) and workers ([`crew`]) do not wait for each other.

mod crew;
mod plan;
mod pulse;
mod show;
mod worker;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::time::BootTime;
use bellwether::scaler::Policy;
use bellwether::{Bellwether, Error, Refusal};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::failure::{Ended, Failure};
use super::form::time;
use super::human::{Span, ms, parse_duration};
use super::lead::signals::Signals;
use super::lead::system::boot;
use super::reach::{Reach, now};
use super::screen::Format;
use crew::{Crew, News};
pub(crate) use plan::{HostReport, Plan, newest};
use pulse::{Heard, Office, Pulse};
use worker::Task;

const EXAMPLES: &str = "\
Examples:
  bellwether scale orders --max 20 -- ./worker
  bellwether scale orders --min 0 --max 50 --max-here 8 --drain-within 1m -- python3 -m worker
  bellwether scale orders --per-worker 100 --oldest-within 30s --grace 2m -- ./worker
  bellwether scale orders --show";

/// Pause between two attempts to reach a server that is not there.
const REACH_AGAIN: Duration = Duration::from_secs(1);
/// How long a term lasts without a word of its leader.
const TTL: Duration = Duration::from_secs(5);

/// The election of those who scale a queue.
pub(crate) fn election_of(queue: &str) -> String {
    format!("scale/{queue}")
}

/// Run as many worker processes as a queue has work for.
///
/// Runs on every host that has room for workers. One of them is elected to decide how many there should
/// be: out if any target is missed, in only if all have been met with room to spare for a while. The
/// others, and it as well, run their share. If nobody leads, or the server cannot be reached, workers go
/// on, and only decisions wait.
///
/// A worker that is not needed any more is sent SIGTERM and, after the grace, SIGKILL, with all its
/// process group; one that has a message of the queue goes only if all have, one that leads an election
/// after those. Which ones have is known of workers that use the library, or members over HTTP whose
/// metadata contains `worker=$BELLWETHER_WORKER`. A worker that ends by itself is started again, later
/// each time that it did not last ten seconds. If this is told to stop, its workers are stopped in the
/// same way; told twice, they are killed.
///
/// Workers find `BELLWETHER_WORKER` (their name), `BELLWETHER_QUEUE` and `BELLWETHER_SERVER` in their
/// environment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scale {
    /// Which queue.
    queue: String,
    #[command(flatten)]
    targets: Targets,
    /// At most so many workers on this host; as many as --max if not given.
    #[arg(long, value_name = "N")]
    max_here: Option<u32>,
    /// How long a worker may take to stop.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    grace: Duration,
    /// How long a worker may take until it takes messages; nothing is decided meanwhile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    start_within: Duration,
    /// How often the queue is looked at.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    every: Duration,
    /// The election of those who scale this queue; scale/QUEUE if not given.
    #[arg(long, value_name = "NAME")]
    election: Option<String>,
    /// Show who scales the queue, and the last hundred decisions with their reasons.
    #[arg(long)]
    show: bool,
    /// Say nothing but what goes wrong.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    reach: Reach,
    /// The worker's command and its arguments.
    #[arg(last = true, required_unless_present = "show", value_name = "CMD")]
    command: Vec<OsString>,
}

/// What workers should achieve, and how quickly their number may change.
#[derive(Clone, Debug, Args)]
struct Targets {
    /// Never fewer workers, on all hosts together; with 0 a queue without messages has none.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: u32,
    /// Never more.
    #[arg(long, value_name = "N", default_value_t = 10)]
    max: u32,
    /// So many messages to a worker; 5 if no target is given.
    #[arg(long, value_name = "N")]
    per_worker: Option<u64>,
    /// What waits should be gone after this, at the pace that workers have.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    drain_within: Option<Duration>,
    /// No message should wait longer.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    oldest_within: Option<Duration>,
    /// Paces are measured over this.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    window: Duration,
    /// Between two increases.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    out_pause: Duration,
    /// After any change, and of calm, before a decrease.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1m")]
    in_pause: Duration,
    /// More by at most so many at a time.
    #[arg(long, value_name = "N", default_value_t = 4)]
    step: u32,
    /// With no worker, the first is started when more than this wait.
    #[arg(long, value_name = "N", default_value_t)]
    activate_above: u64,
}

impl Targets {
    fn policy(&self) -> Result<Policy, Refusal> {
        let policy = Policy {
            min: self.min,
            max: self.max,
            per_worker: self.per_worker,
            drain_within_ms: self.drain_within.map(ms),
            oldest_within_ms: self.oldest_within.map(ms),
            window_ms: ms(self.window),
            out_pause_ms: ms(self.out_pause),
            in_pause_ms: ms(self.in_pause),
            step_out_max: self.step,
            activate_above: self.activate_above,
            ..Policy::default()
        };
        let policy = policy.with_a_target();
        policy.check().map(|()| policy)
    }
}

/// What `scale` tells of itself: on the error output, because the other one is its workers'.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    queue: String,
    format: Format,
    quiet: bool,
}

impl Teller {
    fn tell(&self, event: &str, sentence: &str, details: &[(&str, Value)]) {
        if self.quiet && !["trouble", "ended", "cannot-start"].contains(&event) {
            return;
        }
        if self.format == Format::Table {
            eprintln!("bellwether: {sentence}");
            return;
        }
        let mut told = json!({ "at": time(now()), "queue": self.queue, "event": event });
        for (name, value) in details {
            told[*name] = value.clone();
        }
        eprintln!("{told}");
    }

    fn tell_of(&self, news: News) {
        match news {
            News::Started(worker) => {
                self.tell("started", &format!("{worker} started"), &[("worker", json!(worker))]);
            }
            News::Stopping(worker) => {
                let sentence = format!("{worker} is told to stop");
                self.tell("stopping", &sentence, &[("worker", json!(worker))]);
            }
            News::Stopped(worker, code) => {
                let details = [("worker", json!(worker)), ("code", json!(code))];
                self.tell("stopped", &format!("{worker} stopped, exit code {code}"), &details);
            }
            News::Ended { worker, code, pause_ms, failures } => {
                let pause = Span(pause_ms);
                let sentence = format!(
                    "{worker} ended by itself, exit code {code}, {failures} in a row; \
                     started again in {pause}"
                );
                let details = [
                    ("worker", json!(worker)),
                    ("code", json!(code)),
                    ("failures", json!(failures)),
                    ("again_in_ms", json!(pause_ms)),
                ];
                self.tell("ended", &sentence, &details);
            }
            News::CannotStart(why) => {
                let sentence = format!("a worker cannot be started: {why}");
                self.tell("cannot-start", &sentence, &[("error", json!(why))]);
            }
        }
    }
}

impl Scale {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let election = self.election.clone().unwrap_or_else(|| election_of(&self.queue));
        if self.show {
            return self
                .reach
                .look(out, async |store, screen| show::show(store, &election, screen).await);
        }
        let policy = self.targets.policy()?;
        if self.reach.folder().is_some() {
            return Err(Failure::Usage(
                "--data: workers need a server, for a folder is open in one process only; start \
                 one with `bellwether serve`"
                    .into(),
            ));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))?;
        runtime.block_on(async {
            let mut signals = Signals::listen()?;
            let teller =
                Teller { queue: self.queue.clone(), format: self.reach.output, quiet: self.quiet };
            let store = self.open(&mut signals, &teller).await?;
            let ended = self.scale(&store, &election, policy, &mut signals, &teller).await;
            store.close().await;
            ended
        })
    }

    /// A server that is not there is waited for.
    async fn open(&self, signals: &mut Signals, teller: &Teller) -> Result<Bellwether, Failure> {
        let stopped = || Failure::Stopped("told to stop before any worker was started".into());
        let mut is_told = false;
        loop {
            let opened = tokio::select! {
                opened = self.reach.open_server(|open| open) => opened,
                _ = signals.end() => return Err(stopped()),
            };
            match opened {
                Err(Failure::Unreachable(why)) => {
                    if !std::mem::replace(&mut is_told, true) {
                        teller.tell("trouble", &format!("{why}; trying again"), &[]);
                    }
                    tokio::select! {
                        () = tokio::time::sleep(REACH_AGAIN) => {}
                        _ = signals.end() => return Err(stopped()),
                    }
                }
                opened => return opened,
            }
        }
    }

    async fn scale(
        &self,
        store: &Bellwether,
        election: &str,
        policy: Policy,
        signals: &mut Signals,
        teller: &Teller,
    ) -> Ended {
        let queue = store.queue(&self.queue)?;
        // A name that was mistyped is not scaled for ever.
        queue.load().await?;
        let mut environment = self.reach.environment()?;
        environment.push(("BELLWETHER_QUEUE", self.queue.clone().into()));
        let task = Task { command: self.command.clone(), environment, grace: self.grace };
        let (ended, endings) = mpsc::unbounded_channel();
        let instance = instance()?;
        let room = self.max_here.unwrap_or(policy.max);
        let host =
            HostReport { instance: instance.clone(), at: host(), room, ..HostReport::default() };
        let (tell_host, host) = watch::channel(host);
        let (tell_heard, heard) = watch::channel(Heard::default());
        let (leaving, office) = (CancellationToken::new(), Office::default());
        let elector = elector(store, election, &instance, &office)?;
        let stop = leaving.clone();
        let elections = teller.clone();
        let elected = tokio::spawn(async move {
            elector.run(stop.cancelled()).await.inspect_err(|error| {
                let sentence = format!("this host cannot be elected to decide: {error}");
                elections.tell("trouble", &sentence, &[("error", json!(error.to_string()))]);
            })
        });
        let start_ms = ms(self.start_within);
        let pulse = Pulse {
            store: store.clone(),
            queue,
            election: election.to_owned(),
            policy,
            start_ms,
            every: self.every.max(Duration::from_millis(10)),
            office,
            teller: teller.clone(),
            host,
            heard: tell_heard,
        };
        let pulse = tokio::spawn(pulse.beat());
        let crew = Crew::new(instance, task, start_ms, ended);
        let shift = Shift { crew, endings, heard, tell_host, leaving };
        shift.work(self.every, signals, teller).await;
        pulse.abort();
        // Its last words: the others need not wait until it is missed.
        let _ = store.report(election, "").await;
        match elected.await {
            Ok(Ok(())) | Err(_) => Ok(ExitCode::SUCCESS),
            Ok(Err(error)) => Err(Failure::Store(error)),
        }
    }
}

fn elector(
    store: &Bellwether,
    election: &str,
    instance: &str,
    office: &Office,
) -> Result<bellwether::Elector, Error> {
    let office = office.clone();
    let election = store.election(election)?.ttl(TTL).tag("scales", instance);
    Ok(election.lead(move |leadership| office.clone().hold(leadership)))
}

/// The workers' side, from start to end.
struct Shift {
    crew: Crew,
    endings: mpsc::UnboundedReceiver<(String, u8)>,
    heard: watch::Receiver<Heard>,
    tell_host: watch::Sender<HostReport>,
    /// Cancelled when this host stops.
    leaving: CancellationToken,
}

impl Shift {
    async fn work(mut self, every: Duration, signals: &mut Signals, teller: &Teller) {
        let mut share = 0;
        loop {
            let next = self.crew.next_start().unwrap_or(BootTime::NEVER);
            let pause = Duration::from_millis(boot().ms_until(next)).min(every);
            tokio::select! {
                _ = signals.end() => {
                    if self.leaving.is_cancelled() {
                        // Said twice, by somebody who will not wait.
                        self.crew.kill();
                    }
                    self.leaving.cancel();
                }
                Some((worker, code)) = self.endings.recv() => {
                    teller.tell_of(self.crew.ended(boot(), worker, code));
                }
                Ok(()) = self.heard.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let Heard { share: told, known } = self.heard.borrow_and_update().clone();
            share = told.unwrap_or(share);
            let is_leaving = self.leaving.is_cancelled();
            for news in self.crew.be(boot(), if is_leaving { 0 } else { share }, &known) {
                teller.tell_of(news);
            }
            let report = self.crew.report(boot(), &known);
            self.tell_host.send_modify(|host| {
                let (at, room) = (host.at.clone(), if is_leaving { 0 } else { host.room });
                *host = HostReport { at, room, ..report };
            });
            if is_leaving && self.crew.is_empty() {
                return;
            }
        }
    }
}

fn host() -> String {
    let machine = rustix::system::uname();
    format!("{} pid {}", machine.nodename().to_string_lossy(), std::process::id())
}

/// Told apart from every other start of this program.
fn instance() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    getrandom::getrandom(&mut bytes)
        .map_err(|e| Failure::Internal(format!("cannot draw a name: {e}")))?;
    Ok(format!("{:012x}", u64::from_le_bytes(bytes) >> 16))
}
