//! One term: the command runs while this member leads, and not a moment longer.
//!
//! Trust ends 80 % of the ttl after the last renewal was asked for, and nobody else is granted the
//! lease before 105 % of it. In between nothing of the command is alive:
//!
//! ```text
//!   last renewal     second attempt   SIGTERM      SIGKILL    lead kills by itself    next grant
//!   0 ─────────────── ≤ 67 % ───────── 70 % ──────── 80 % ─────────── 85 % ───────────── 105 %
//!                                      └── notice ──┘ trusted until
//! ```
//!
//! The guardian keeps these times, and `lead` looks after the guardian. While the store answers, a stop
//! is as long as the grace: the lease is renewed until nothing of the command is left.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use bellwether::core::time::BootTime;
use bellwether::elector::LossReason;
use bellwether::{Leadership, MemberId};
use rustix::process::Signal;
use tokio::time::MissedTickBehavior;

use super::super::failure::Failure;
use super::super::human::ms;
use super::guarded::{Guarded, Plan, Turn};
use super::progress::Progress;
use super::signals::{Signals, is_wish_to_stop};
use super::system::boot;
use super::word::Kept;

/// Between SIGTERM and SIGKILL, where no renewal succeeds: this share of the ttl, or the grace if that
/// is shorter.
pub(super) const NOTICE_SHARE: u32 = 10;
/// How often in a ttl the end of trust is looked at and passed on.
const LOOKS_PER_TTL: u32 = 20;
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The command ended by itself.
    Finished,
    /// Somebody told `lead` to stop.
    Told(Signal),
    /// Somebody asked the leader to step down.
    Asked,
    /// No renewal succeeded in time.
    TrustOver,
    /// The store says that the lease is not ours.
    Refused,
    /// The command showed no progress.
    Stalled,
    /// The guardian was killed, or could not do its work.
    Unguarded,
}

impl Why {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Told(_) => "told",
            Self::Asked => "step-down-asked",
            Self::TrustOver => "trust-over",
            Self::Refused => "refused",
            Self::Stalled => "stalled",
            Self::Unguarded => "unguarded",
        }
    }

    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Finished => "the command ended",
            Self::Told(_) => "told to stop",
            Self::Asked => "asked to step down",
            Self::TrustOver => "no renewal succeeded in time",
            Self::Refused => "the store says that the lease is not ours any more",
            Self::Stalled => "the command shows no progress",
            Self::Unguarded => "the command's guardian has died",
        }
    }
}

/// What is run in a term.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) command: &'a [OsString],
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) stall: Option<Duration>,
    pub(super) member: MemberId,
    /// How whatever keeps the lease is reached, by the guardian if we have died.
    pub(super) reach: Option<&'a [String]>,
}

impl Work<'_> {
    /// Runs the command until it ends or must end; when this returns, nothing of it is left. `stops`
    /// is called when it is told to stop, with the reason.
    pub(super) async fn run(
        &self,
        leadership: &Leadership,
        signals: &mut Signals,
        stops: impl Fn(Why),
    ) -> Result<(Why, u8), Failure> {
        let mut progress = self.stall.map(Progress::new).transpose().map_err(|e| {
            Failure::Start(format!("cannot make a file for the command to touch (--stall): {e}"))
        })?;
        let mut until = leadership.trusted_until();
        let guarded = self.start(leadership, until, progress.as_ref());
        let mut guarded =
            guarded.map_err(|e| Failure::Internal(format!("cannot start a guardian: {e}")))?;
        let mut why = None;
        let mut set = |reason: Why| {
            if why.is_none() {
                why = Some(reason);
                stops(reason);
            }
        };
        let (mut told, mut cancelled) = (false, false);
        let mut looks = tokio::time::interval(self.look_every());
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let code = loop {
            tokio::select! {
                biased;
                turn = guarded.turn() => match turn {
                    Turn::CutOff => set(Why::TrustOver),
                    Turn::Ended(code) => break code,
                    Turn::Unguarded => {
                        set(Why::Unguarded);
                        break guarded.put_down().await;
                    }
                },
                reason = leadership.cancelled(), if !cancelled => {
                    cancelled = true;
                    match reason {
                        LossReason::TrustOver => set(Why::TrustOver),
                        LossReason::Refused => set(Why::Refused),
                        _ => set(Why::Asked),
                    }
                    if leadership.ensure().is_ok() {
                        guarded.stop(Signal::TERM).await;
                    } else {
                        guarded.kill().await;
                    }
                }
                signal = signals.next() => {
                    if !is_wish_to_stop(signal) {
                        guarded.forward(signal).await;
                    } else if std::mem::replace(&mut told, true) {
                        // Said twice, by somebody who will not wait.
                        guarded.kill().await;
                    } else {
                        set(Why::Told(signal));
                        guarded.stop(signal).await;
                    }
                }
                _ = looks.tick() => {
                    let now_until = leadership.trusted_until();
                    if now_until != until {
                        until = now_until;
                        guarded.until(until).await;
                    }
                    if boot() > until.plus_ms(ms(self.ttl / LOOKS_PER_TTL)) {
                        set(Why::TrustOver);
                        break guarded.put_down().await;
                    }
                    if progress.as_mut().is_some_and(|progress| !progress.goes_on()) {
                        progress = None;
                        set(Why::Stalled);
                        guarded.stop(Signal::TERM).await;
                    }
                }
            }
        };
        Ok((why.unwrap_or(Why::Finished), code))
    }

    fn start(
        &self,
        leadership: &Leadership,
        until: BootTime,
        progress: Option<&Progress>,
    ) -> io::Result<Guarded> {
        let fence = leadership.fence();
        let mut environment: Vec<(&'static str, OsString)> = vec![
            ("BELLWETHER_ELECTION", fence.election.as_str().into()),
            ("BELLWETHER_TERM", fence.term.to_string().into()),
            ("BELLWETHER_FENCE", fence.to_string().into()),
            ("BELLWETHER_MEMBER", self.member.to_string().into()),
            ("BELLWETHER_TRUSTED_UNTIL_MS", until.0.to_string().into()),
        ];
        environment.extend(progress.map(|progress| ("BELLWETHER_PROGRESS", progress.path())));
        Guarded::start(&Plan {
            command: self.command,
            environment,
            reads: true,
            until,
            notice: (self.ttl / NOTICE_SHARE).min(self.grace),
            grace: self.grace,
            is_polite: false,
            kept: self.reach.map(|reach| Kept {
                id: leadership.lease_id(),
                lease: fence.election.clone(),
                reach: reach.to_vec(),
            }),
        })
    }

    fn look_every(&self) -> Duration {
        let often = self.ttl / LOOKS_PER_TTL;
        let often = self.stall.map_or(often, |stall| often.min(stall / LOOKS_PER_TTL));
        often.clamp(LOOK_MIN, LOOK_MAX)
    }
}
