//! One pump's view of its deliveries.
//!
//! Think of a cook with so many hands. Plates come through a hatch, each with a clock that runs;
//! the cook fetches a plate only for a free hand, winds the clocks of what he is working on, and
//! sends every plate back with a word about it. When a clock has run out the plate is somebody
//! else's: he puts it down and says nothing.
//!
//! ```text
//!              Receive ──► Received
//!                             │  no hand free, or
//!                             ▼  not taking          trust over, pause, stop
//!                          Waiting ─────────────────────────────────┐
//!                             │ Handle                              │ Release
//!          Renew ──► Renewed  ▼                                     ▼
//!            └────────────► Running ── HandlerDone, ─────────► Settling ◄──┐
//!                             │        HandlerFailed            │   │      │ SettleFailed:
//!                RenewRefused,│                         Settled,│   └──────┘ the same again
//!                lock ran out ▼                   SettleRefused,▼
//!                          lost: CancelHandler, ────────────► forgotten
//!                          the result is dropped
//! ```
//!
//! What always holds:
//!
//! 1. At most `concurrency` handlers run; at most one receive is in flight.
//! 2. A handler starts only while its lock is trusted, never on one that may have run out.
//! 3. A delivery is settled at most once, and never after its lock was lost or its handler settled
//!    it. A repeated [`Action::Settle`] is the same request again.
//! 4. Nothing is received while paused or stopping; what runs goes on.
//! 5. [`Action::Stopped`] comes once, when nothing is received, run, renewed or settled any
//!    more.
//!
//! The shell answers every action that has an answer exactly once: Receive by Received or
//! `ReceiveFailed` (also after Withdraw, then perhaps with nothing), Handle by `HandlerDone` or
//! `HandlerFailed`, Renew and Settle each by one of their three. What fits no open action is
//! ignored. How long a lock is trusted is said in `flow/delivery.rs`.

mod action;
mod config;
mod delivery;
mod event;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

pub use self::action::{Action, Cause, Source, Why};
pub use self::config::{FlowConfig, Retry};
use self::delivery::{Delivery, Phase};
pub use self::event::{Arrival, Event, Verdict};
use crate::command::Disposition;
use crate::limits;
use crate::name::LockToken;
use crate::time::BootTime;

/// Pause after the first failed receive; doubles with each further one.
const RECEIVE_PAUSE_MS_MIN: u64 = 100;
/// Longest pause after failed receives: what Azure's own client waits when throttled.
const RECEIVE_PAUSE_MS_MAX: u64 = 10_000;
/// Empty answers in a row come at most this seldom. Only felt by those who do not wait (a long poll
/// has used up its pause), who would otherwise ask as fast as the processor allows.
const EMPTY_PAUSE_MS_MAX: u64 = 1_000;
/// How far the pauses of pumps that failed together are spread, in percent.
const PAUSE_JITTER_PERCENT: u64 = 20;

/// One pump's deliveries, from receive to settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    config: FlowConfig,
    /// The latest time seen; a clock read before another's step must not turn time back.
    now: BootTime,
    mode: Mode,
    receive: Option<Pending>,
    attempts: u64,
    /// No receive before this.
    receive_after: BootTime,
    /// Receives that failed in a row.
    failures: u32,
    /// Receives that brought nothing in a row.
    empties: u32,
    deliveries: BTreeMap<LockToken, Delivery>,
    /// Those that wait for a handler, first come first.
    waiting: VecDeque<LockToken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Idle,
    Taking,
    Paused,
    Stopping { grace_until: BootTime },
    Stopped,
}

/// The receive in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    attempt: u64,
    asked_at: BootTime,
    withdrawn: bool,
}

impl Flow {
    /// A flow at rest; [`Event::Start`] sets it going.
    pub fn new(config: FlowConfig) -> Self {
        assert!(config.concurrency > 0, "a pump without handlers would never end a message");
        assert!(config.receive_max > 0, "a receive of no messages would be asked for ever");
        Self {
            config,
            now: BootTime(0),
            mode: Mode::Idle,
            receive: None,
            attempts: 0,
            receive_after: BootTime(0),
            failures: 0,
            empties: 0,
            deliveries: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Tells what happened, and says what to do about it, in this order.
    pub fn step(&mut self, now: BootTime, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        let mut actions = Vec::new();
        // The event first: a renewal's answer may be what keeps a lock from being given up.
        self.take_in(event, &mut actions);
        self.keep_time(&mut actions);
        self.hand_out(&mut actions);
        self.ask(&mut actions);
        self.end(&mut actions);
        actions
    }

    /// When to step again with [`Event::Wake`] if nothing happens before. Always later than the
    /// last step.
    pub fn next_wake(&self) -> Option<BootTime> {
        let deliveries = self.deliveries.values().filter_map(Delivery::next_wake);
        let receive = (self.takes() && self.receive.is_none() && self.room() > 0)
            .then_some(self.receive_after);
        let grace = match self.mode {
            Mode::Stopping { grace_until } if self.deliveries.values().any(Delivery::is_untold) => {
                Some(grace_until)
            }
            _ => None,
        };
        deliveries.chain(receive).chain(grace).min()
    }

    /// How many handlers run, cancelled ones among them.
    pub fn running(&self) -> usize {
        self.deliveries.values().filter(|delivery| delivery.is_running()).count()
    }

    /// Whether anything about this delivery is still open.
    pub fn knows(&self, token: LockToken) -> bool {
        self.deliveries.contains_key(&token)
    }

    /// How many messages wait, locked, for a handler.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn take_in(&mut self, event: Event, actions: &mut Vec<Action>) {
        let now = self.now;
        match event {
            Event::Start if self.mode == Mode::Idle => self.mode = Mode::Taking,
            Event::Pause if self.mode == Mode::Taking => {
                self.mode = Mode::Paused;
                self.give_back(actions);
            }
            Event::Resume if self.mode == Mode::Paused => self.mode = Mode::Taking,
            Event::Stop if !matches!(self.mode, Mode::Stopping { .. } | Mode::Stopped) => {
                self.mode = Mode::Stopping { grace_until: now.plus_ms(self.config.stop_grace_ms) };
                self.give_back(actions);
            }
            Event::Start | Event::Pause | Event::Resume | Event::Stop | Event::Wake => {}
            Event::Received { attempt, deliveries } => self.received(attempt, deliveries, actions),
            Event::ReceiveFailed { attempt } => self.receive_failed(attempt, actions),
            Event::HandlerDone { token, verdict } => {
                let disposition = self.disposition(token, verdict);
                self.with(token, |d| d.handler_ended(now, token, disposition, actions));
            }
            Event::HandlerFailed { token } => {
                let disposition = self.abandon(token);
                self.with(token, |d| d.handler_failed(now, token, disposition, actions));
            }
            Event::Renewed { token, lock_ms } => self.with(token, |d| d.renewed(now, lock_ms)),
            Event::RenewRefused { token } => {
                self.with(token, |d| d.renew_refused(token, actions));
                self.waiting.retain(|&waiting| waiting != token);
            }
            Event::RenewFailed { token } => {
                self.with(token, |d| d.renew_failed(now, token, actions));
            }
            Event::Settled { token } => self.with(token, Delivery::settled),
            Event::SettleRefused { token } => {
                self.with(token, |d| d.settle_refused(token, actions));
            }
            Event::SettleFailed { token } => {
                self.with(token, |d| d.settle_failed(now, token, actions));
            }
        }
    }

    fn with(&mut self, token: LockToken, change: impl FnOnce(&mut Delivery)) {
        if let Some(delivery) = self.deliveries.get_mut(&token) {
            change(delivery);
            if delivery.is_over() {
                self.deliveries.remove(&token);
            }
        }
    }

    fn received(&mut self, attempt: u64, arrivals: Vec<Arrival>, actions: &mut Vec<Action>) {
        let Some(pending) = self.receive.take_if(|pending| pending.attempt == attempt) else {
            return;
        };
        self.failures = 0;
        if !arrivals.is_empty() {
            self.empties = 0;
        } else if !pending.withdrawn {
            self.empties += 1;
            let pause_ms = self.pause_ms(self.empties, EMPTY_PAUSE_MS_MAX);
            self.receive_after = pending.asked_at.plus_ms(pause_ms);
        }
        for arrival in arrivals {
            if let Entry::Vacant(place) = self.deliveries.entry(arrival.token) {
                let asked_at = pending.asked_at;
                place.insert(Delivery::new(self.now, asked_at, &arrival, &self.config));
                self.waiting.push_back(arrival.token);
            }
        }
        // Taken before the wish to stop taking was heard: back, uncounted, for others to have.
        if !self.takes() {
            self.release_waiting(actions);
        }
    }

    fn receive_failed(&mut self, attempt: u64, actions: &mut Vec<Action>) {
        let Some(pending) = self.receive.take_if(|pending| pending.attempt == attempt) else {
            return;
        };
        if pending.withdrawn {
            return;
        }
        self.failures += 1;
        let pause_ms = self.pause_ms(self.failures, RECEIVE_PAUSE_MS_MAX);
        self.receive_after = self.now.plus_ms(pause_ms);
        actions.push(Action::Report { source: Source::Receive, token: None, why: Why::Unknown });
    }

    /// The pause after the `count`th bad answer in a row.
    fn pause_ms(&self, count: u32, max_ms: u64) -> u64 {
        let doubled = 2_u64.saturating_pow(count - 1).saturating_mul(RECEIVE_PAUSE_MS_MIN);
        let salt = u128::from(self.attempts);
        config::jittered(doubled.min(max_ms), PAUSE_JITTER_PERCENT, self.config.seed, salt)
    }

    fn disposition(&self, token: LockToken, verdict: Verdict) -> Option<Disposition> {
        match verdict {
            Verdict::Complete => self.config.auto_settle.then_some(Disposition::Complete),
            Verdict::Retry { after_ms: None } => Some(self.abandon(token)),
            Verdict::Retry { after_ms } => Some(Disposition::Abandon { delay_ms: after_ms }),
            Verdict::DeadLetter => Some(Disposition::DeadLetter),
            Verdict::Defer => Some(Disposition::Defer),
            Verdict::Release => Some(Disposition::Release),
            Verdict::SettledByHandler => None,
        }
    }

    fn abandon(&self, token: LockToken) -> Disposition {
        let count = self.deliveries.get(&token).map_or(0, Delivery::count);
        let ms = self.config.retry.delay_ms(count, self.config.seed, token);
        // Without a delay of its own the pump leaves it to the queue.
        Disposition::Abandon { delay_ms: (ms > 0).then_some(ms) }
    }

    fn takes(&self) -> bool {
        #[cfg(planted_bug = "pause_keeps_taking")]
        return matches!(self.mode, Mode::Taking | Mode::Paused);
        #[cfg(not(planted_bug = "pause_keeps_taking"))]
        return self.mode == Mode::Taking;
    }

    /// Others shall have what no handler has begun.
    fn give_back(&mut self, actions: &mut Vec<Action>) {
        if let Some(pending) = self.receive.as_mut().filter(|pending| !pending.withdrawn) {
            pending.withdrawn = true;
            actions.push(Action::Withdraw { attempt: pending.attempt });
        }
        self.release_waiting(actions);
    }

    fn release_waiting(&mut self, actions: &mut Vec<Action>) {
        let now = self.now;
        for token in std::mem::take(&mut self.waiting) {
            self.with(token, |d| d.settle(now, token, Disposition::Release, actions));
        }
    }

    fn keep_time(&mut self, actions: &mut Vec<Action>) {
        let now = self.now;
        self.deliveries.retain(|&token, delivery| {
            delivery.keep_time(now, token, actions);
            !delivery.is_over()
        });
        let deliveries = &self.deliveries;
        self.waiting.retain(|token| deliveries.get(token).is_some_and(Delivery::is_waiting));
        if let Mode::Stopping { grace_until } = self.mode
            && grace_until <= now
        {
            for (&token, delivery) in &mut self.deliveries {
                delivery.tell(token, Cause::GraceOver, actions);
            }
        }
    }

    fn hand_out(&mut self, actions: &mut Vec<Action>) {
        if !self.takes() || self.waiting.is_empty() {
            return;
        }
        let free = (self.config.concurrency as usize).saturating_sub(self.running());
        for _ in 0..free {
            let Some(token) = self.waiting.pop_front() else { return };
            let delivery = self.deliveries.get_mut(&token).expect("what waits is known");
            delivery.start(self.now, &self.config);
            actions.push(Action::Handle { token });
        }
    }

    /// How many more messages may be taken: one for each free handler and free place to wait.
    /// Settlements have as much room as handlers, so that messages do not pile up behind an engine
    /// that hands out but does not settle.
    fn room(&self) -> u32 {
        let FlowConfig { concurrency, prefetch, .. } = self.config;
        let places = concurrency.saturating_add(prefetch) as usize;
        let unsettled = places.saturating_sub(self.running() + self.waiting.len());
        let known = (places + concurrency as usize).saturating_sub(self.deliveries.len());
        unsettled.min(known) as u32
    }

    fn ask(&mut self, actions: &mut Vec<Action>) {
        if !self.takes() || self.receive.is_some() || self.now < self.receive_after {
            return;
        }
        let max = self.room().min(self.config.receive_max).min(limits::RECEIVE_MESSAGES_MAX);
        if max == 0 {
            return;
        }
        self.attempts += 1;
        let attempt = self.attempts;
        self.receive = Some(Pending { attempt, asked_at: self.now, withdrawn: false });
        actions.push(Action::Receive { attempt, max, wait_ms: self.config.wait_ms });
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        let busy = |delivery: &Delivery| {
            !(cfg!(planted_bug = "stop_drops_settlement")
                && matches!(delivery.phase(), Phase::Settling { .. }))
        };
        if matches!(self.mode, Mode::Stopping { .. })
            && self.receive.is_none()
            && !self.deliveries.values().any(busy)
        {
            self.mode = Mode::Stopped;
            actions.push(Action::Stopped);
        }
    }
}
