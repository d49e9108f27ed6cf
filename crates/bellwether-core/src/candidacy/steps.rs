//! The transitions of a candidacy.

use super::{
    Action, Attempt, BACK_OFF_MS_MAX, BACK_OFF_MS_MIN, Candidacy, Event, LossReason, Renewal,
    State, Tenure, View, WorkEnd,
};
use crate::name::{LeaseId, Term};
use crate::time::BootTime;

impl Candidacy {
    pub(super) fn end_trust(&mut self, now: BootTime) {
        if let State::Leading(tenure) = self.state
            && now >= tenure.trusted_until
        {
            self.stop(now, tenure, LossReason::TrustOver);
        }
    }

    pub(super) fn end_stall(&mut self, now: BootTime) {
        if let State::Leading(tenure) = self.state
            && now >= self.stalls_at(&tenure)
        {
            self.stop(now, tenure, LossReason::Stalled);
        }
    }

    pub(super) fn take(&mut self, now: BootTime, event: Event) {
        match (self.state, event) {
            (State::Idle, Event::Start) => self.ask(now, self.config.wait_ms, false),
            (State::Asking { attempt: asked, sent_at, confirming, .. }, event) => {
                self.take_answer(now, asked, sent_at, confirming, event);
            }
            (State::Pausing { until }, Event::WatchChanged) => {
                let soon = now.plus_ms(self.chance.below(self.config.renew_ms() / 4));
                self.state = State::Pausing { until: until.min(soon) };
            }
            (State::Pausing { .. }, Event::Shutdown) if self.maybe_granted => self.withdraw(now),
            (State::Leading(tenure), Event::StepDownAsked { term, successor })
                if term == tenure.term =>
            {
                self.successor = successor;
                let reason = match successor {
                    Some(_) => LossReason::HandedOver,
                    None => LossReason::StepDownAsked,
                };
                self.stop(now, tenure, reason);
            }
            (State::Leading(tenure), Event::Shutdown) => {
                self.closing = true;
                self.stop(now, tenure, LossReason::Shutdown);
            }
            (State::Leading(tenure), Event::WorkEnded(end)) => {
                let reason = match end {
                    WorkEnd::Finished => LossReason::WorkFinished,
                    WorkEnd::Failed => LossReason::WorkFailed,
                    WorkEnd::FailedWith { code } => LossReason::WorkFailedWith { code },
                    WorkEnd::Stalled => LossReason::Stalled,
                };
                self.leave(now, tenure, reason);
            }
            (State::Stopping { tenure, reason, .. }, Event::WorkEnded(_)) => {
                self.leave(now, tenure, reason);
            }
            (
                State::Leading(_) | State::Stopping { .. },
                Event::Renewed { attempt }
                | Event::RenewedSince { attempt, .. }
                | Event::RenewRefused { attempt }
                | Event::RenewUnknown { attempt },
            ) => self.take_renewal(now, attempt, event),
            (State::Releasing { reason, .. }, Event::Released | Event::ReleaseUnknown) => {
                self.follow(now, reason);
            }
            (State::Stopping { .. } | State::Releasing { .. }, Event::Shutdown) => {
                self.closing = true;
            }
            (State::Idle | State::Pausing { .. } | State::BackingOff { .. }, Event::Shutdown) => {
                self.close();
            }
            _ => {}
        }
    }

    /// Does what the time has come for.
    pub(super) fn do_due(&mut self, now: BootTime) {
        match self.state {
            State::Asking { attempt, until, .. } if until <= now => {
                self.take(now, Event::AcquireUnknown { attempt });
            }
            State::Pausing { until } | State::BackingOff { until } if until <= now => {
                self.ask(now, self.config.wait_ms, false);
            }
            State::Releasing { until, reason } if until <= now => self.follow(now, reason),
            State::Stopping { aborted: true, abort_at, .. } if self.closing && abort_at <= now => {
                self.close();
            }
            State::Stopping { tenure, reason, abort_at, aborted: false }
                if self.abort_at(&tenure, abort_at) <= now =>
            {
                let lost = tenure.renewal == Renewal::Lost;
                let renewal = if lost { Renewal::Lost } else { Renewal::Ended };
                let abort_at = now.plus_ms(self.config.stop_ms);
                let tenure = Tenure { renewal, ..tenure };
                self.state = State::Stopping { tenure, reason, abort_at, aborted: true };
                self.actions.push(Action::AbortWork);
            }
            State::Leading(tenure) | State::Stopping { tenure, .. } => {
                if matches!(tenure.renewal, Renewal::Due(at) if at <= now) {
                    self.renew(now, tenure.trusted_until);
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, now: BootTime, wait_ms: u64, confirming: bool) {
        let attempt = self.next_attempt();
        let until = now.plus_ms(wait_ms).plus_ms(self.config.ttl_ms);
        self.state = State::Asking { attempt, sent_at: now, until, confirming };
        self.actions.push(Action::Acquire { attempt, id: self.id, wait_ms });
    }

    fn take_answer(
        &mut self,
        now: BootTime,
        asked: Attempt,
        sent_at: BootTime,
        confirming: bool,
        event: Event,
    ) {
        match event {
            Event::Acquired { attempt, term } if attempt == asked => {
                self.take_grant(now, sent_at, confirming, term);
            }
            Event::AcquireRefused { attempt, retry_after_ms } if attempt == asked => {
                self.maybe_granted = false;
                let pause_ms = match retry_after_ms {
                    Some(ms) => ms.saturating_add(self.chance.below(ms / 5)),
                    None => self.chance.jitter_ms(self.config.retry_ms),
                };
                self.state = State::Pausing { until: now.plus_ms(pause_ms) };
            }
            Event::AcquireUnknown { attempt } if attempt == asked => {
                // Soon: if it was granted, its time is running.
                self.maybe_granted = true;
                let pause_ms = self.config.retry_ms.min(self.config.renew_ms());
                let until = now.plus_ms(self.chance.jitter_ms(pause_ms));
                self.state = State::Pausing { until };
            }
            Event::Shutdown => self.withdraw(now),
            _ => {}
        }
    }

    /// A grant that waited in line may reach us with its trust used up. Asking again under the
    /// same id confirms it, with a later send time and the same term.
    fn take_grant(&mut self, now: BootTime, sent_at: BootTime, confirming: bool, term: Term) {
        let trusted_until = self.trust(sent_at, now);
        if now.plus_ms(self.config.renew_ms()) <= trusted_until {
            self.maybe_granted = false;
            let renewal = Renewal::Due(now);
            let (since, progress_at) = (now, now);
            let tenure = Tenure { term, since, progress_at, trusted_until, renewal };
            self.state = State::Leading(tenure);
            self.actions.push(Action::Announce(View::Leading { term }));
            self.actions.push(Action::StartWork { term });
        } else if confirming {
            // Every answer takes longer than its grant is worth: let others try.
            self.release(now, LossReason::TrustOver);
        } else {
            self.maybe_granted = true;
            self.ask(now, 0, true);
        }
    }

    /// Trust is what is left of a grant that began, at the earliest, when it was asked for.
    fn trust(&self, sent_at: BootTime, answered_at: BootTime) -> BootTime {
        debug_assert!(sent_at <= answered_at);
        #[cfg(planted_bug = "trust_from_reply")]
        return answered_at.plus_ms(self.config.trust_ms());
        #[cfg(not(planted_bug = "trust_from_reply"))]
        sent_at.plus_ms(self.config.trust_ms())
    }

    fn renew(&mut self, now: BootTime, trusted_until: BootTime) {
        let attempt = self.next_attempt();
        let renew_ms = self.config.renew_ms();
        // Half of what is left, so that a renewal that hangs leaves time for another one.
        let deadline = match now.ms_until(trusted_until) {
            0 => now.plus_ms(renew_ms),
            left if left * 2 < renew_ms => trusted_until,
            left => now.plus_ms(left / 2),
        };
        self.set_renewal(Renewal::InFlight { attempt, sent_at: now });
        self.actions.push(Action::Renew { attempt, id: self.id, deadline });
    }

    fn take_renewal(&mut self, now: BootTime, attempt: Attempt, event: Event) {
        let (State::Leading(tenure) | State::Stopping { tenure, .. }) = self.state else { return };
        let Renewal::InFlight { attempt: sent, sent_at } = tenure.renewal else { return };
        if attempt != sent {
            return;
        }
        match event {
            Event::Renewed { .. } => self.renewed(now, tenure, sent_at),
            Event::RenewedSince { sent_at, .. } => self.renewed(now, tenure, sent_at.min(now)),
            Event::RenewUnknown { .. } => {
                let pause_ms = self.chance.jitter_ms(self.config.ttl_ms / 10);
                self.set_renewal(Renewal::Due(now.plus_ms(pause_ms)));
            }
            _ => {
                self.set_renewal(Renewal::Lost);
                self.set_trust(now.min(tenure.trusted_until));
                if let State::Leading(tenure) = self.state {
                    self.stop(now, tenure, LossReason::Refused);
                }
            }
        }
    }

    fn renewed(&mut self, now: BootTime, tenure: Tenure, sent_at: BootTime) {
        let trusted_until = self.trust(sent_at, now);
        self.set_renewal(Renewal::Due(sent_at.plus_ms(self.config.renew_ms())));
        if now < tenure.trusted_until {
            self.set_trust(trusted_until.max(tenure.trusted_until));
        }
    }

    fn stop(&mut self, now: BootTime, tenure: Tenure, reason: LossReason) {
        let abort_at = now.plus_ms(self.config.stop_ms);
        self.state = State::Stopping { tenure, reason, abort_at, aborted: false };
        self.actions.push(Action::CancelWork { reason });
        self.actions.push(Action::Announce(View::Stopping { term: tenure.term, reason }));
        #[cfg(planted_bug = "release_before_stop")]
        self.actions.push(Action::Release { id: self.id, successor: None, reason });
    }

    /// The work has ended: only now may somebody else start.
    fn leave(&mut self, now: BootTime, tenure: Tenure, reason: LossReason) {
        self.closing |= self.config.once;
        let lasted = now.0.saturating_sub(tenure.since.0) > BACK_OFF_MS_MAX;
        let by_itself = matches!(
            reason,
            LossReason::WorkFinished
                | LossReason::WorkFailed
                | LossReason::WorkFailedWith { .. }
                | LossReason::Stalled
        );
        self.short_terms = match (lasted, by_itself) {
            (true, _) => 0,
            (false, true) => self.short_terms + 1,
            (false, false) => self.short_terms,
        };
        self.actions.push(Action::Announce(View::Following { after: reason }));
        if tenure.renewal == Renewal::Lost {
            self.follow(now, reason);
        } else {
            self.release(now, reason);
        }
    }

    fn release(&mut self, now: BootTime, reason: LossReason) {
        // An answer that never comes must not hold us up: the lease runs out by itself.
        let until = now.plus_ms(self.config.ttl_ms);
        self.state = State::Releasing { until, reason };
        let successor = self.successor.take();
        self.actions.push(Action::Release { id: self.id, successor, reason });
    }

    /// Shutdown with an ask in flight: it may be granted behind our back.
    fn withdraw(&mut self, now: BootTime) {
        self.closing = true;
        self.release(now, LossReason::Shutdown);
    }

    /// Nothing is held any more: contend again, after giving others a chance.
    fn follow(&mut self, now: BootTime, reason: LossReason) {
        if self.closing {
            return self.close();
        }
        self.renew_id();
        self.successor = None;
        let retry_ms = self.config.retry_ms;
        self.state = match reason {
            LossReason::TrustOver
            | LossReason::Refused
            | LossReason::Shutdown
            | LossReason::Died => {
                State::Pausing { until: now.plus_ms(self.chance.jitter_ms(retry_ms)) }
            }
            // Whoever asked wants somebody else: let everybody ask once before us.
            LossReason::StepDownAsked | LossReason::HandedOver => {
                let pause_ms = self.chance.jitter_ms(2 * retry_ms.max(BACK_OFF_MS_MIN));
                State::BackingOff { until: now.plus_ms(pause_ms) }
            }
            LossReason::WorkFinished
            | LossReason::WorkFailed
            | LossReason::WorkFailedWith { .. }
            | LossReason::Stalled => {
                let doublings = self.short_terms.saturating_sub(1).min(16);
                let pause_ms = (BACK_OFF_MS_MIN << doublings).min(BACK_OFF_MS_MAX);
                State::BackingOff { until: now.plus_ms(self.chance.jitter_ms(pause_ms)) }
            }
        };
    }

    fn close(&mut self) {
        self.closing = true;
        self.state = State::Closed;
        self.actions.push(Action::Closed);
    }

    fn set_renewal(&mut self, renewal: Renewal) {
        if let State::Leading(tenure) | State::Stopping { tenure, .. } = &mut self.state {
            tenure.renewal = renewal;
        }
    }

    fn set_trust(&mut self, trusted_until: BootTime) {
        if let State::Leading(tenure) | State::Stopping { tenure, .. } = &mut self.state {
            tenure.trusted_until = trusted_until;
        }
    }

    fn next_attempt(&mut self) -> Attempt {
        self.attempts += 1;
        Attempt(self.attempts)
    }

    pub(super) fn renew_id(&mut self) {
        let bits = (u128::from(self.chance.bits()) << 64) | u128::from(self.chance.bits());
        self.id = LeaseId(self.config.member.0 ^ bits);
        self.maybe_granted = false;
    }
}
