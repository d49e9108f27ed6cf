//! `bellwether election chaos`: a drill. Leaders are killed and frozen, and what came of it is told.

mod candidate;
mod cast;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::chance::Chance;
use bellwether::core::command::LeaseKind;
use bellwether::core::lease::check_ttl;
use bellwether::{Bellwether, Stopwatch};
use clap::{Args, ValueEnum};

use super::super::failure::{Ended, Failure, NOTHING};
use super::super::human::{Span, ms, parse_duration};
use super::super::reach::Reach;
use super::super::screen::Screen;
use super::super::stop::Stop;
pub(crate) use candidate::Candidate;
use cast::Cast;
use report::Report;

const EXAMPLES: &str = "\
Examples:
  bellwether election chaos
  bellwether election chaos drill --candidates 5 --rounds 100 --ttl 500ms
  bellwether election chaos --for 1h --faults freeze --output json | jq .faults";

const EXIT_CODES: &str = "\
Exit codes:
  0    every leader was followed, no two led at once, no old write was accepted
  1    not so: the report says what was seen, and where its history was kept
  64   the command line was not understood, or names a folder instead of a server
  65   the election's name or ttl is refused
  69   the server cannot be reached
  75   others take part in the election, and --in-use was not said; or one of them leads for so long
       that there was nothing to try
  130  stopped by Ctrl-C before the first fault";

/// Try failovers: candidates of its own are killed and frozen while they lead.
///
/// Starts so many candidates, processes of this program, against a server that runs. Whoever leads
/// writes to a scratch file on this machine that refuses old terms, and writes on for a while when its
/// term is over. In each round the leader is killed, or frozen until somebody else leads and then let
/// go on. In the end everything that was seen is checked: terms only grow, no two candidates believed
/// to lead at once, and the file accepted no write of an old term.
///
/// Only processes that it has started are touched. It uses an election of its own with a random name
/// unless one is named; it refuses one that others take part in, unless --in-use says that they may
/// be disturbed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Chaos {
    /// Which election [default: one of its own, with a random name].
    #[arg(value_name = "NAME")]
    election: Option<String>,
    /// How many candidates.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=64))]
    candidates: u32,
    /// How many faults.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// As many faults as there is time for, instead.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_for, conflicts_with = "rounds")]
    during: Option<Duration>,
    /// How long the lease outlives its last renewal.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    ttl: Duration,
    /// Which faults.
    #[arg(
        long,
        value_enum,
        value_name = "FAULT",
        value_delimiter = ',',
        default_value = "kill,freeze"
    )]
    faults: Vec<Fault>,
    /// What the order of faults is drawn from; another every time if not given.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The election may be one that others take part in: they lose their turn to candidates that are
    /// killed, and are not touched otherwise.
    #[arg(long, requires = "election")]
    in_use: bool,
    /// Where history and scratch file are kept; removed in the end if not given and all was well.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

/// What is done to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT when somebody else leads.
    Freeze,
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Freeze => "freeze",
        }
    }
}

impl Chaos {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        check_ttl(LeaseKind::Bound, ms(self.ttl))?;
        if self.reach.folder().is_some() {
            return Err(Failure::Usage(
                "--data: a drill needs a server, for its candidates are processes; start one with \
                 `bellwether serve --data DIR`"
                    .into(),
            ));
        }
        self.reach.look(out, async |store, screen| self.drill(store, screen).await)
    }

    async fn drill(&self, store: &Bellwether, screen: &mut Screen<'_>) -> Ended {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random().ok_or_else(|| Failure::Internal("no random number".into()))?,
        };
        let election = self.election.clone().unwrap_or_else(|| format!("chaos-{seed:016x}"));
        self.must_be_free(store, &election).await?;
        let mut stop = Stop::listen()?;
        let mut chance = Chance::new(seed);
        let mut cast = Cast::new(&self.reach, &election, self.ttl, seed, self.keep.as_deref())?;
        for _ in 0..self.candidates {
            cast.start()?;
        }
        let mut report = Report::new(&election, seed);
        let watch = Stopwatch::start();
        let mut rounds = 0;
        while self.during.map_or(rounds < self.rounds, |during| watch.elapsed() < during) {
            let fault = self.faults[chance.below(self.faults.len() as u64) as usize];
            // Anywhere between two renewals.
            let moment = Duration::from_millis(chance.below(ms(self.ttl)));
            let round = self.round(store, &mut cast, fault, moment);
            tokio::select! {
                biased;
                () = stop.asked() => break,
                followed = round => report.add(fault, followed?),
            }
            rounds += 1;
        }
        if rounds == 0 {
            return Err(Failure::Stopped("stopped before the first fault".into()));
        }
        cast.thaw();
        // The last word is that somebody leads.
        let heals = cast.heal().await?;
        cast.end().await;
        let is_well = report.judge(&cast.history()?, heals);
        let kept = cast.keep(is_well);
        report.tell(screen, kept.as_deref())?;
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(NOTHING) })
    }

    /// One fault, and how long nobody led after it; `None` if nobody came.
    async fn round(
        &self,
        store: &Bellwether,
        cast: &mut Cast<'_>,
        fault: Fault,
        moment: Duration,
    ) -> Result<Option<Duration>, Failure> {
        tokio::time::sleep(moment).await;
        let Some(leader) = cast.leader().await? else {
            return Err(self.not_ours(store, cast.election()).await);
        };
        let since_ns = cast.strike(&leader, fault)?;
        let followed = cast.follower_of(&leader).await?;
        match fault {
            Fault::Kill => cast.start()?,
            Fault::Freeze => cast.thaw(),
        }
        Ok(followed.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(since_ns))))
    }

    /// Refuses an election that somebody else needs.
    async fn must_be_free(&self, store: &Bellwether, name: &str) -> Result<(), Failure> {
        let Some(info) = store.election(name)?.info().await? else { return Ok(()) };
        if info.paused {
            return Err(Failure::InUse(format!(
                "election {name:?} is paused, so nobody would come to lead; \
                 `bellwether election resume {name}` ends that"
            )));
        }
        if self.in_use || (info.holder.is_none() && info.waiting.is_empty()) {
            return Ok(());
        }
        let waiting = info.waiting.len();
        let who = match info.holder {
            Some(member) => format!("{member} leads it ({})", info.metadata.escape_debug()),
            None => "nobody leads it now".into(),
        };
        Err(Failure::InUse(format!(
            "election {name:?} is in use: {who}, and {waiting} wait; leave out the name for an \
             election of its own, or say --in-use if they may be disturbed"
        )))
    }

    async fn not_ours(&self, store: &Bellwether, name: &str) -> Failure {
        let leader = match store.election(name) {
            Ok(election) => election.leader().await,
            Err(error) => Err(error),
        };
        let leader = match leader {
            Ok(leader) => leader,
            Err(error) => return Failure::Store(error),
        };
        let who = match leader {
            Some(leader) => format!("{} leads", leader.member),
            None => "nobody leads".into(),
        };
        let patience = Span(ms(cast::patience(self.ttl)));
        Failure::InUse(format!(
            "none of our candidates came to lead {name:?} within {patience}: {who}; there is nothing \
             to try"
        ))
    }
}

fn parse_for(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("there is no time for a fault".into()),
        during => Ok(during),
    }
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    getrandom::getrandom(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}
