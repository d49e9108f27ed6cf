//! `bellwether lead`: a command that runs only while this member leads.

pub(super) mod guarded;
pub(crate) mod guardian;
mod link;
mod progress;
pub(super) mod signals;
pub(super) mod system;
mod teller;
mod term;
pub(super) mod word;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::candidacy::{BACK_OFF_MS_MAX, BACK_OFF_MS_MIN};
use bellwether::core::command::LeaseKind;
use bellwether::core::lease::{check_slots, check_ttl};
use bellwether::core::limits;
use bellwether::core::time::BootTime;
use bellwether::{Election, Elections, Error, WorkEnd};
use clap::Args;
use serde_json::json;

use super::failure::{Ended, Failure, TRY_AGAIN};
use super::human::{Span, ms, parse_duration};
use super::reach::Reach;
use guarded::{Guarded, Plan, Turn};
use signals::Signals;
use system::{adopt_orphans, boot};
use teller::Teller;
use term::{Why, Work};

const EXAMPLES: &str = "\
Examples:
  bellwether lead chores -- ./nightly.sh --verbose
  bellwether lead chores --ttl 5s --grace 20s -- python3 -m chores
  bellwether lead chores --stall 1m --prepare './load-caches' --again -- ./worker
  bellwether lead crawlers -n 3 -- ./crawl
  bellwether lead migration --once -- ./migrate && echo done
  bellwether lead chores --server etcd://10.0.0.5:2379 -- ./nightly.sh";

const EXIT_CODES: &str = "\
Exit codes:
  N        the command's own, when it has ended by itself or because this was told to stop
  128+N    the command died by signal N: 143 for SIGTERM, 137 for SIGKILL
  64, 65   the command line was not understood; the election's name, ttl or slots are refused
  69       with --once, the server cannot be reached
  75       with --once, leadership was lost: the command was stopped, somebody else may lead
  77       the server does not let this program in
  126,127  the command cannot be run; it is not there
  130      told to stop before the command was started";

/// Pause between two attempts to reach a server that is not there.
const REACH_AGAIN: Duration = Duration::from_secs(1);
/// Whoever asks a leader to step down wants somebody else: all others have asked once before us.
const AFTER_ASKED: Duration = Duration::from_secs(4);

/// Run a command only while this member leads the election.
///
/// Contends until it leads, starts the command in a process group of its own, and ends with the
/// command's exit code. When leadership is lost or given up the group is sent SIGTERM and, after the
/// grace, SIGKILL, and so is whatever has left the group; the lease is given back when nothing is left
/// of them, and this contends again. If the server cannot be reached, everything is dead before
/// anybody else can lead: SIGTERM after 70 % of the ttl since the last renewal, SIGKILL after 80 %,
/// and the next leader after 105 %, at the earliest, or 100 % on engines of others. That holds when this process is killed or
/// frozen: a guardian process between it and the command looks at the clock. If this process was killed
/// the guardian kills the command at once, and gives the lease back when nothing is left of it, so that
/// the next one leads without waiting for the ttl.
///
/// The election may be kept by an engine that already runs: etcd, PostgreSQL and others, as
/// `bellwether engines` lists. Name its address with `--server`, or in `BELLWETHER_SERVER` if it holds
/// a password.
///
/// The command finds `BELLWETHER_ELECTION`, `BELLWETHER_TERM` (the fencing token), `BELLWETHER_FENCE`
/// (both, as NAME/TERM), `BELLWETHER_MEMBER` and `BELLWETHER_TRUSTED_UNTIL_MS` in its environment: the
/// time of the boot clock at which it will be killed unless the lease is renewed before.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Lead {
    /// Which election.
    #[arg(value_name = "NAME")]
    election: String,
    /// How long the lease outlives its last renewal: how soon a dead leader is followed.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    ttl: Duration,
    /// How long the command may take to stop while the server answers; a tenth of the ttl while it
    /// does not.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    grace: Duration,
    /// The command touches or writes the file that `BELLWETHER_PROGRESS` names at least so often, or is
    /// stopped, and leadership is given up.
    #[arg(long, value_name = "DURATION", value_parser = parse_stall)]
    stall: Option<Duration>,
    /// Run by `sh -c` each time before this member gets in line; may fail.
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,
    /// Higher is first in line.
    #[arg(long, value_name = "N", default_value_t, allow_negative_numbers = true)]
    priority: i32,
    /// So many may lead at once, each under a term of its own. All who take part say the same number.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    slots: u32,
    /// What others see of this member while it leads; the process and its machine if not given.
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,
    /// When the command has ended by itself, contend again, after a pause that doubles while terms
    /// stay short.
    #[arg(long)]
    again: bool,
    /// When leadership is lost, end with 75 instead of contending again.
    #[arg(long, conflicts_with = "again")]
    once: bool,
    /// Say nothing but what goes wrong.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    reach: Reach,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_stall(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a command that may not stall at all is always stopped".into()),
        limit => Ok(limit),
    }
}

impl Lead {
    pub(crate) fn run(&self) -> Ended {
        check_ttl(LeaseKind::Bound, ms(self.ttl))?;
        check_slots(LeaseKind::Bound, self.slots)?;
        let grace_ms_max = limits::WAIT_MS_MAX.saturating_sub(ms(self.ttl));
        if ms(self.grace) > grace_ms_max {
            let (grace, longest) = (Span(ms(self.grace)), Span(grace_ms_max));
            return Err(Failure::Usage(format!(
                "--grace {grace}: longer than {longest}, the longest that fits with this --ttl"
            )));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))?;
        runtime.block_on(async {
            let mut signals = Signals::listen()?;
            adopt_orphans()
                .map_err(|e| Failure::Internal(format!("cannot adopt orphaned processes: {e}")))?;
            let teller = Teller {
                election: self.election.clone(),
                format: self.reach.output,
                quiet: self.quiet,
            };
            let elections = self.open(&mut signals, &teller).await?;
            let ended = self.campaign(&elections, &mut signals, &teller).await;
            elections.close().await;
            ended
        })
    }

    /// A server that is not there is waited for: whoever wants to lead for ever can wait.
    async fn open(&self, signals: &mut Signals, teller: &Teller) -> Result<Elections, Failure> {
        let mut is_told = false;
        loop {
            let opened = tokio::select! {
                opened = self.reach_elections(teller) => opened,
                _ = signals.end() => return Err(stopped()),
            };
            match opened {
                Err(Failure::Unreachable(why)) if !self.once => {
                    if !std::mem::replace(&mut is_told, true) {
                        teller.tell("unreachable", &format!("{why}; trying again"), &[]);
                    }
                    self.pause(REACH_AGAIN, signals).await?;
                }
                opened => return opened,
            }
        }
    }

    /// On an engine of others with a guardian of this process as well: for the time in which there is
    /// no command, and nobody who would give back what is held, or the place in line.
    async fn reach_elections(&self, teller: &Teller) -> Result<Elections, Failure> {
        use bellwether::guardian::Guardian;

        let Some(address) = self.reach.checked_engine()? else {
            return self.reach.elections().await;
        };
        let guardian = Guardian::program(system::path_of_this_program());
        match Elections::guarded(address, guardian).await {
            Ok(guarded) => Ok(guarded),
            Err(error) => {
                // Whatever is wrong with the engine is wrong without a guardian, too.
                let elections = self.reach.elections().await?;
                let why = match error {
                    Error::Address { why, .. } => why,
                    error => error.to_string(),
                };
                let sentence =
                    format!("if this process is killed in line, its place runs out: {why}");
                teller.tell("unguarded", &sentence, &[]);
                Ok(elections)
            }
        }
    }

    async fn campaign(
        &self,
        elections: &Elections,
        signals: &mut Signals,
        teller: &Teller,
    ) -> Ended {
        let metadata = self.metadata.clone().unwrap_or_else(who_we_are);
        let reach = self.reach.flags();
        let election = elections
            .election(&self.election)?
            .ttl(self.ttl)
            // The grace is kept here; what is killed after it has to die, too.
            .grace(self.grace + self.ttl)
            .priority(self.priority)
            .slots(self.slots)
            .metadata(metadata);
        let mut back_off = BackOff::default();
        loop {
            self.prepare(signals, teller).await?;
            let leadership = tokio::select! {
                biased;
                won = election.contend() => won?,
                _ = signals.end() => return Err(stopped()),
                () = tell_of_leader(&election, teller) => continue,
            };
            let (since, term) = (boot(), leadership.term());
            let sentence = format!("leading {:?} under term {term}", self.election);
            teller.tell("leading", &sentence, &[("term", json!(term.0))]);
            let work = Work {
                command: &self.command,
                ttl: self.ttl,
                grace: self.grace,
                stall: self.stall,
                member: leadership.member(),
                reach: reach.as_deref(),
            };
            let stops = |why: Why| {
                let sentence = format!("stopping the command: {}", why.sentence());
                let details = [("term", json!(term.0)), ("reason", json!(why.name()))];
                teller.tell("stopping", &sentence, &details);
            };
            let ended = work.run(&leadership, signals, stops).await;
            // Nothing is left of the command: only now may somebody else lead.
            let released = match how(ended.as_ref().ok()) {
                Some(how) => leadership.ended(how).await,
                None => leadership.release().await,
            };
            let (why, code) = ended?;
            tell_of_end(teller, term.0, why, code, released.as_ref().err());
            match why {
                Why::Told(_) => return Ok(ExitCode::from(code)),
                Why::Finished if !self.again => return Ok(ExitCode::from(code)),
                Why::Finished => {}
                _ if self.once => return Ok(ExitCode::from(TRY_AGAIN)),
                _ => {}
            }
            match why {
                Why::Asked => self.pause(AFTER_ASKED, signals).await?,
                // Contending has pauses of its own.
                Why::TrustOver | Why::Refused => {}
                _ => self.pause(back_off.after(since), signals).await?,
            }
        }
    }

    /// Warms up. Not yet in line: whoever is elected starts at once.
    async fn prepare(&self, signals: &mut Signals, teller: &Teller) -> Result<(), Failure> {
        let Some(command) = &self.prepare else { return Ok(()) };
        let command: [OsString; 3] = ["sh".into(), "-c".into(), command.into()];
        let plan = Plan {
            command: &command,
            environment: vec![("BELLWETHER_ELECTION", self.election.clone().into())],
            reads: false,
            until: BootTime::NEVER,
            notice: Duration::ZERO,
            grace: self.grace,
            is_polite: false,
            kept: None,
        };
        let mut guarded = Guarded::start(&plan)
            .map_err(|e| Failure::Internal(format!("cannot start a guardian: {e}")))?;
        let mut told = false;
        let code = loop {
            tokio::select! {
                biased;
                turn = guarded.turn() => match turn {
                    Turn::CutOff => {}
                    Turn::Ended(code) => break code,
                    Turn::Unguarded => break guarded.put_down().await,
                },
                signal = signals.end() => {
                    if std::mem::replace(&mut told, true) {
                        guarded.kill().await;
                    } else {
                        guarded.stop(signal).await;
                    }
                }
            }
        };
        if told {
            return Err(stopped());
        }
        if code != 0 {
            let sentence = format!("--prepare ended with {code}; contending all the same");
            teller.tell("prepare-failed", &sentence, &[("code", json!(code))]);
        }
        Ok(())
    }

    async fn pause(&self, pause: Duration, signals: &mut Signals) -> Result<(), Failure> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            _ = signals.end() => Err(stopped()),
        }
    }
}

/// Pauses between terms that ended too soon.
#[derive(Debug, Default)]
struct BackOff {
    short_terms: u32,
}

impl BackOff {
    fn after(&mut self, since: BootTime) -> Duration {
        let lasted = since.ms_until(boot()) > BACK_OFF_MS_MAX;
        let doublings = if lasted { 0 } else { self.short_terms.min(16) };
        self.short_terms = doublings + 1;
        Duration::from_millis((BACK_OFF_MS_MIN << doublings).min(BACK_OFF_MS_MAX))
    }
}

/// Says behind whom we wait; never ready.
async fn tell_of_leader(election: &Election, teller: &Teller) {
    let name = election.name().as_str();
    match election.leader().await {
        Ok(None) => {}
        Ok(Some(leader)) => {
            let (member, term, says) = (leader.member, leader.term, leader.metadata.escape_debug());
            let sentence =
                format!("waiting for {name:?}: {member} leads under term {term} ({says})");
            let details = [
                ("leader", json!(member.to_string())),
                ("term", json!(term.0)),
                ("metadata", json!(leader.metadata)),
            ];
            teller.tell("waiting", &sentence, &details);
        }
        Err(error) => {
            let sentence = format!("waiting for {name:?}, without knowing who leads: {error}");
            teller.tell("waiting", &sentence, &[]);
        }
    }
    std::future::pending::<()>().await;
}

/// How the work has ended, for those who ask why leadership changed; `None` if it was told to stop, or
/// leadership was lost, which is known.
fn how(ended: Option<&(Why, u8)>) -> Option<WorkEnd> {
    match *ended.unwrap_or(&(Why::Unguarded, 0)) {
        (Why::Finished, 0) => Some(WorkEnd::Finished),
        (Why::Finished, code) => Some(WorkEnd::FailedWith { code: code.into() }),
        (Why::Stalled, _) => Some(WorkEnd::Stalled),
        (Why::Unguarded, _) => Some(WorkEnd::Failed),
        (Why::Told(_) | Why::Asked | Why::TrustOver | Why::Refused, _) => None,
    }
}

fn tell_of_end(teller: &Teller, term: u64, why: Why, code: u8, unreleased: Option<&Error>) {
    let left = match unreleased {
        None => String::new(),
        Some(error) => format!("; the lease is left to run out: {error}"),
    };
    let sentence = format!("term {term} is over: {}, exit code {code}{left}", why.sentence());
    let details = [("term", json!(term)), ("reason", json!(why.name())), ("code", json!(code))];
    teller.tell("ended", &sentence, &details);
}

fn stopped() -> Failure {
    Failure::Stopped("told to stop before the command was started".into())
}

fn who_we_are() -> String {
    let machine = rustix::system::uname();
    format!("pid {} on {}", std::process::id(), machine.nodename().to_string_lossy())
}
