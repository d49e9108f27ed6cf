//! One delivery in a pump's hands, and how long its lock is believed in.
//!
//! Two times are kept, because the moment the engine locked the message is not known exactly: it
//! lies between the request and its answer.
//!
//! * `trusted_until`: no handler starts after it. Counted like a lease, 80 % of the lock, from
//!   before it was asked for: from the renewal's request, or from that of a receive that does not
//!   wait. The request of a long poll says nothing (the message may have been locked half a minute
//!   later), so there it is counted from the answer, and the 20 % left over are for its way here.
//! * `ends_at`: the lock is surely over. The full lock, counted from the answer. Until then a
//!   running handler may go on and a settlement is worth trying, for the delivery number refuses
//!   what comes too late; giving up at 80 % would redeliver work that was done in time.

use super::action::{Action, Cause, Source, Why};
use super::config::FlowConfig;
use super::event::{Arrival, Trust};
use crate::command::Disposition;
use crate::name::LockToken;
use crate::time::BootTime;

/// How much of a lock is trusted; as for a lease.
const TRUST_PERCENT: u64 = 80;
/// With less than this left a lock is renewed at once.
const RENEW_AT_ONCE_MS: u64 = 400;
/// Shortest pause before a failed renewal or settlement is tried again.
const AGAIN_MS_MIN: u64 = 50;
/// Longest such pause: an engine that was away for a second is found again in the next.
const AGAIN_MS_MAX: u64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    phase: Phase,
    /// Whatever its handler says is dropped and nothing is sent for it any more.
    lost: bool,
    count: u32,
    trusted_until: BootTime,
    ends_at: BootTime,
    renewal: Renewal,
    /// No renewal from here on.
    renew_until: BootTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    /// `told`: to stop.
    Running {
        told: bool,
    },
    /// In flight, for the `tries`th time.
    Settling {
        disposition: Disposition,
        tries: u32,
    },
    /// To be sent again.
    Unsettled {
        disposition: Disposition,
        tries: u32,
        again_at: BootTime,
    },
    /// Known only until its renewal is answered.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Never,
    Due(BootTime),
    Asked(BootTime),
    /// The hold of its session is renewed instead.
    ByHold,
}

impl Trust {
    /// Of a lock that holds for `lock_ms` from some time between `locked_at` and `now`.
    pub(super) fn of(now: BootTime, locked_at: BootTime, lock_ms: u32) -> Self {
        let trust_ms = u64::from(lock_ms) * TRUST_PERCENT / 100;
        let ends_at = now.plus_ms(u64::from(lock_ms));
        Self { trusted_until: locked_at.plus_ms(trust_ms), ends_at }
    }

    /// When to renew it: at half time, or at once if its answer was long on the way.
    pub(super) fn renew_at(self, now: BootTime, lock_ms: u32) -> BootTime {
        let trust_ms = u64::from(lock_ms) * TRUST_PERCENT / 100;
        let left_ms = now.ms_until(self.trusted_until);
        // A lock that is short from the start is renewed at half time too: renewed at once, and
        // again on each answer, it would keep the engine busy with nothing else.
        let at_once = left_ms < RENEW_AT_ONCE_MS.min(trust_ms / 2);
        if at_once { now } else { now.plus_ms(left_ms.div_ceil(2)) }
    }
}

/// When a renewal of unknown outcome is tried again.
pub(super) fn renew_again_at(now: BootTime, ends_at: BootTime) -> BootTime {
    let pause_ms = now.ms_until(ends_at) / 2;
    now.plus_ms(pause_ms.clamp(AGAIN_MS_MIN, AGAIN_MS_MAX))
}

impl Delivery {
    pub(super) fn new(
        now: BootTime,
        asked_at: BootTime,
        arrival: &Arrival,
        config: &FlowConfig,
    ) -> Self {
        let mut delivery = Self {
            phase: Phase::Waiting,
            lost: false,
            count: arrival.deliveries,
            trusted_until: now,
            ends_at: now,
            renewal: Renewal::Never,
            renew_until: now.plus_ms(config.renew_max_ms),
        };
        let locked_at = if config.wait_ms == 0 { asked_at } else { now };
        delivery.trust(now, locked_at, arrival.lock_ms);
        delivery
    }

    /// It is locked as long as its session is held.
    pub(super) fn held_until(&mut self, trust: Trust) {
        if !self.lost {
            (self.trusted_until, self.ends_at) = (trust.trusted_until, trust.ends_at);
            self.renewal = Renewal::ByHold;
        }
    }

    pub(super) fn hold_lost(&mut self, token: LockToken, why: Why, actions: &mut Vec<Action>) {
        if !self.lost {
            self.lose(token, why, actions);
        }
    }

    pub(super) fn renew_until(&self) -> BootTime {
        self.renew_until
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Its handler runs and nobody has told it to stop.
    pub(super) fn is_untold(&self) -> bool {
        self.phase == Phase::Running { told: false }
    }

    /// It is on its way back to the queue.
    pub(super) fn is_coming_back(&self) -> bool {
        let (Phase::Settling { disposition, .. } | Phase::Unsettled { disposition, .. }) =
            self.phase
        else {
            return false;
        };
        matches!(disposition, Disposition::Abandon { .. } | Disposition::Release)
    }

    /// Nothing is open any more.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Ended && !matches!(self.renewal, Renewal::Asked(_))
    }

    fn is_held(&self) -> bool {
        !self.lost && matches!(self.phase, Phase::Waiting | Phase::Running { .. })
    }

    /// Whoever keeps the hold says when it is over.
    fn is_by_hold(&self) -> bool {
        self.renewal == Renewal::ByHold
    }

    pub(super) fn next_wake(&self) -> Option<BootTime> {
        let phase = match self.phase {
            Phase::Waiting => Some(self.trusted_until),
            Phase::Running { .. } if !self.lost && !self.is_by_hold() => Some(self.ends_at),
            Phase::Unsettled { again_at, .. } => Some(again_at),
            _ => None,
        };
        let renewal = match self.renewal {
            Renewal::Due(at) if self.is_held() => Some(at),
            _ => None,
        };
        phase.into_iter().chain(renewal).min()
    }

    /// Does what is due.
    pub(super) fn keep_time(&mut self, now: BootTime, token: LockToken, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Waiting if self.trusted_until <= now => {
                self.settle(now, token, Disposition::Release, actions);
            }
            Phase::Running { .. } if self.ends_at <= now && !self.lost && !self.is_by_hold() => {
                self.lose(token, Why::GivenUp, actions);
            }
            Phase::Unsettled { disposition, tries, again_at } if again_at <= now => {
                self.send_settle(now, token, disposition, tries + 1, actions);
            }
            _ => {}
        }
        if let Renewal::Due(at) = self.renewal
            && at <= now
            && self.is_held()
        {
            self.renewal = Renewal::Asked(now);
            actions.push(Action::Renew { token });
        }
    }

    pub(super) fn start(&mut self, now: BootTime, config: &FlowConfig) {
        assert!(now < self.trusted_until, "a handler starts only on a trusted lock");
        self.phase = Phase::Running { told: false };
        self.renew_until = now.plus_ms(config.renew_max_ms);
        if self.renewal == Renewal::Never {
            let left_ms = now.ms_until(self.trusted_until);
            self.renew_at(now.plus_ms(left_ms.div_ceil(2)));
        }
    }

    /// Tells a running handler to stop, once.
    pub(super) fn tell(&mut self, token: LockToken, why: Cause, actions: &mut Vec<Action>) {
        if self.is_untold() {
            self.phase = Phase::Running { told: true };
            actions.push(Action::CancelHandler { token, why });
        }
    }

    /// `None` settles nothing.
    pub(super) fn handler_ended(
        &mut self,
        now: BootTime,
        token: LockToken,
        disposition: Option<Disposition>,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_running() {
            return;
        }
        match disposition {
            Some(disposition) if !self.lost || cfg!(planted_bug = "settle_after_lost_lock") => {
                self.settle(now, token, disposition, actions);
            }
            _ => self.phase = Phase::Ended,
        }
    }

    pub(super) fn handler_failed(
        &mut self,
        now: BootTime,
        token: LockToken,
        disposition: Disposition,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_running() {
            return;
        }
        // That a handler fails when told to stop is neither news nor the message's fault.
        if !self.is_untold() {
            return self.handler_ended(now, token, Some(Disposition::Release), actions);
        }
        report(Source::Handler, token, Why::Failed, actions);
        self.handler_ended(now, token, Some(disposition), actions);
    }

    pub(super) fn renewed(&mut self, now: BootTime, lock_ms: u32) {
        if let Renewal::Asked(asked_at) = self.renewal {
            self.renewal = Renewal::Never;
            if !self.lost {
                self.trust(now, asked_at, lock_ms);
            }
        }
    }

    pub(super) fn renew_refused(&mut self, token: LockToken, actions: &mut Vec<Action>) {
        if matches!(self.renewal, Renewal::Asked(_)) {
            self.renewal = Renewal::Never;
            if !self.lost {
                self.lose(token, Why::Refused, actions);
            }
        }
    }

    pub(super) fn renew_failed(
        &mut self,
        now: BootTime,
        token: LockToken,
        actions: &mut Vec<Action>,
    ) {
        if matches!(self.renewal, Renewal::Asked(_)) {
            self.renewal = Renewal::Never;
            if self.is_held() {
                report(Source::Renew, token, Why::Unknown, actions);
                self.renew_at(renew_again_at(now, self.ends_at));
            }
        }
    }

    pub(super) fn settle(
        &mut self,
        now: BootTime,
        token: LockToken,
        disposition: Disposition,
        actions: &mut Vec<Action>,
    ) {
        self.send_settle(now, token, disposition, 1, actions);
    }

    fn send_settle(
        &mut self,
        now: BootTime,
        token: LockToken,
        disposition: Disposition,
        tries: u32,
        actions: &mut Vec<Action>,
    ) {
        if self.ends_at <= now {
            self.phase = Phase::Ended;
            return report(Source::Settle, token, Why::GivenUp, actions);
        }
        self.phase = Phase::Settling { disposition, tries };
        actions.push(Action::Settle { token, disposition });
    }

    pub(super) fn settled(&mut self) {
        if matches!(self.phase, Phase::Settling { .. }) {
            self.phase = Phase::Ended;
        }
    }

    pub(super) fn settle_refused(&mut self, token: LockToken, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Settling { .. }) {
            self.phase = Phase::Ended;
            report(Source::Settle, token, Why::Refused, actions);
        }
    }

    pub(super) fn settle_failed(
        &mut self,
        now: BootTime,
        token: LockToken,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Settling { disposition, tries } = self.phase else { return };
        let pause_ms = AGAIN_MS_MIN.saturating_mul(2_u64.saturating_pow(tries - 1));
        let again_at = now.plus_ms(pause_ms.min(AGAIN_MS_MAX));
        if self.lost || self.ends_at <= again_at {
            self.phase = Phase::Ended;
            report(Source::Settle, token, Why::GivenUp, actions);
        } else {
            self.phase = Phase::Unsettled { disposition, tries, again_at };
            report(Source::Settle, token, Why::Unknown, actions);
        }
    }

    /// The lock holds for `lock_ms` from some time between `locked_at` and `now`.
    fn trust(&mut self, now: BootTime, locked_at: BootTime, lock_ms: u32) {
        let trust = Trust::of(now, locked_at, lock_ms);
        (self.trusted_until, self.ends_at) = (trust.trusted_until, trust.ends_at);
        self.renew_at(trust.renew_at(now, lock_ms));
    }

    fn renew_at(&mut self, at: BootTime) {
        self.renewal = if at < self.renew_until { Renewal::Due(at) } else { Renewal::Never };
    }

    fn lose(&mut self, token: LockToken, why: Why, actions: &mut Vec<Action>) {
        self.lost = true;
        match self.phase {
            Phase::Waiting => {
                self.phase = Phase::Ended;
                report(Source::Renew, token, why, actions);
            }
            Phase::Running { .. } => {
                report(Source::Renew, token, why, actions);
                self.tell(token, Cause::LockLost, actions);
            }
            Phase::Unsettled { .. } => {
                self.phase = Phase::Ended;
                report(Source::Settle, token, Why::GivenUp, actions);
            }
            // The settlement in flight may be why the renewal was refused; its own answer decides.
            Phase::Settling { .. } | Phase::Ended => {}
        }
    }
}

fn report(source: Source, token: LockToken, why: Why, actions: &mut Vec<Action>) {
    actions.push(Action::Report { source, token: Some(token), why });
}
