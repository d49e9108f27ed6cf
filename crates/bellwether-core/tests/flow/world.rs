//! A world that answers late, wrongly or not at all.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::chance::Chance;
use bellwether_core::command::Disposition;
use bellwether_core::flow::{
    Action, Arrival, Cause, Event, Flow, FlowConfig, Source, Verdict, Why,
};
use bellwether_core::name::LockToken;
use bellwether_core::time::BootTime;

use crate::story::token;

/// Chance, with the ways a world rolls it.
pub(crate) struct Dice(pub(crate) Chance);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// What the world knows of one delivery.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts to check against, not a state")]
struct Known {
    /// When the lock ends in truth.
    lock_ends: u64,
    /// When it is over by everything the pump was told.
    heard_ends: u64,
    lock_ms: u32,
    handled: bool,
    running: bool,
    told: bool,
    /// The pump was told, or said itself, that the lock is lost.
    lost: bool,
    /// Gone from the engine's side.
    gone: bool,
    /// What the handler asked for; the flow owes it.
    owed: bool,
    settlement: Option<Disposition>,
    /// The settlement may be sent (again).
    may_settle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Receive,
    Handler(LockToken),
    Renew(LockToken),
    Settle(LockToken),
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts to check against, not a state")]
struct World {
    flow: Flow,
    config: FlowConfig,
    now: u64,
    taking: bool,
    stopping: bool,
    stopped: bool,
    receive: Option<(u64, u64, u32)>,
    renewing: BTreeMap<LockToken, u64>,
    settling: BTreeSet<LockToken>,
    known: BTreeMap<LockToken, Known>,
    sequence: u64,
    coverage: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(dice: &mut Dice) -> Self {
        let config = FlowConfig {
            concurrency: 1 + dice.below(4) as u32,
            prefetch: dice.pick(&[0, 0, 1, 3]),
            receive_max: 1 + dice.below(5) as u32,
            wait_ms: dice.pick(&[0, 1_000, 30_000]),
            renew_max_ms: dice.pick(&[0, 1_000, 300_000]),
            auto_settle: dice.percent(80),
            stop_grace_ms: dice.pick(&[0, 500, 30_000]),
            seed: dice.below(u64::MAX),
            ..FlowConfig::default()
        };
        Self {
            flow: Flow::new(config.clone()),
            config,
            now: 0,
            taking: false,
            stopping: false,
            stopped: false,
            receive: None,
            renewing: BTreeMap::new(),
            settling: BTreeSet::new(),
            known: BTreeMap::new(),
            sequence: 0,
            coverage: BTreeMap::new(),
        }
    }

    fn running(&self) -> usize {
        self.known.values().filter(|known| known.running).count()
    }

    fn seen(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    fn step(&mut self, event: Event) {
        let was_stopped = self.stopped;
        let actions = self.flow.step(BootTime(self.now), event);
        assert!(!was_stopped || actions.is_empty(), "after the end: {actions:?}");
        for action in &actions {
            self.perform(action);
        }
        assert!(self.running() <= self.config.concurrency as usize, "more handlers than allowed");
        assert_eq!(self.running(), self.flow.running());
        if let Some(wake) = self.flow.next_wake() {
            assert!(wake.0 > self.now, "what is due now was not done");
        }
        let idle = self.running() == 0 && self.settling.is_empty() && self.renewing.is_empty();
        if self.taking && idle && self.receive.is_none() {
            assert!(self.flow.next_wake().is_some(), "an idle pump forgot to ask");
        }
    }

    fn perform(&mut self, action: &Action) {
        let now = self.now;
        match *action {
            Action::Receive { attempt, max, .. } => {
                assert!(self.taking, "taken while not taking");
                assert!(self.receive.is_none(), "two receives in flight");
                let places = (self.config.concurrency + self.config.prefetch) as usize;
                assert!(
                    self.running() + self.flow.waiting() + max as usize <= places,
                    "more taken than there are places"
                );
                assert!(max > 0 && max <= self.config.receive_max);
                self.receive = Some((attempt, now, max));
            }
            Action::Withdraw { attempt } => {
                assert!(!self.taking);
                assert_eq!(self.receive.map(|(attempt, ..)| attempt), Some(attempt));
            }
            Action::Handle { token } => {
                assert!(self.taking, "begun while not taking");
                let known = self.known.get_mut(&token).expect("known");
                assert!(!known.handled && !known.lost && known.settlement.is_none());
                assert!(now < known.lock_ends, "begun on a lock that has run out");
                known.handled = true;
                known.running = true;
            }
            Action::CancelHandler { token, why } => {
                let known = self.known.get_mut(&token).expect("known");
                assert!(known.running && !known.told, "told twice, or nobody");
                known.told = true;
                known.lost |= why == Cause::LockLost;
                assert!(why == Cause::LockLost || self.stopping);
                self.seen("handler cancelled");
            }
            Action::Renew { token } => {
                let known = &self.known[&token];
                assert!(!known.lost && known.settlement.is_none());
                assert!(known.running || !known.handled, "renewed after its handler ended");
                assert!(self.renewing.insert(token, now).is_none(), "two renewals in flight");
            }
            Action::Settle { token, disposition } => self.settle(token, disposition),
            Action::Report { source, token, why } => {
                if let Some(known) = token.and_then(|token| self.known.get_mut(&token)) {
                    known.lost |= source == Source::Renew && why != Why::Unknown;
                    known.lost |= source == Source::Settle && why == Why::GivenUp;
                }
                if why == Why::GivenUp {
                    self.seen("given up");
                }
            }
            Action::Stopped => {
                assert!(self.stopping && !self.stopped);
                let open = self.open();
                assert!(open.is_empty(), "stopped before {open:?} ended");
                for (token, known) in &self.known {
                    let settled = known.settlement.is_some() && !known.may_settle;
                    assert!(known.lost || settled || !known.owed, "forgotten: {token:?} {known:?}");
                }
                self.stopped = true;
            }
        }
    }

    fn settle(&mut self, token: LockToken, disposition: Disposition) {
        let known = self.known.get_mut(&token).expect("known");
        assert!(!known.lost, "settled although the lock was lost");
        assert!(!known.running, "settled while its handler runs");
        assert!(self.now < known.heard_ends, "settled after the lock's end");
        assert!(known.may_settle, "settled twice");
        assert!(known.handled || disposition == Disposition::Release);
        assert!(known.settlement.is_none_or(|first| first == disposition), "another settlement");
        known.settlement = Some(disposition);
        known.may_settle = false;
        assert!(self.settling.insert(token));
    }

    fn open(&self) -> Vec<Open> {
        let handlers = self.known.iter().filter(|(_, known)| known.running);
        self.receive
            .map(|_| Open::Receive)
            .into_iter()
            .chain(handlers.map(|(&token, _)| Open::Handler(token)))
            .chain(self.renewing.keys().map(|&token| Open::Renew(token)))
            .chain(self.settling.iter().map(|&token| Open::Settle(token)))
            .collect()
    }

    fn answer(&mut self, dice: &mut Dice, open: Open) {
        let event = match open {
            Open::Receive => self.answer_receive(dice),
            Open::Handler(token) => self.answer_handler(dice, token),
            Open::Renew(token) => self.answer_renew(dice, token),
            Open::Settle(token) => self.answer_settle(dice, token),
        };
        self.step(event);
    }

    fn answer_receive(&mut self, dice: &mut Dice) -> Event {
        let (attempt, asked_at, max) = self.receive.take().expect("open");
        if dice.percent(15) {
            return Event::ReceiveFailed { attempt };
        }
        let lock_ms = dice.pick(&[100, 500, 2_000, 10_000]);
        let count = dice.below(u64::from(max) + 1);
        let deliveries = (0..count).map(|_| {
            self.sequence += 1;
            // A long poll's answer is assumed to be under way for a fifth of the lock at most.
            let way_ms = match self.config.wait_ms {
                0 => self.now - asked_at,
                _ => (self.now - asked_at).min(u64::from(lock_ms) / 5),
            };
            let locked_at = self.now - dice.below(way_ms + 1);
            let known = Known {
                lock_ends: locked_at + u64::from(lock_ms),
                heard_ends: self.now + u64::from(lock_ms),
                lock_ms,
                handled: false,
                running: false,
                told: false,
                lost: false,
                gone: false,
                owed: true,
                settlement: None,
                may_settle: true,
            };
            self.known.insert(token(self.sequence), known);
            Arrival { token: token(self.sequence), lock_ms, deliveries: 1 }
        });
        let deliveries = deliveries.collect();
        Event::Received { attempt, deliveries }
    }

    fn answer_handler(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        let known = self.known.get_mut(&token).expect("known");
        known.running = false;
        if dice.percent(20) {
            return Event::HandlerFailed { token };
        }
        let verdict = dice.pick(&[
            Verdict::Complete,
            Verdict::Complete,
            Verdict::Retry { after_ms: None },
            Verdict::DeadLetter,
            Verdict::Defer,
            Verdict::Release,
            Verdict::SettledByHandler,
        ]);
        if verdict == Verdict::SettledByHandler
            || (verdict == Verdict::Complete && !self.config.auto_settle)
        {
            known.owed = false;
            known.may_settle = false;
        }
        Event::HandlerDone { token, verdict }
    }

    fn answer_renew(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        let asked_at = self.renewing.remove(&token).expect("open");
        let known = self.known.get_mut(&token).expect("known");
        let done_at = asked_at + dice.below(self.now - asked_at + 1);
        let lock_ms = known.lock_ms;
        // Locks are also lost early: a broker restarted, a link dropped.
        known.gone |= dice.percent(5);
        let held = !known.gone && done_at < known.lock_ends;
        let unknown = dice.percent(25);
        if held && (!unknown || dice.percent(50)) {
            known.lock_ends = done_at + u64::from(lock_ms);
        }
        if unknown {
            return Event::RenewFailed { token };
        }
        if held {
            known.heard_ends = self.now + u64::from(lock_ms);
            return Event::Renewed { token, lock_ms };
        }
        // A settlement already on its way is not called back.
        known.lost = true;
        self.seen("renewal refused");
        Event::RenewRefused { token }
    }

    fn answer_settle(&mut self, dice: &mut Dice, token: LockToken) -> Event {
        self.settling.remove(&token);
        let known = self.known.get_mut(&token).expect("known");
        if dice.percent(25) {
            known.may_settle = true;
            self.seen("settlement unknown");
            return Event::SettleFailed { token };
        }
        if known.gone || self.now >= known.lock_ends {
            return Event::SettleRefused { token };
        }
        known.gone = true;
        Event::Settled { token }
    }

    fn pass_time(&mut self, dice: &mut Dice) {
        let wake = self.flow.next_wake().map_or(self.now, |wake| wake.0);
        self.now = match dice.below(10) {
            0..=5 => wake.clamp(self.now, self.now + 5_000),
            6 => wake.max(self.now) + dice.below(300),
            7 => self.now + dice.below(4_000),
            _ => self.now + dice.below(100),
        };
        self.step(Event::Wake);
    }

    fn disturb(&mut self, dice: &mut Dice) {
        let stray = token(self.sequence + 1_000);
        match dice.below(6) {
            0 | 1 => {
                self.taking = false;
                self.step(Event::Pause);
            }
            2..=4 => {
                self.taking = true;
                self.step(Event::Resume);
            }
            _ => {
                let before = self.open();
                self.step(Event::Settled { token: stray });
                self.step(Event::HandlerFailed { token: stray });
                self.step(Event::RenewRefused { token: stray });
                self.step(Event::ReceiveFailed { attempt: u64::MAX });
                assert!(before.iter().all(|open| self.open().contains(open)));
            }
        }
    }

    fn run(&mut self, dice: &mut Dice, events: u64) {
        self.taking = true;
        self.step(Event::Start);
        for _ in 0..events {
            let open = self.open();
            match dice.below(20) {
                0 => self.disturb(dice),
                1..=13 if !open.is_empty() => {
                    self.now += dice.below(20);
                    let open = dice.pick(&open);
                    self.answer(dice, open);
                }
                _ => self.pass_time(dice),
            }
        }
    }

    fn stop(&mut self, dice: &mut Dice) {
        self.taking = false;
        self.stopping = true;
        self.step(Event::Stop);
        for _ in 0..10_000 {
            if self.stopped {
                self.step(Event::Wake);
                return;
            }
            let open = self.open();
            if !open.is_empty() && dice.percent(60) {
                let open = dice.pick(&open);
                self.answer(dice, open);
            } else {
                assert!(!open.is_empty() || self.flow.next_wake().is_some(), "stuck");
                self.pass_time(dice);
            }
        }
        panic!("it never stopped");
    }
}

#[test]
fn in_two_thousand_worlds_every_rule_holds_and_every_stop_ends() {
    let mut coverage: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..2_000 {
        let world = std::panic::catch_unwind(|| {
            let mut dice = Dice(Chance::new(seed));
            let mut world = World::new(&mut dice);
            let events = 300 - dice.pick(&[0, 0, 200]);
            world.run(&mut dice, events);
            world.stop(&mut dice);
            world
        });
        let Ok(world) = world else { panic!("seed {seed}") };
        for (what, count) in world.coverage {
            *coverage.entry(what).or_default() += count;
        }
        *coverage.entry("handled").or_default() +=
            world.known.values().filter(|known| known.handled).count() as u64;
        *coverage.entry("given back").or_default() +=
            world.known.values().filter(|known| !known.handled).count() as u64;
    }
    for what in [
        "handled",
        "given back",
        "handler cancelled",
        "renewal refused",
        "settlement unknown",
        "given up",
    ] {
        assert!(coverage.get(what).is_some_and(|&count| count > 1_000), "rare: {coverage:?}");
    }
}
