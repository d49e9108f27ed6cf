//! One member's view of one election, as a machine without clock, thread or socket.
//!
//! ```text
//!   Idle ─► Asking ─────────► Leading ─────────► Stopping ───────► Releasing ─► Closed
//!            │  ▲  Acquired      │    asked, lost,    │   work ended     │
//!    refused │  │               │    trust over      │ (lost: no        │ at shutdown
//!            ▼  │               │                    │  release)        ▼
//!           Pausing             └── work ended by itself ──────► BackingOff or Pausing
//! ```
//!
//! The order of effects is the safety of the product:
//!
//! 1. *Count from before you ask.* Trust ends 80 % of the ttl after the step that emitted the
//!    last answered ask or renewal, whenever its answer came. Perform the actions of a
//!    step at once, or not at all.
//! 2. *Unsure means no.* At that moment the candidacy steps down by itself, even while a renewal
//!    is in flight; a renewal that succeeds later does not bring the term back.
//! 3. *Stop, then release.* The work is told to stop, has ended, and only then is the lease given
//!    back. Until it has ended the lease is renewed, so that no successor starts beside it.
//! 4. *Nobody beside a successor.* Work that has not stopped is aborted before the lease could be
//!    granted to somebody else: 95 % of the ttl after the last answered renewal was sent, if not
//!    earlier because its time to stop is over.
//! 5. *Renewing is not working.* A work that shows no progress for longer than its limit is stopped
//!    on purpose: whoever renews for it cannot tell that it hangs.
//! 6. *One id, one tenure.* An ask whose answer was lost is repeated under the same id, for it may
//!    have been granted. After a tenure the id is never used again.
//!
//! The shell feeds every answer back as an event with its attempt, and [`Event::Wake`] at
//! [`Candidacy::next_wake`]. Early, late and doubled events do no harm.

use std::fmt;

use crate::chance::Chance;
use crate::command::LeaseKind;
use crate::error::Refusal;
use crate::lease::check_ttl;
use crate::limits;
use crate::name::{LeaseId, MemberId, Term};
use crate::time::BootTime;

/// First pause between terms that ended by themselves; it doubles up to the maximum.
pub const BACK_OFF_MS_MIN: u64 = 1_000;
/// Longest pause between terms. A term that lasted longer begins the doubling anew.
pub const BACK_OFF_MS_MAX: u64 = 60_000;
/// A renewal goes out every third of the ttl: two may fail before trust ends.
const RENEWALS_PER_TTL: u64 = 3;

/// Part of the ttl that is left for the aborting itself.
const ABORTING_PERCENT: u64 = 10;

const _: () = assert!(200 / RENEWALS_PER_TTL < limits::LEASE_TRUST_PERCENT);

/// How one member takes part in one election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who; makes the ids it proposes its own.
    pub member: MemberId,
    /// Duration of the lease. The same for the life of the candidacy: a shorter one would end
    /// earlier at the engine than the holder trusts.
    pub ttl_ms: u64,
    /// From one renewal's start to the next's; zero for a third of the ttl. Two must fit before
    /// trust ends, so that one may fail.
    pub renew_ms: u64,
    /// How long an ask waits in line at the engine.
    pub wait_ms: u64,
    /// Longest pause between asks, with jitter.
    pub retry_ms: u64,
    /// How long the work may take to stop before it is aborted.
    pub stop_ms: u64,
    /// How long the work may go without showing progress; zero for as long as it likes.
    pub stall_ms: u64,
    /// Leads one term at most, and closes when it is over.
    pub once: bool,
}

impl Config {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), Refusal> {
        check_ttl(LeaseKind::Bound, self.ttl_ms)?;
        let renew_ms_max = self.trust_ms() / 2;
        if self.renew_ms > renew_ms_max {
            let why = format!(
                "{} ms is longer than {renew_ms_max} ms, 40 % of the ttl: one renewal that fails would \
                 end the term",
                self.renew_ms
            );
            return Err(Refusal::InvalidValue { what: "renew_ms", why });
        }
        let waits = [
            ("wait_ms", self.wait_ms),
            ("retry_ms", self.retry_ms),
            ("stop_ms", self.stop_ms),
            ("stall_ms", self.stall_ms),
        ];
        for (what, ms) in waits {
            if ms > limits::WAIT_MS_MAX {
                let why = format!("{ms} ms is longer than {} ms", limits::WAIT_MS_MAX);
                return Err(Refusal::InvalidValue { what, why });
            }
        }
        if self.retry_ms == 0 {
            let why = "asking again without a pause would flood the engine".to_owned();
            return Err(Refusal::InvalidValue { what: "retry_ms", why });
        }
        Ok(())
    }

    fn trust_ms(&self) -> u64 {
        self.ttl_ms * limits::LEASE_TRUST_PERCENT / 100
    }

    /// How long after the end of trust the work may still be stopping: the lease is granted anew
    /// only later.
    fn stop_after_trust_ms(&self) -> u64 {
        let left = limits::LEASE_GRACE_PERCENT - limits::LEASE_TRUST_PERCENT;
        self.ttl_ms * (left - ABORTING_PERCENT) / 100
    }

    fn renew_ms(&self) -> u64 {
        if self.renew_ms > 0 { self.renew_ms } else { self.ttl_ms / RENEWALS_PER_TTL }
    }
}

/// Number of an ask or renewal; an answer to any but the newest is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(pub u64);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Take part from now on.
    Start,
    /// Time has passed.
    Wake,
    /// The lease is granted.
    Acquired {
        /// To which ask.
        attempt: Attempt,
        /// Under which term.
        term: Term,
    },
    /// It is not: somebody holds it, or the engine said so of itself.
    AcquireRefused {
        /// Which ask.
        attempt: Attempt,
        /// When to ask again, if the engine knows better.
        retry_after_ms: Option<u64>,
    },
    /// No answer: it may be granted or not.
    AcquireUnknown {
        /// Which ask.
        attempt: Attempt,
    },
    /// The lease is renewed.
    Renewed {
        /// By which renewal.
        attempt: Attempt,
    },
    /// The lease is renewed by a heartbeat that was not sent for it alone.
    RenewedSince {
        /// Which renewal this answers.
        attempt: Attempt,
        /// When the heartbeat was sent, which may be before this renewal was asked for: trust counts
        /// from there.
        sent_at: BootTime,
    },
    /// The lease is definitely not ours any more.
    RenewRefused {
        /// Says the answer to which renewal.
        attempt: Attempt,
    },
    /// No answer: it may be renewed or not.
    RenewUnknown {
        /// Which renewal.
        attempt: Attempt,
    },
    /// The lease is given back, or was no longer ours.
    Released,
    /// No answer to the release; the lease will run out by itself.
    ReleaseUnknown,
    /// Somebody asks the holder of this term to step down.
    StepDownAsked {
        /// Which term; a word for an earlier one is stale.
        term: Term,
        /// Who is to be next, if it waits.
        successor: Option<MemberId>,
    },
    /// The work has ended, told to or by itself.
    WorkEnded(WorkEnd),
    /// The lease may have changed hands; a hint.
    WatchChanged,
    /// Leave: stop the work, give the lease back, close.
    Shutdown,
}

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// It returned.
    Finished,
    /// It failed or panicked.
    Failed,
    /// It failed, and said so with this exit code.
    FailedWith {
        /// What it ended with.
        code: u32,
    },
    /// It showed no progress, and whoever looked after it has ended it.
    Stalled,
}

/// What the shell must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the lease.
    Acquire {
        /// Number of the ask.
        attempt: Attempt,
        /// The id proposed.
        id: LeaseId,
        /// How long to wait in line.
        wait_ms: u64,
    },
    /// Renew the lease.
    Renew {
        /// Number of the renewal.
        attempt: Attempt,
        /// The id it is held under.
        id: LeaseId,
        /// When to give up on the answer, retries of the transport included.
        deadline: BootTime,
    },
    /// Start the work.
    StartWork {
        /// The fencing token it carries to everything it writes.
        term: Term,
    },
    /// Tell the work to stop.
    CancelWork {
        /// Why.
        reason: LossReason,
    },
    /// The work did not stop in time: end it by force, or the process with it. The lease
    /// is not renewed any more and not given back before the work has ended.
    AbortWork,
    /// Give the lease back.
    Release {
        /// The id it is or may be held under.
        id: LeaseId,
        /// Who is to be next, if it waits.
        successor: Option<MemberId>,
        /// Why.
        reason: LossReason,
    },
    /// Tell whoever looks on; only changes are told.
    Announce(View),
    /// Nothing will follow.
    Closed,
}

/// The election as its onlookers in this process see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Not leading.
    Following {
        /// Why the last term of ours ended.
        after: LossReason,
    },
    /// Leading.
    Leading {
        /// Under this term.
        term: Term,
    },
    /// The work is told to stop and has not ended.
    Stopping {
        /// The term that ends.
        term: Term,
        /// Why.
        reason: LossReason,
    },
}

/// Why a term of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// Somebody asked.
    StepDownAsked,
    /// The candidacy is shutting down.
    Shutdown,
    /// No renewal succeeded in time; somebody else may lead soon.
    TrustOver,
    /// The engine said the lease is not ours.
    Refused,
    /// The work returned.
    WorkFinished,
    /// The work failed.
    WorkFailed,
    /// The work showed no progress for longer than its limit.
    Stalled,
    /// Its holder handed it over.
    HandedOver,
    /// The work failed, and said so with this exit code.
    WorkFailedWith {
        /// What it ended with.
        code: u32,
    },
    /// The process has died: said by its guardian, never by itself.
    Died,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkFailedWith { code } => {
                return write!(f, "its work failed with exit code {code}");
            }
            Self::Died => "its process has died",
            Self::StepDownAsked => "it was asked to step down",
            Self::Shutdown => "it is shutting down",
            Self::TrustOver => "no renewal succeeded in time",
            Self::Refused => "the lease is not its any more",
            Self::WorkFinished => "its work finished",
            Self::WorkFailed => "its work failed",
            Self::Stalled => "its work showed no progress",
            Self::HandedOver => "it handed over",
        })
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidacy {
    config: Config,
    chance: Chance,
    state: State,
    attempts: u64,
    /// The id of this tenure, or of the asks for the next one.
    id: LeaseId,
    /// An ask under `id` went unanswered: the lease may be ours without our knowing.
    maybe_granted: bool,
    /// Shutdown was asked.
    closing: bool,
    /// Who is to be next after this tenure.
    successor: Option<MemberId>,
    /// Terms in a row that ended by themselves too soon.
    short_terms: u32,
    actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asking { attempt: Attempt, sent_at: BootTime, until: BootTime, confirming: bool },
    Pausing { until: BootTime },
    Leading(Tenure),
    Stopping { tenure: Tenure, reason: LossReason, abort_at: BootTime, aborted: bool },
    Releasing { until: BootTime, reason: LossReason },
    BackingOff { until: BootTime },
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tenure {
    term: Term,
    since: BootTime,
    /// When the work last got somewhere.
    progress_at: BootTime,
    trusted_until: BootTime,
    renewal: Renewal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Due(BootTime),
    InFlight {
        attempt: Attempt,
        sent_at: BootTime,
    },
    /// Given up: the work does not stop.
    Ended,
    /// The lease is somebody else's: there is nothing to give back.
    Lost,
}

mod steps;

impl Candidacy {
    /// A candidacy that has not started. Its chance comes from `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        let mut new = Self {
            config,
            chance: Chance::new(seed),
            state: State::Idle,
            attempts: 0,
            id: LeaseId(0),
            maybe_granted: false,
            closing: false,
            successor: None,
            short_terms: 0,
            actions: Vec::new(),
        };
        new.renew_id();
        new
    }

    /// Takes note of what happened and says what to do. What the time demands comes first: an
    /// answer that was waiting while this process slept does not keep a term alive.
    pub fn step(&mut self, now: BootTime, event: Event) -> Vec<Action> {
        self.end_trust(now);
        self.end_stall(now);
        self.take(now, event);
        self.do_due(now);
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Candidacy::step`] with [`Event::Wake`], if nothing else happens before.
    pub fn next_wake(&self) -> Option<BootTime> {
        let renewal = |tenure: &Tenure| match tenure.renewal {
            Renewal::Due(at) => at,
            Renewal::InFlight { .. } | Renewal::Ended | Renewal::Lost => BootTime::NEVER,
        };
        let at = match &self.state {
            State::Idle | State::Closed => BootTime::NEVER,
            State::Asking { until, .. }
            | State::Pausing { until }
            | State::Releasing { until, .. }
            | State::BackingOff { until } => *until,
            State::Leading(tenure) => {
                renewal(tenure).min(tenure.trusted_until).min(self.stalls_at(tenure))
            }
            // A work that survives being aborted blocks later terms, not the end.
            State::Stopping { aborted: true, .. } if !self.closing => BootTime::NEVER,
            State::Stopping { abort_at, aborted: true, .. } => *abort_at,
            State::Stopping { tenure, abort_at, .. } => {
                renewal(tenure).min(self.abort_at(tenure, *abort_at))
            }
        };
        (at != BootTime::NEVER).then_some(at)
    }

    /// The work got somewhere, at that time. Say so before a step, which may find that it stalls.
    pub fn progressed(&mut self, at: BootTime) {
        if let State::Leading(tenure) = &mut self.state {
            tenure.progress_at = tenure.progress_at.max(at);
        }
    }

    fn stalls_at(&self, tenure: &Tenure) -> BootTime {
        match self.config.stall_ms {
            0 => BootTime::NEVER,
            stall_ms => tenure.progress_at.plus_ms(stall_ms),
        }
    }

    fn abort_at(&self, tenure: &Tenure, grace_over: BootTime) -> BootTime {
        grace_over.min(tenure.trusted_until.plus_ms(self.config.stop_after_trust_ms()))
    }

    /// Whether the lease is surely ours at this moment. Ask right before every act outside the
    /// process; it stays true while the work is stopping in order, so that it can clean up.
    pub fn is_trusted(&self, now: BootTime) -> bool {
        self.trusted_until().is_some_and(|until| now < until)
    }

    /// The last moment of trust, on this member's own clock.
    pub fn trusted_until(&self) -> Option<BootTime> {
        self.tenure().map(|tenure| tenure.trusted_until)
    }

    /// The term of the work that runs or is stopping.
    pub fn term(&self) -> Option<Term> {
        self.tenure().map(|tenure| tenure.term)
    }

    fn tenure(&self) -> Option<&Tenure> {
        match &self.state {
            State::Leading(tenure) | State::Stopping { tenure, .. } => Some(tenure),
            _ => None,
        }
    }
}
