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
//!
//! A flow may belong to the hold of a session (`flow/session.rs` drives it). Then its
//! locks last as long as the hold and are not renewed one by one, it asks without waiting as long as
//! messages come, and a wait that brings nothing is its end. And it keeps their order: a message keeps
//! its handler's place until it is settled, and of one that comes back nothing behind it is begun or
//! taken before it is back.

mod action;
mod asking;
mod config;
mod delivery;
mod event;
mod session;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

pub use self::action::{Action, Cause, Source, Why};
use self::asking::Asking;
pub use self::config::{FlowConfig, Retry};
use self::delivery::{Delivery, Phase};
pub use self::event::{Arrival, Event, Trust, Verdict};
pub use self::session::{SessionAction, SessionEvent, SessionFlow, SessionFlowConfig};
use crate::command::Disposition;
use crate::limits;
use crate::name::LockToken;
use crate::time::BootTime;

/// One pump's deliveries, from receive to settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    config: FlowConfig,
    /// The latest time seen; a clock read before another's step must not turn time back.
    now: BootTime,
    mode: Mode,
    /// How long the session it is for is held; none for a queue without sessions.
    hold: Option<Trust>,
    /// The last receive brought nothing: a session's next one waits.
    patient: bool,
    receive: Asking,
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

impl Flow {
    /// A flow at rest; [`Event::Start`] sets it going.
    pub fn new(config: FlowConfig) -> Self {
        assert!(config.concurrency > 0, "a pump without handlers would never end a message");
        assert!(config.receive_max > 0, "a receive of no messages would be asked for ever");
        let receive = Asking::new(config.seed);
        Self {
            config,
            now: BootTime(0),
            mode: Mode::Idle,
            hold: None,
            patient: false,
            receive,
            deliveries: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// The same for the messages of one session, held as long as this.
    pub(super) fn held(config: FlowConfig, hold: Trust) -> Self {
        Self { hold: Some(hold), ..Self::new(config) }
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
        let receive = self.receive.due().filter(|_| self.takes() && self.room() > 0);
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

    /// Has nothing in hand and knows that its session has nothing ready.
    pub(super) fn is_idle(&self) -> bool {
        self.deliveries.is_empty() && self.patient && self.receive.is_open()
    }

    /// Has nothing in hand and asks for nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.deliveries.is_empty() && !self.receive.is_open()
    }

    /// Whether anything is in hand.
    pub(super) fn is_busy(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Until when its handlers may have their locks kept; none if none runs that may go on.
    pub(super) fn renew_until(&self) -> Option<BootTime> {
        let running = self.deliveries.values().filter(|delivery| delivery.is_untold());
        running.map(Delivery::renew_until).min()
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
                self.keep_order(actions);
            }
            Event::HandlerFailed { token } => {
                let disposition = self.abandon(token);
                self.with(token, |d| d.handler_failed(now, token, disposition, actions));
                self.keep_order(actions);
            }
            Event::Renewed { token, lock_ms } => self.with(token, |d| d.renewed(now, lock_ms)),
            Event::RenewRefused { token } => {
                self.with(token, |d| d.renew_refused(token, actions));
                self.waiting.retain(|&waiting| waiting != token);
            }
            Event::RenewFailed { token } => {
                self.with(token, |d| d.renew_failed(now, token, actions));
            }
            Event::Held { trust } => self.held_until(trust),
            Event::HoldLost { why } => self.hold_lost(why, actions),
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

    /// What is locked under a hold is locked as long as it.
    fn held_until(&mut self, trust: Trust) {
        self.hold = Some(trust);
        for delivery in self.deliveries.values_mut() {
            delivery.held_until(trust);
        }
    }

    fn hold_lost(&mut self, why: Why, actions: &mut Vec<Action>) {
        if self.mode == Mode::Stopped || cfg!(planted_bug = "lost_hold_goes_on") {
            return;
        }
        self.mode = Mode::Stopping { grace_until: self.now };
        self.withdraw(actions);
        self.waiting.clear();
        self.deliveries.retain(|&token, delivery| {
            delivery.hold_lost(token, why, actions);
            !delivery.is_over()
        });
    }

    fn received(&mut self, attempt: u64, arrivals: Vec<Arrival>, actions: &mut Vec<Action>) {
        let Some(pending) = self.receive.answered(attempt) else { return };
        if !arrivals.is_empty() {
            self.receive.brought();
            self.patient = false;
        } else if self.hold.is_none() || self.patient {
            self.receive.was_empty(pending);
            if self.hold.is_some() && !pending.withdrawn && !self.is_busy() && self.takes() {
                self.mode = Mode::Stopping { grace_until: self.now };
            }
        } else {
            self.patient = true;
        }
        for arrival in arrivals {
            if let Entry::Vacant(place) = self.deliveries.entry(arrival.token) {
                let asked_at = pending.asked_at;
                let mut delivery = Delivery::new(self.now, asked_at, &arrival, &self.config);
                if let Some(hold) = self.hold {
                    delivery.held_until(hold);
                }
                place.insert(delivery);
                self.waiting.push_back(arrival.token);
            }
        }
        // Taken before the wish to stop taking was heard: back, uncounted, for others to have.
        if !self.takes() {
            self.release_waiting(actions);
        }
    }

    fn receive_failed(&mut self, attempt: u64, actions: &mut Vec<Action>) {
        if self.receive.failed(self.now, attempt) {
            let (source, why) = (Source::Receive, Why::Unknown);
            actions.push(Action::Report { source, token: None, why });
        }
    }

    fn disposition(&self, token: LockToken, verdict: Verdict) -> Option<Disposition> {
        match verdict {
            Verdict::Complete => self.config.auto_settle.then_some(Disposition::Complete),
            Verdict::Retry { after_ms: None } => Some(self.abandon(token)),
            Verdict::Retry { after_ms: Some(ms) } => {
                Some(Disposition::Abandon { delay_ms: (ms > 0).then_some(ms) })
            }
            Verdict::DeadLetter => Some(Disposition::DeadLetter),
            Verdict::Defer => Some(Disposition::Defer),
            Verdict::Release => Some(Disposition::Release),
            Verdict::SettledByHandler => None,
        }
    }

    fn abandon(&self, token: LockToken) -> Disposition {
        let count = self.deliveries.get(&token).map_or(0, Delivery::count);
        let ms = self.config.retry.delay_ms(count, self.config.seed, token);
        Disposition::Abandon { delay_ms: (ms > 0).then_some(ms) }
    }

    fn takes(&self) -> bool {
        if self.hold.is_some_and(|hold| hold.trusted_until <= self.now) {
            return false;
        }
        #[cfg(planted_bug = "pause_keeps_taking")]
        return matches!(self.mode, Mode::Taking | Mode::Paused);
        #[cfg(not(planted_bug = "pause_keeps_taking"))]
        return self.mode == Mode::Taking;
    }

    /// Others shall have what no handler has begun.
    fn give_back(&mut self, actions: &mut Vec<Action>) {
        self.withdraw(actions);
        self.release_waiting(actions);
    }

    fn withdraw(&mut self, actions: &mut Vec<Action>) {
        actions.extend(self.receive.withdraw().map(|attempt| Action::Withdraw { attempt }));
    }

    /// What stands behind a message of its session that comes back goes back as well.
    fn keep_order(&mut self, actions: &mut Vec<Action>) {
        if self.hold.is_some() && self.is_coming_back() {
            self.release_waiting(actions);
        }
    }

    fn is_coming_back(&self) -> bool {
        self.deliveries.values().any(Delivery::is_coming_back)
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
        // In a session the next one waits until the one before it is settled.
        let begun = match self.hold {
            Some(_) => self.deliveries.len() - self.waiting.len(),
            None => self.running(),
        };
        let free = (self.config.concurrency as usize).saturating_sub(begun);
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
        if self.hold.is_some() && !cfg!(planted_bug = "session_out_of_order") {
            let places = if self.is_coming_back() { 0 } else { places };
            return places.saturating_sub(self.deliveries.len()) as u32;
        }
        let unsettled = places.saturating_sub(self.running() + self.waiting.len());
        let known = (places + concurrency as usize).saturating_sub(self.deliveries.len());
        unsettled.min(known) as u32
    }

    fn ask(&mut self, actions: &mut Vec<Action>) {
        if !self.takes() || self.receive.due().is_none_or(|due| self.now < due) {
            return;
        }
        let max = self.room().min(self.config.receive_max).min(limits::RECEIVE_MESSAGES_MAX);
        if max == 0 {
            return;
        }
        // That a session has nothing is worth knowing at once: others may have.
        let waits = self.hold.is_none() || self.patient;
        let wait_ms = if waits { self.config.wait_ms } else { 0 };
        let attempt = self.receive.ask(self.now);
        actions.push(Action::Receive { attempt, max, wait_ms });
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        let busy = |delivery: &Delivery| {
            !(cfg!(planted_bug = "stop_drops_settlement")
                && matches!(delivery.phase(), Phase::Settling { .. }))
        };
        if matches!(self.mode, Mode::Stopping { .. })
            && !self.receive.is_open()
            && !self.deliveries.values().any(busy)
        {
            self.mode = Mode::Stopped;
            actions.push(Action::Stopped);
        }
    }
}
