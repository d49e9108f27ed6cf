//! `bellwether doctor`: what this machine can promise.
//!
//! A leader trusts its lease for 80 % of the ttl and renews after each third of it, so that two
//! renewals may fail. The third leaves it 80 − 67 = 13 % of the ttl: whatever delays a renewal must
//! be shorter than that, twice over for what a short look does not see. So a ttl is safe from
//! fifteen times the worst delay on.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Ended, Failure, NOTHING};
use super::human::{Span, ms, parse_duration};
use super::measure::{self, Samples, micros, shown};
use super::reach::{Absent, Reach};
use super::screen::Screen;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether doctor
  bellwether doctor --data ./store --ttl 2s
  bellwether doctor --dir /var/lib/bellwether --seconds 30 --output json";

/// How many times the worst delay a ttl must be.
const DELAYS_IN_A_TTL: u64 = 15;
/// The ttls that are recommended: round ones, no shorter than what elections are made for.
const TTLS_MS: [u64; 12] =
    [300, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 300_000];
/// A wall clock that moves so much against the boot clock is being set while we look.
const JUMP_MS: u64 = 50;

/// Measure this machine: flush, round trip, scheduler, clock; say which lease ttl is safe here.
///
/// The flush is measured in --dir with a file that is removed again, the round trip to the store that
/// --server or --data names. Ends with 1 if something is wrong, or if the ttl named with --ttl is
/// too short for this machine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Where to measure the flush [default: the folder of --data, else the current one].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long to look at the scheduler.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Is this ttl safe here?
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    reach: Reach,
}

/// What was found.
struct Findings {
    rows: Vec<(&'static str, Result<Samples, String>)>,
    clock_jump_ms: u64,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let findings = self.look()?;
        let mut screen = Screen::new(out, self.reach.output);
        findings.tell(&mut screen, self.ttl)
    }

    fn look(&self) -> Result<Findings, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Failure::Internal(format!("cannot start a runtime: {e}")))?;
        let dir = self.dir.as_deref().or(self.reach.folder());
        let flush = measure::flush(dir.unwrap_or(".".as_ref()));
        let round_trip = runtime.block_on(async {
            let store = self.reach.open(Absent::Refused).await.map_err(|e| e.to_string())?;
            let measured = measure::round_trip(&store).await.map_err(|e| e.to_string());
            store.close().await;
            measured
        });
        let before = measure::clocks_apart_ms();
        let stalls = measure::stalls(Duration::from_secs(self.seconds));
        let clock_jump_ms = before.abs_diff(measure::clocks_apart_ms());
        Ok(Findings {
            rows: vec![
                ("flush", flush.map_err(|e| e.to_string())),
                ("round trip", round_trip),
                ("scheduler stall", Ok(stalls)),
            ],
            clock_jump_ms,
        })
    }
}

impl Findings {
    /// All that can delay a renewal, one after the other.
    fn worst(&self) -> Duration {
        self.rows.iter().filter_map(|(_, found)| found.as_ref().ok()).map(Samples::max).sum()
    }

    fn problems(&self, wanted: Option<Duration>, safe_ms: Option<u64>) -> Vec<String> {
        let mut problems: Vec<String> = self
            .rows
            .iter()
            .filter_map(|(what, found)| Some(format!("{what}: {}", found.as_ref().err()?)))
            .collect();
        if self.clock_jump_ms > JUMP_MS {
            let jump = Span(self.clock_jump_ms);
            problems.push(format!(
                "the wall clock moved by {jump} while we looked; locks and leases do not mind, \
                 schedules and times-to-live do"
            ));
        }
        let worst = Span(ms(self.worst()));
        match (wanted, safe_ms) {
            (_, None) => problems.push(format!(
                "a renewal may be delayed by {worst} here: no lease ttl is safe on this machine"
            )),
            (Some(wanted), Some(safe_ms)) if ms(wanted) < safe_ms => problems.push(format!(
                "a ttl of {} is too short here: a renewal may be delayed by {worst}",
                Span(ms(wanted))
            )),
            _ => {}
        }
        problems
    }

    fn tell(&self, screen: &mut Screen<'_>, wanted: Option<Duration>) -> Ended {
        let safe_ms = safe_ttl_ms(self.worst());
        let problems = self.problems(wanted, safe_ms);
        if screen.is_json() {
            let measured = self.rows.iter().map(|(what, found)| match found {
                Ok(samples) => (what.replace(' ', "_"), samples.json()),
                Err(why) => (what.replace(' ', "_"), json!({ "error": why })),
            });
            screen.json(&json!({
                "measured": measured.collect::<serde_json::Map<String, Value>>(),
                "clock_jump_ms": self.clock_jump_ms,
                "worst_delay_us": micros(self.worst()),
                "safe_ttl_ms": safe_ms,
                "problems": problems,
            }))?;
        } else {
            let mut table = Table::new(&["WHAT", ">MEDIAN", ">99 %", ">WORST"]);
            for (what, found) in &self.rows {
                if let Ok(samples) = found {
                    let of = |percent| samples.percentile(percent);
                    table.row([(*what).into(), shown(of(50)), shown(of(99)), shown(samples.max())]);
                }
            }
            screen.table(&table)?;
            if let Some(safe_ms) = safe_ms {
                screen.line(&format!(
                    "a lease ttl of {} or more is safe here: {DELAYS_IN_A_TTL} times the {} by which \
                     a renewal may be delayed",
                    Span(safe_ms),
                    shown(self.worst())
                ))?;
            }
            problems.iter().try_for_each(|problem| screen.line(&format!("problem: {problem}")))?;
        }
        Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NOTHING) })
    }
}

/// The shortest round ttl that stands such a delay; `None` if none does.
fn safe_ttl_ms(worst: Duration) -> Option<u64> {
    let least_ms = micros(worst).saturating_mul(DELAYS_IN_A_TTL).div_ceil(1000);
    TTLS_MS.into_iter().find(|ttl_ms| *ttl_ms >= least_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_stands_fifteen_times_the_worst_delay() {
        for (worst_us, ttl_ms) in [
            (0, Some(300)),
            (20_000, Some(300)),
            (20_001, Some(500)),
            (60_000, Some(1_000)),
            (1_000_000, Some(15_000)),
            (20_000_000, Some(300_000)),
            (21_000_000, None),
        ] {
            assert_eq!(safe_ttl_ms(Duration::from_micros(worst_us)), ttl_ms, "{worst_us}");
        }
    }
}
