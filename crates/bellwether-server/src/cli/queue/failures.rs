//! What a queue does about deliveries that fail, as flags.

use std::time::Duration;

use bellwether::core::settings::{Backoff, FailuresPatch, OutagePolicy};
use clap::Args;

use super::super::human::{Span, ms, parse_duration};
use super::settings::OrNone;

/// How far a delay is shortened by chance, if nobody says otherwise.
const JITTER_PERCENT: u32 = 20;

/// See the module.
#[derive(Clone, Debug, Args)]
pub(crate) struct FailureFlags {
    /// How long a message stays away that was abandoned without a delay: after its first failure,
    /// doubled with each, at most; or none. Shortened by up to 20 %, or by as much as is said.
    #[arg(long, value_name = "FIRST..MAX[,JITTER%]", value_parser = backoff)]
    retry: Option<OrNone<Backoff>>,
    /// A message whose receiver crashed is handed out alone, and after so many more crashes it
    /// becomes a dead letter; 0, at creation only, suspects nobody.
    #[arg(long, value_name = "N")]
    pub(crate) crashes_max: Option<u32>,
    /// After so many different messages failed in a row the queue pauses, for so long at first and
    /// at most, and tries one message after each pause; or none.
    #[arg(long, value_name = "N,MIN..MAX", value_parser = outage)]
    outage: Option<OrNone<OutagePolicy>>,
}

impl FailureFlags {
    pub(crate) fn patch(&self) -> FailuresPatch {
        FailuresPatch {
            retry: self.retry.as_ref().map(|retry| retry.0),
            crashes_max: self.crashes_max,
            outage: self.outage.as_ref().map(|outage| outage.0),
        }
    }
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once("..").ok_or("write two durations, like 1s..5m")?;
    let whole = |duration: Duration| ms(duration);
    Ok((whole(parse_duration(first)?), whole(parse_duration(last)?)))
}

fn backoff(text: &str) -> Result<OrNone<Backoff>, String> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    let (times, jitter) = text.split_once(',').unzip();
    let (first_ms, max_ms) =
        range(times.unwrap_or(text)).map_err(|why| format!("{why}, or none"))?;
    let jitter = jitter.map(|jitter| jitter.trim_end_matches('%').parse());
    let wrong = |_| "the jitter is a number of percent, like 30%".to_owned();
    let jitter_percent = jitter.transpose().map_err(wrong)?.unwrap_or(JITTER_PERCENT);
    Ok(OrNone(Some(Backoff { first_ms, max_ms, jitter_percent })))
}

fn outage(text: &str) -> Result<OrNone<OutagePolicy>, String> {
    const LIKE: &str = "write a number and two durations, like 10,1s..1m, or none";
    if text == "none" {
        return Ok(OrNone(None));
    }
    let (failures, pauses) = text.split_once(',').ok_or(LIKE)?;
    let failures = failures.parse().map_err(|_| LIKE)?;
    let (pause_ms_min, pause_ms_max) = range(pauses).map_err(|why| format!("{why}; {LIKE}"))?;
    Ok(OrNone(Some(OutagePolicy { failures, pause_ms_min, pause_ms_max })))
}

/// As the flag takes it.
pub(crate) fn backoff_words(retry: Option<Backoff>) -> String {
    retry.map_or("none".into(), |retry| {
        let (first, last) = (Span(retry.first_ms), Span(retry.max_ms));
        format!("{first}..{last},{}%", retry.jitter_percent)
    })
}

/// As the flag takes it.
pub(crate) fn outage_words(outage: Option<OutagePolicy>) -> String {
    outage.map_or("none".into(), |outage| {
        let (min, max) = (Span(outage.pause_ms_min), Span(outage.pause_ms_max));
        format!("{},{min}..{max}", outage.failures)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let retry = Backoff { first_ms: 1_500, max_ms: 300_000, jitter_percent: 30 };
        assert_eq!(backoff("1500ms..5m,30%").unwrap().0, Some(retry));
        assert_eq!(backoff("1s..5m").unwrap().0.unwrap().jitter_percent, JITTER_PERCENT);
        let policy = OutagePolicy { failures: 10, pause_ms_min: 1_000, pause_ms_max: 60_000 };
        assert_eq!(outage("10,1s..1m").unwrap().0, Some(policy));
        assert_eq!((backoff("none").unwrap().0, outage("none").unwrap().0), (None, None));
        for wrong in ["", "1s", "1s..", "1s..5m,x", "..5m"] {
            assert!(backoff(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "10", "10,1s", "x,1s..1m"] {
            assert!(outage(wrong).is_err(), "{wrong:?}");
        }
    }
}
