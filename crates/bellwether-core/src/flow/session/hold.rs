//! One session in a pump's hands, and how long its hold is believed in.

use crate::flow::delivery::renew_again_at;
use crate::flow::{Flow, FlowConfig, Trust};
use crate::time::BootTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) flow: Flow,
    pub(super) phase: Phase,
    trust: Trust,
    renewal: Renewal,
    /// Since when its flow has known that there is nothing.
    idle_since: Option<BootTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Its flow was told to stop.
    LettingGo,
    /// Its flow has stopped and the close is in flight.
    Closing,
    /// No longer ours; what runs in it may end.
    Lost,
    /// Known only until its renewal is answered.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Due(BootTime),
    Asked(BootTime),
}

impl Held {
    pub(super) fn new(
        now: BootTime,
        locked_at: BootTime,
        lock_ms: u32,
        config: FlowConfig,
    ) -> Self {
        let trust = Trust::of(now, locked_at, lock_ms);
        Self {
            flow: Flow::held(config, trust),
            phase: Phase::Open,
            trust,
            renewal: Renewal::Due(trust.renew_at(now, lock_ms)),
            idle_since: None,
        }
    }

    /// Since when it has been open and had nothing.
    pub(super) fn idle_since(&self) -> Option<BootTime> {
        self.idle_since.filter(|_| self.phase == Phase::Open)
    }

    pub(super) fn takes_place(&self) -> bool {
        self.phase == Phase::Open || self.flow.is_busy()
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Ended && !matches!(self.renewal, Renewal::Asked(_))
    }

    fn is_ours(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::LettingGo)
    }

    /// A hold whose close is in flight is not watched any more.
    pub(super) fn has_run_out(&self, now: BootTime) -> bool {
        self.is_ours() && self.trust.ends_at <= now
    }

    pub(super) fn next_wake(&self, now: BootTime) -> Option<BootTime> {
        let ends_at = self.is_ours().then_some(self.trust.ends_at);
        let renewal = match self.renewal {
            // What is due and not done waits for the handler that has had its time.
            Renewal::Due(at) if self.is_ours() && now < at => Some(at),
            _ => None,
        };
        ends_at.into_iter().chain(renewal).chain(self.flow.next_wake()).min()
    }

    /// Whether to renew it now. Not for a handler that has had its time: then the hold runs out.
    pub(super) fn renew(&mut self, now: BootTime) -> Option<()> {
        let Renewal::Due(at) = self.renewal else { return None };
        let may = self.flow.renew_until().is_none_or(|until| now < until)
            || cfg!(planted_bug = "hung_handler_keeps_session");
        if !self.is_ours() || now < at || !may {
            return None;
        }
        self.renewal = Renewal::Asked(now);
        Some(())
    }

    /// How long it is trusted from here on, if it is still ours.
    pub(super) fn renewed(&mut self, now: BootTime, lock_ms: u32) -> Option<Trust> {
        let Renewal::Asked(asked_at) = self.renewal else { return None };
        let trust = Trust::of(now, asked_at, lock_ms);
        self.renewal = Renewal::Due(trust.renew_at(now, lock_ms));
        self.is_ours().then(|| {
            self.trust = trust;
            trust
        })
    }

    pub(super) fn renew_refused(&mut self) -> Option<()> {
        let Renewal::Asked(at) = self.renewal else { return None };
        self.renewal = Renewal::Due(at);
        self.is_ours().then_some(())
    }

    pub(super) fn renew_failed(&mut self, now: BootTime) -> Option<()> {
        let Renewal::Asked(_) = self.renewal else { return None };
        self.renewal = Renewal::Due(renew_again_at(now, self.trust.ends_at));
        self.is_ours().then_some(())
    }

    pub(super) fn let_go(&mut self) -> Option<()> {
        (self.phase == Phase::Open).then(|| self.phase = Phase::LettingGo)
    }

    pub(super) fn lose(&mut self) -> Option<()> {
        self.is_ours().then(|| self.phase = Phase::Lost)
    }

    /// Its flow has stopped; whether it is ours to close.
    pub(super) fn stopped(&mut self) -> bool {
        let closes = self.is_ours();
        self.phase = if closes { Phase::Closing } else { Phase::Ended };
        closes
    }

    pub(super) fn closed(&mut self) -> Option<()> {
        (self.phase == Phase::Closing).then(|| self.phase = Phase::Ended)
    }

    /// Looks whether there is anything in it.
    pub(super) fn look(&mut self, now: BootTime) {
        self.idle_since = self.flow.is_idle().then(|| self.idle_since.unwrap_or(now));
    }
}
