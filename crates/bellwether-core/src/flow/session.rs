//! One pump's view of the sessions of a queue: so many at once, and a [`Flow`] for each.
//!
//! ```text
//!   Accept ──► Accepted ──► Open ──── a wait brought nothing, another ────► LettingGo
//!                            │        session needs the place, pause, stop      │ its flow has stopped
//!         Renew ──► Renewed  │                                                  ▼
//!           └───────────────►│                                     Close ──► Closing ──► forgotten
//!                            │ RenewRefused, the hold ran out
//!                            ▼
//!                          Lost: its handlers are told, nothing is settled ────────────► forgotten
//! ```
//!
//! What always holds, besides the rules of each flow:
//!
//! 1. Handlers run in at most `sessions` sessions; one more may be held by a pump that is about to
//!    let go of an idle one.
//! 2. A session is held as long as it has work, by renewals, but not for a handler that runs longer
//!    than its maximum.
//! 3. An idle session gives way as soon as another one has messages, and is closed after a wait that
//!    brought none.
//! 4. A session is closed once, when nothing in it is open any more, and not at all if it was lost.
//!
//! The shell answers every action that has an answer exactly once: Accept by Accepted or
//! `AcceptFailed`, Renew by one of its three, Close by Closed or `CloseFailed`, and what a flow asks
//! for as [`Flow`] says.

mod event;
mod hold;

use std::collections::BTreeMap;

pub use self::event::{SessionAction, SessionEvent, SessionFlowConfig};
use self::hold::{Held, Phase};
use super::FlowConfig;
use super::action::{Action, Source, Why};
use super::asking::Asking;
use super::event::Event;
use crate::name::{LockToken, SessionToken};
use crate::time::BootTime;

/// One pump's sessions, from accept to close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFlow {
    config: SessionFlowConfig,
    /// The latest time seen.
    now: BootTime,
    mode: Mode,
    accept: Asking,
    held: BTreeMap<SessionToken, Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Idle,
    Taking,
    Paused,
    Stopping,
    Stopped,
}

impl SessionFlow {
    /// At rest; [`SessionEvent::Start`] sets it going.
    pub fn new(config: SessionFlowConfig) -> Self {
        assert!(config.sessions > 0, "a pump without sessions would never end a message");
        let accept = Asking::new(config.flow.seed);
        let (now, held) = (BootTime(0), BTreeMap::new());
        Self { config, now, mode: Mode::Idle, accept, held }
    }

    /// Tells what happened, and says what to do about it, in this order.
    pub fn step(&mut self, now: BootTime, event: SessionEvent) -> Vec<SessionAction> {
        self.now = self.now.max(now);
        let mut actions = Vec::new();
        self.take_in(event, &mut actions);
        self.keep_time(&mut actions);
        self.let_go_of_what_rests(&mut actions);
        self.held.retain(|_, held| !held.is_over());
        self.ask(&mut actions);
        self.end(&mut actions);
        actions
    }

    /// When to step again with [`SessionEvent::Wake`] if nothing happens before. Always later than
    /// the last step.
    pub fn next_wake(&self) -> Option<BootTime> {
        let held = self.held.values().filter_map(|held| held.next_wake(self.now));
        let accept = self.accept.due().filter(|_| self.wants_more());
        held.chain(accept).min()
    }

    /// How many handlers run, cancelled ones among them.
    pub fn running(&self) -> usize {
        self.held.values().map(|held| held.flow.running()).sum()
    }

    /// How many messages wait, locked, for a handler.
    pub fn waiting(&self) -> usize {
        self.held.values().map(|held| held.flow.waiting()).sum()
    }

    /// How many sessions are held, or were and still have something open.
    pub fn sessions(&self) -> usize {
        self.held.len()
    }

    /// Whether anything about this session is still open.
    pub fn holds(&self, session: &SessionToken) -> bool {
        self.held.contains_key(session)
    }

    /// The session of a delivery about which something is still open.
    pub fn session_of(&self, token: LockToken) -> Option<&SessionToken> {
        self.held.iter().find(|(_, held)| held.flow.knows(token)).map(|(session, _)| session)
    }

    fn take_in(&mut self, event: SessionEvent, actions: &mut Vec<SessionAction>) {
        let now = self.now;
        match event {
            SessionEvent::Start if self.mode == Mode::Idle => self.mode = Mode::Taking,
            SessionEvent::Pause if self.mode == Mode::Taking => {
                self.mode = Mode::Paused;
                self.stop_taking(&Event::Pause, actions);
            }
            SessionEvent::Resume if self.mode == Mode::Paused => {
                self.mode = Mode::Taking;
                self.tell_all(&Event::Resume, actions);
            }
            SessionEvent::Stop if !matches!(self.mode, Mode::Stopping | Mode::Stopped) => {
                self.mode = Mode::Stopping;
                self.stop_taking(&Event::Stop, actions);
            }
            SessionEvent::Start
            | SessionEvent::Pause
            | SessionEvent::Resume
            | SessionEvent::Stop
            | SessionEvent::Wake => {}
            SessionEvent::Accepted { attempt, session } => {
                self.accepted(attempt, session, actions);
            }
            SessionEvent::AcceptFailed { attempt } => {
                if self.accept.failed(now, attempt) {
                    let (source, why) = (Source::Accept, Why::Unknown);
                    actions.push(SessionAction::Report { session: None, source, why });
                }
            }
            SessionEvent::Renewed { session, lock_ms } => {
                if let Some(trust) = self.with(&session, |held| held.renewed(now, lock_ms)) {
                    self.tell(&session, Event::Held { trust }, actions);
                }
            }
            SessionEvent::RenewRefused { session } => {
                if self.with(&session, Held::renew_refused).is_some() {
                    self.lose(&session, Why::Refused, actions);
                }
            }
            SessionEvent::RenewFailed { session } => {
                if self.with(&session, |held| held.renew_failed(now)).is_some() {
                    let (source, why) = (Source::Renew, Why::Unknown);
                    actions.push(SessionAction::Report { session: Some(session), source, why });
                }
            }
            SessionEvent::Lost { session } => self.lose(&session, Why::Refused, actions),
            SessionEvent::Closed { session } => {
                self.with(&session, Held::closed);
            }
            // The hold runs out by itself, and nothing is locked under it.
            SessionEvent::CloseFailed { session } => {
                if self.with(&session, Held::closed).is_some() {
                    let (source, why) = (Source::Close, Why::GivenUp);
                    actions.push(SessionAction::Report { session: Some(session), source, why });
                }
            }
            SessionEvent::In { session, event } => self.tell(&session, event, actions),
        }
    }

    fn with<T>(
        &mut self,
        session: &SessionToken,
        change: impl FnOnce(&mut Held) -> Option<T>,
    ) -> Option<T> {
        self.held.get_mut(session).and_then(change)
    }

    /// Tells a session's flow what happened.
    fn tell(&mut self, session: &SessionToken, event: Event, actions: &mut Vec<SessionAction>) {
        let Some(held) = self.held.get_mut(session) else { return };
        for action in held.flow.step(self.now, event) {
            if action == Action::Stopped {
                let close =
                    held.stopped().then(|| SessionAction::Close { session: session.clone() });
                actions.extend(close);
            } else {
                actions.push(SessionAction::In { session: session.clone(), action });
            }
        }
        held.look(self.now);
    }

    fn tell_all(&mut self, event: &Event, actions: &mut Vec<SessionAction>) {
        let open: Vec<_> = self.held.keys().cloned().collect();
        for session in open {
            self.tell(&session, event.clone(), actions);
        }
    }

    fn stop_taking(&mut self, event: &Event, actions: &mut Vec<SessionAction>) {
        let withdrawn = self.accept.withdraw();
        actions.extend(withdrawn.map(|attempt| SessionAction::WithdrawAccept { attempt }));
        self.tell_all(event, actions);
    }

    fn accepted(
        &mut self,
        attempt: u64,
        session: Option<(SessionToken, u32)>,
        actions: &mut Vec<SessionAction>,
    ) {
        let Some(pending) = self.accept.answered(attempt) else { return };
        let Some((session, lock_ms)) = session else { return self.accept.was_empty(pending) };
        self.accept.brought();
        // The request of a long poll says nothing: the session may have been locked much later.
        let locked_at = if self.config.accept_wait_ms == 0 { pending.asked_at } else { self.now };
        let is_full = self.places() >= self.config.sessions as usize;
        let config = FlowConfig { wait_ms: self.config.idle_ms, ..self.config.flow.clone() };
        let held = Held::new(self.now, locked_at, lock_ms, config);
        self.held.insert(session.clone(), held);
        let idle =
            self.held.iter().filter_map(|(session, held)| Some((held.idle_since()?, session)));
        let longest_idle = idle.min().map(|(_, session)| session.clone());
        if self.mode != Mode::Taking || (is_full && longest_idle.is_none()) {
            return self.let_go(&session, actions);
        }
        if is_full && let Some(idle) = longest_idle {
            self.let_go(&idle, actions);
        }
        self.tell(&session, Event::Start, actions);
    }

    /// What its flow has not begun is given back, and when that has stopped the session is closed.
    fn let_go(&mut self, session: &SessionToken, actions: &mut Vec<SessionAction>) {
        if self.with(session, Held::let_go).is_some() {
            self.tell(session, Event::Stop, actions);
        }
    }

    fn lose(&mut self, session: &SessionToken, why: Why, actions: &mut Vec<SessionAction>) {
        if self.with(session, Held::lose).is_some() {
            let (source, about) = (Source::Renew, Some(session.clone()));
            actions.push(SessionAction::Report { session: about, source, why });
            self.tell(session, Event::HoldLost { why }, actions);
        }
    }

    fn keep_time(&mut self, actions: &mut Vec<SessionAction>) {
        let now = self.now;
        let sessions: Vec<_> = self.held.keys().cloned().collect();
        for session in sessions {
            if self.held[&session].has_run_out(now) {
                self.lose(&session, Why::GivenUp, actions);
            }
            if self.held[&session].flow.next_wake().is_some_and(|at| at <= now) {
                self.tell(&session, Event::Wake, actions);
            }
            if self.with(&session, |held| held.renew(now)).is_some() {
                actions.push(SessionAction::Renew { session });
            }
        }
    }

    /// A pump that does not take keeps no session for itself.
    fn let_go_of_what_rests(&mut self, actions: &mut Vec<SessionAction>) {
        if self.mode == Mode::Paused {
            let rests = |held: &Held| held.phase == Phase::Open && held.flow.is_quiet();
            let resting = self.held.iter().filter(|(_, held)| rests(held));
            let resting: Vec<_> = resting.map(|(session, _)| session.clone()).collect();
            for session in resting {
                self.let_go(&session, actions);
            }
        }
    }

    /// Places that are taken: by sessions that are open, and by those in which something still runs.
    fn places(&self) -> usize {
        self.held.values().filter(|held| held.takes_place()).count()
    }

    /// There is a place, or an idle session that gives way; and at most one more is held than there
    /// are places.
    fn wants_more(&self) -> bool {
        let sessions = self.config.sessions as usize;
        let idle = self.held.values().filter(|held| held.idle_since().is_some()).count();
        let busy = self.places() - idle;
        let gives_way = !cfg!(planted_bug = "idle_session_stays") || self.held.len() < sessions;
        self.mode == Mode::Taking && busy < sessions && self.held.len() <= sessions && gives_way
    }

    fn ask(&mut self, actions: &mut Vec<SessionAction>) {
        if !self.wants_more() {
            // It would bring a session that there is no place for.
            let withdrawn = self.accept.withdraw();
            actions.extend(withdrawn.map(|attempt| SessionAction::WithdrawAccept { attempt }));
        } else if self.accept.due().is_some_and(|due| due <= self.now) {
            let wait_ms = self.config.accept_wait_ms;
            let attempt = self.accept.ask(self.now);
            actions.push(SessionAction::Accept { attempt, wait_ms });
        }
    }

    fn end(&mut self, actions: &mut Vec<SessionAction>) {
        if self.mode == Mode::Stopping && !self.accept.is_open() && self.held.is_empty() {
            self.mode = Mode::Stopped;
            actions.push(SessionAction::Stopped);
        }
    }
}
