//! A world of sessions that answers late, wrongly or not at all.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::chance::Chance;
use bellwether_core::flow::{
    Action, Arrival, Cause, Event, FlowConfig, SessionAction, SessionEvent, SessionFlow,
    SessionFlowConfig, Source, Verdict, Why,
};
use bellwether_core::name::{DeliveryNumber, Incarnation, LockToken, SessionId, SessionToken};
use bellwether_core::time::BootTime;

use crate::story::token;
use crate::world::Dice;

/// What the world knows of one hold.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts to check against, not a state")]
struct Hold {
    name: usize,
    /// When it ends in truth.
    ends: u64,
    lock_ms: u32,
    /// Lost early, which nobody can know: a broker restarted, a link dropped.
    gone: bool,
    /// The pump was told, or said itself, that it is lost.
    lost: bool,
    closed: bool,
    closing: bool,
    renewing: Option<u64>,
    receive: Option<(u64, u32)>,
    running: BTreeMap<LockToken, bool>,
    settling: BTreeSet<LockToken>,
    /// What the pump was given and has not settled for good.
    unsettled: BTreeSet<LockToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Open {
    Accept,
    Receive(SessionToken),
    Renew(SessionToken),
    Close(SessionToken),
    Handler(SessionToken, LockToken),
    Settle(SessionToken, LockToken),
}

#[derive(Debug)]
struct World {
    flow: SessionFlow,
    config: SessionFlowConfig,
    now: u64,
    taking: bool,
    stopped: bool,
    /// Nothing goes wrong any more.
    calm: bool,
    accept: Option<(u64, bool)>,
    holds: BTreeMap<SessionToken, Hold>,
    /// How many messages wait in each session.
    backlog: Vec<u64>,
    numbers: u64,
    sequence: u64,
    coverage: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(dice: &mut Dice) -> Self {
        let flow = FlowConfig {
            concurrency: dice.pick(&[1, 1, 2]),
            prefetch: dice.pick(&[0, 0, 2]),
            renew_max_ms: dice.pick(&[1_000, 300_000]),
            stop_grace_ms: dice.pick(&[0, 500, 30_000]),
            seed: dice.below(u64::MAX),
            ..FlowConfig::default()
        };
        let config = SessionFlowConfig {
            sessions: 1 + dice.below(3) as u32,
            accept_wait_ms: dice.pick(&[0, 1_000, 30_000]),
            idle_ms: dice.pick(&[0, 300, 5_000]),
            flow,
        };
        Self {
            flow: SessionFlow::new(config.clone()),
            config,
            now: 0,
            taking: false,
            stopped: false,
            calm: false,
            accept: None,
            holds: BTreeMap::new(),
            backlog: (0..6).map(|_| dice.below(5)).collect(),
            numbers: 0,
            sequence: 0,
            coverage: BTreeMap::new(),
        }
    }

    fn seen(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    fn step(&mut self, event: SessionEvent) {
        let was_stopped = self.stopped;
        let actions = self.flow.step(BootTime(self.now), event);
        assert!(!was_stopped || actions.is_empty(), "after the end: {actions:?}");
        for action in actions {
            self.perform(action);
        }
        let busy = self.holds.values().filter(|hold| !hold.running.is_empty()).count();
        assert!(busy <= self.config.sessions as usize, "handlers in too many sessions");
        let ours = |hold: &&Hold| !hold.closed && !hold.lost;
        let held = self.holds.values().filter(ours).count();
        assert!(held <= self.config.sessions as usize + 1, "too many sessions held");
        if let Some(wake) = self.flow.next_wake() {
            assert!(wake.0 > self.now, "what is due now was not done");
        }
        if self.taking && self.open().is_empty() {
            assert!(self.flow.next_wake().is_some(), "an idle pump forgot to ask");
        }
    }

    fn perform(&mut self, action: SessionAction) {
        let now = self.now;
        match action {
            SessionAction::Accept { attempt, .. } => {
                assert!(self.taking && self.accept.is_none());
                self.accept = Some((attempt, false));
            }
            SessionAction::WithdrawAccept { attempt } => {
                let accept = self.accept.as_mut().expect("open");
                assert_eq!(*accept, (attempt, false), "withdrawn twice");
                accept.1 = true;
            }
            SessionAction::Renew { session } => {
                let hold = self.holds.get_mut(&session).expect("known");
                assert!(!hold.lost && !hold.closing && !hold.closed);
                assert!(hold.renewing.replace(now).is_none(), "two renewals in flight");
            }
            SessionAction::Close { session } => {
                let hold = self.holds.get_mut(&session).expect("known");
                assert!(!hold.lost && !hold.closing && !hold.closed, "closed twice, or not ours");
                assert!(hold.receive.is_none() && hold.running.is_empty());
                assert!(hold.settling.is_empty(), "closed under a settlement");
                assert!(hold.unsettled.is_empty(), "closed with messages in hand");
                hold.closing = true;
            }
            SessionAction::In { session, action } => self.perform_in(&session, &action),
            SessionAction::Report { session, source, why } => {
                if let Some(session) = session
                    && source == Source::Renew
                    && why != Why::Unknown
                {
                    self.holds.get_mut(&session).expect("known").lost = true;
                    self.seen("hold lost");
                }
            }
            SessionAction::Stopped => {
                assert!(!self.taking && !self.stopped);
                assert!(self.open().is_empty(), "stopped before {:?} ended", self.open());
                assert!(self.holds.values().all(|hold| hold.closed || hold.lost), "forgotten");
                self.stopped = true;
            }
        }
    }

    fn perform_in(&mut self, session: &SessionToken, action: &Action) {
        let now = self.now;
        let hold = self.holds.get_mut(session).expect("known");
        match *action {
            Action::Receive { attempt, max, .. } => {
                assert!(self.taking && !hold.lost && !hold.closing && !hold.closed);
                assert!(now < hold.ends, "asked for messages of a session that is not ours");
                assert!(hold.receive.replace((attempt, max)).is_none(), "two receives in flight");
            }
            Action::Withdraw { attempt } => {
                assert_eq!(hold.receive.map(|(attempt, _)| attempt), Some(attempt));
            }
            Action::Handle { token } => {
                assert!(self.taking && !hold.lost && now < hold.ends, "begun on a lost hold");
                assert!(hold.unsettled.contains(&token));
                assert!(hold.running.insert(token, false).is_none(), "begun twice");
                let max = self.config.flow.concurrency as usize;
                assert!(hold.running.len() <= max, "more handlers in a session than allowed");
                self.seen("handled");
            }
            Action::CancelHandler { token, why } => {
                let told = hold.running.get_mut(&token).expect("running");
                assert!(!std::mem::replace(told, true), "told twice");
                assert!(why != Cause::LockLost || hold.lost, "told of a loss that is none");
            }
            Action::Settle { token, .. } => {
                assert!(!hold.lost && !hold.closing, "settled although the hold was lost");
                assert!(!hold.running.contains_key(&token) && hold.unsettled.contains(&token));
                assert!(hold.settling.insert(token), "settled twice");
            }
            Action::Report { source, token, why } => {
                if let Some(token) = token
                    && why != Why::Unknown
                    && source != Source::Handler
                {
                    hold.unsettled.remove(&token);
                }
            }
            Action::Renew { .. } | Action::Stopped => panic!("not in a session: {action:?}"),
        }
    }

    fn open(&self) -> Vec<Open> {
        let mut open: Vec<_> = self.accept.map(|_| Open::Accept).into_iter().collect();
        for (session, hold) in &self.holds {
            let each = |is_open: bool, what: fn(SessionToken) -> Open| {
                is_open.then(|| what(session.clone()))
            };
            open.extend(each(hold.receive.is_some(), Open::Receive));
            open.extend(each(hold.renewing.is_some(), Open::Renew));
            open.extend(each(hold.closing, Open::Close));
            let running = hold.running.keys();
            open.extend(running.map(|&token| Open::Handler(session.clone(), token)));
            let settling = hold.settling.iter();
            open.extend(settling.map(|&token| Open::Settle(session.clone(), token)));
        }
        open
    }

    fn goes_wrong(&self, dice: &mut Dice, percent: u64) -> bool {
        dice.percent(percent) && !self.calm
    }

    fn answer(&mut self, dice: &mut Dice, open: Open) {
        let event = match open {
            Open::Accept => self.answer_accept(dice),
            Open::Receive(session) => self.answer_receive(dice, session),
            Open::Renew(session) => self.answer_renew(dice, session),
            Open::Close(session) => self.answer_close(dice, session),
            Open::Handler(session, token) => self.answer_handler(dice, session, token),
            Open::Settle(session, token) => self.answer_settle(dice, session, token),
        };
        self.step(event);
    }

    fn answer_accept(&mut self, dice: &mut Dice) -> SessionEvent {
        let (attempt, withdrawn) = self.accept.take().expect("open");
        if self.goes_wrong(dice, 15) {
            return SessionEvent::AcceptFailed { attempt };
        }
        let is_held = |name: usize| {
            let by = |hold: &Hold| {
                hold.name == name && !hold.closed && !hold.gone && self.now < hold.ends
            };
            self.holds.values().any(by)
        };
        let free = |&name: &usize| self.backlog[name] > 0 && !is_held(name);
        let free: Vec<usize> = (0..self.backlog.len()).filter(free).collect();
        if free.is_empty() || (withdrawn && dice.percent(70)) {
            return SessionEvent::Accepted { attempt, session: None };
        }
        let name = dice.pick(&free);
        self.numbers += 1;
        let token = SessionToken {
            session: SessionId::new(&format!("s{name}")).expect("a name"),
            number: DeliveryNumber(self.numbers as u32),
            incarnation: Incarnation(1),
        };
        let lock_ms = dice.pick(&[500, 2_000, 10_000]);
        let ends = self.now + u64::from(lock_ms);
        self.holds.insert(token.clone(), Hold { name, ends, lock_ms, ..Hold::default() });
        self.seen("accepted");
        SessionEvent::Accepted { attempt, session: Some((token, lock_ms)) }
    }

    fn answer_receive(&mut self, dice: &mut Dice, session: SessionToken) -> SessionEvent {
        let fails = self.goes_wrong(dice, 10);
        let hold = self.holds.get_mut(&session).expect("known");
        let (attempt, max) = hold.receive.take().expect("open");
        let failed = Event::ReceiveFailed { attempt };
        if fails {
            return SessionEvent::In { session, event: failed };
        }
        if hold.gone {
            hold.receive = Some((attempt, max));
            hold.lost |= !hold.closing;
            self.step(SessionEvent::Lost { session: session.clone() });
            self.holds.get_mut(&session).expect("known").receive = None;
            return SessionEvent::In { session, event: failed };
        }
        let is_ours = !hold.lost && self.now < hold.ends;
        let count = if is_ours { self.backlog[hold.name].min(max.into()) } else { 0 };
        self.backlog[hold.name] -= count;
        let mut deliveries = Vec::new();
        for _ in 0..count {
            self.sequence += 1;
            let token = token(self.sequence);
            hold.unsettled.insert(token);
            deliveries.push(Arrival { token, lock_ms: hold.lock_ms, deliveries: 1 });
        }
        SessionEvent::In { session, event: Event::Received { attempt, deliveries } }
    }

    fn answer_renew(&mut self, dice: &mut Dice, session: SessionToken) -> SessionEvent {
        let (fails, dies) = (self.goes_wrong(dice, 25), self.goes_wrong(dice, 5));
        let hold = self.holds.get_mut(&session).expect("known");
        let asked_at = hold.renewing.take().expect("open");
        hold.gone |= dies;
        let lock_ms = hold.lock_ms;
        let is_held = asked_at < hold.ends && !hold.closed && !hold.gone;
        if is_held && (!fails || dice.percent(50)) {
            hold.ends = asked_at + u64::from(lock_ms);
        }
        match (fails, is_held) {
            (true, _) => SessionEvent::RenewFailed { session },
            (_, true) => SessionEvent::Renewed { session, lock_ms },
            _ => SessionEvent::RenewRefused { session },
        }
    }

    fn answer_close(&mut self, dice: &mut Dice, session: SessionToken) -> SessionEvent {
        let fails = self.goes_wrong(dice, 20);
        let hold = self.holds.get_mut(&session).expect("known");
        hold.closing = false;
        hold.closed = true;
        self.seen("closed");
        if fails {
            return SessionEvent::CloseFailed { session };
        }
        SessionEvent::Closed { session }
    }

    fn answer_handler(
        &mut self,
        dice: &mut Dice,
        session: SessionToken,
        token: LockToken,
    ) -> SessionEvent {
        let fails = self.goes_wrong(dice, 20);
        let hold = self.holds.get_mut(&session).expect("known");
        hold.running.remove(&token).expect("running");
        if hold.lost {
            hold.unsettled.remove(&token);
        }
        let verdict = Verdict::Complete;
        let done = Event::HandlerDone { token, verdict };
        let event = if fails { Event::HandlerFailed { token } } else { done };
        SessionEvent::In { session, event }
    }

    fn answer_settle(
        &mut self,
        dice: &mut Dice,
        session: SessionToken,
        token: LockToken,
    ) -> SessionEvent {
        let fails = self.goes_wrong(dice, 25);
        let hold = self.holds.get_mut(&session).expect("known");
        hold.settling.remove(&token);
        if fails {
            return SessionEvent::In { session, event: Event::SettleFailed { token } };
        }
        hold.unsettled.remove(&token);
        let is_ours = self.now < hold.ends && !hold.gone;
        let event = if is_ours { Event::Settled { token } } else { Event::SettleRefused { token } };
        SessionEvent::In { session, event }
    }

    fn pass_time(&mut self, dice: &mut Dice) {
        let wake = self.flow.next_wake().map_or(self.now + 50, |wake| wake.0);
        self.now = match dice.below(10) {
            0..=6 => wake.clamp(self.now, self.now + 5_000),
            7 => self.now + dice.below(2_000),
            _ => self.now + dice.below(100),
        };
        self.step(SessionEvent::Wake);
    }

    fn turn(&mut self, dice: &mut Dice) {
        let open = self.open();
        if !open.is_empty() && dice.percent(70) {
            self.now += dice.below(20);
            let open = open[dice.below(open.len() as u64) as usize].clone();
            self.answer(dice, open);
        } else {
            self.pass_time(dice);
        }
    }

    fn run(&mut self, dice: &mut Dice) {
        self.taking = true;
        self.step(SessionEvent::Start);
        for _ in 0..300 {
            match dice.below(30) {
                0 => {
                    self.taking = false;
                    self.step(SessionEvent::Pause);
                }
                1..=3 => {
                    self.taking = true;
                    self.step(SessionEvent::Resume);
                }
                4 | 5 => {
                    let name = dice.below(self.backlog.len() as u64) as usize;
                    self.backlog[name] += 1;
                }
                _ => self.turn(dice),
            }
        }
    }

    /// When nothing goes wrong any more every session has its turn.
    fn calm_down(&mut self, dice: &mut Dice) {
        self.calm = true;
        self.taking = true;
        self.step(SessionEvent::Resume);
        for _ in 0..5_000 {
            if self.backlog.iter().all(|&left| left == 0) {
                return;
            }
            self.turn(dice);
        }
        panic!("somebody waits for ever: {:?}", self.backlog);
    }

    fn stop(&mut self, dice: &mut Dice) {
        self.taking = false;
        self.step(SessionEvent::Stop);
        for _ in 0..10_000 {
            if self.stopped {
                return self.step(SessionEvent::Wake);
            }
            assert!(!self.open().is_empty() || self.flow.next_wake().is_some(), "stuck");
            self.turn(dice);
        }
        panic!("it never stopped");
    }
}

#[test]
fn in_two_thousand_worlds_of_sessions_every_rule_holds_and_everybody_has_a_turn() {
    let mut coverage: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..2_000 {
        let world = std::panic::catch_unwind(|| {
            let mut dice = Dice(Chance::new(seed));
            let mut world = World::new(&mut dice);
            world.run(&mut dice);
            if dice.percent(50) {
                world.calm_down(&mut dice);
            }
            world.stop(&mut dice);
            world
        });
        let Ok(world) = world else { panic!("seed {seed}") };
        for (what, count) in world.coverage {
            *coverage.entry(what).or_default() += count;
        }
    }
    for what in ["accepted", "handled", "closed", "hold lost"] {
        assert!(coverage.get(what).is_some_and(|&count| count > 1_000), "rare: {coverage:?}");
    }
}
