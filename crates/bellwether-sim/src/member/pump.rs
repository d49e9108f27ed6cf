//! A pump over one queue: performs what a flow says, and runs its handlers.

use std::collections::{BTreeMap, BTreeSet};

use bellwether::engine::Reply;
use bellwether_core::command::{
    Command, Disposition, NewContent, Receive, ReceiveMode, Settlement,
};
use bellwether_core::error::Refusal;
use bellwether_core::few::Few;
use bellwether_core::flow::{
    Action, Arrival, Event as FlowEvent, Flow, FlowConfig, Retry, Source, Verdict, Why,
};
use bellwether_core::message::{MessageView, State};
use bellwether_core::name::{LockToken, QueuePath, SequenceNumber};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::boundary::queue_name;
use crate::bus::Bus;

#[derive(Debug)]
pub(super) struct Pump {
    index: usize,
    from: QueuePath,
    lock_ms: u64,
    pub(super) flow: Flow,
    /// The receive in flight.
    receive: Option<(u64, u64)>,
    /// Requests of settlements that were not answered.
    settling: BTreeMap<LockToken, u64>,
    running: BTreeSet<LockToken>,
    /// Deliveries whose body could not be read: their handlers fail.
    unreadable: BTreeSet<LockToken>,
    /// Deliveries that were deferred, if that succeeds.
    deferring: BTreeSet<LockToken>,
    deferred: Vec<SequenceNumber>,
    /// Tokens to be shown again on purpose.
    old_tokens: Vec<LockToken>,
    pub(super) is_stopped: bool,
}

impl Pump {
    pub(super) fn new(shell: &mut Shell, bus: &Bus, index: usize, queue: u8) -> Self {
        let lock_ms = bus.plan.queues[usize::from(queue)].settings.lock_ms.into();
        let dice = &mut shell.dice;
        let config = FlowConfig {
            concurrency: dice.between(1, 4) as u32,
            prefetch: dice.pick(&[0, 0, 2, 8]),
            receive_max: dice.pick(&[1, 4, 32]),
            wait_ms: dice.pick(&[0, 1_000, 20_000, 60_000]),
            renew_max_ms: dice.pick(&[0, lock_ms, 10 * lock_ms]),
            auto_settle: true,
            retry: Retry {
                base_ms: dice.pick(&[0, 100, 1_000]),
                max_ms: 8_000,
                ..Retry::default()
            },
            stop_grace_ms: 2_000,
            seed: dice.bits(),
        };
        Self {
            index,
            from: QueuePath::main(queue_name(queue)),
            lock_ms,
            flow: Flow::new(config),
            receive: None,
            settling: BTreeMap::new(),
            running: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            deferring: BTreeSet::new(),
            deferred: Vec::new(),
            old_tokens: Vec::new(),
            is_stopped: false,
        }
    }

    pub(super) fn start(&mut self, shell: &mut Shell, bus: &mut Bus) {
        self.step(shell, bus, FlowEvent::Start);
        let ms = shell.dice.around(15_000);
        shell.after(ms, Timer::PumpMood(self.index));
    }

    pub(super) fn wake(&mut self, shell: &mut Shell, bus: &mut Bus) {
        if self.flow.next_wake().is_some_and(|at| at <= shell.now) {
            self.step(shell, bus, FlowEvent::Wake);
        }
    }

    fn step(&mut self, shell: &mut Shell, bus: &mut Bus, event: FlowEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.flow.step(shell.now, event) {
                self.perform(shell, bus, action, &mut events);
            }
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "an action is performed once")]
    fn perform(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        action: Action,
        events: &mut Vec<FlowEvent>,
    ) {
        match action {
            Action::Receive { attempt, max, wait_ms } => {
                let command = Command::Receive(Receive {
                    from: self.from.clone(),
                    session: None,
                    max,
                    mode: ReceiveMode::PeekLock,
                    wait_ms,
                    lock_ms: None,
                });
                let who = Who::Receive { pump: self.index, attempt };
                let patience = Patience { resend_ms: wait_ms + 1_500, give_up_ms: wait_ms + 4_000 };
                let tag = shell.ask(bus, who, command, Vec::new(), patience);
                self.receive = Some((attempt, tag));
            }
            Action::Withdraw { attempt } => {
                if let Some((_, tag)) = self.receive.take_if(|(of, _)| *of == attempt) {
                    shell.withdraw(bus, tag);
                }
                events.push(FlowEvent::Received { attempt, deliveries: Vec::new() });
            }
            Action::Handle { token } => {
                self.running.insert(token);
                let usual_ms = if bus.healed { 20 } else { (self.lock_ms / 4).max(1) };
                let ms = shell.dice.around(usual_ms);
                shell.after(ms, Timer::HandlerEnds(self.index, token));
            }
            Action::CancelHandler { token, .. } => {
                let ms = shell.dice.below(200);
                shell.after(ms, Timer::HandlerEnds(self.index, token));
            }
            Action::Renew { token } => {
                let command = Command::RenewLocks {
                    from: self.from.clone(),
                    tokens: vec![token],
                    lock_ms: None,
                };
                let who = Who::RenewLock { pump: self.index, token };
                let patience =
                    Patience { resend_ms: self.lock_ms / 4, give_up_ms: self.lock_ms / 2 };
                shell.ask_unnumbered(bus, who, command, patience);
            }
            Action::Settle { token, disposition } => {
                self.settle(shell, bus, token, disposition);
            }
            Action::Report { source: Source::Settle, token: Some(token), why } => {
                if matches!(why, Why::GivenUp | Why::Refused) {
                    if let Some(tag) = self.settling.remove(&token) {
                        shell.forget(tag);
                    }
                    self.deferring.remove(&token);
                }
            }
            Action::Report { .. } => {}
            Action::Stopped => self.is_stopped = true,
        }
    }

    fn settle(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        token: LockToken,
        disposition: Disposition,
    ) {
        let give_up_ms = shell.dice.between(200, 2_000);
        let patience = Patience { resend_ms: give_up_ms / 2, give_up_ms };
        if let Some(tag) = self.settling.get(&token).copied() {
            return shell.ask_again(bus, tag, patience);
        }
        if disposition == Disposition::Defer {
            self.deferring.insert(token);
        }
        let mut contents = Vec::new();
        if disposition != Disposition::Complete && shell.dice.percent(30) {
            contents.push(Bytes::from(vec![b'o'; shell.dice.between(1, 300) as usize]));
        }
        let overlay = contents.first().map(|o| NewContent { index: 0, bytes: o.len() as u32 });
        let command = Command::Settle {
            from: self.from.clone(),
            settlements: Few::One(Settlement { token, disposition, overlay }),
        };
        let who = Who::Settle { pump: self.index, token };
        let tag = shell.ask(bus, who, command, contents, patience);
        self.settling.insert(token, tag);
        if self.old_tokens.len() < 16 {
            self.old_tokens.push(token);
        }
    }

    pub(super) fn hear(&mut self, shell: &mut Shell, bus: &mut Bus, who: Who, heard: &Heard) {
        let event = match (who, heard) {
            (Who::Receive { attempt, .. }, heard) => {
                self.receive.take_if(|(of, _)| *of == attempt);
                match heard {
                    Heard::Yes(reply) => {
                        let Outcome::Received(views) = &reply.outcome else { return };
                        let deliveries = views.iter().filter_map(arrival).collect();
                        self.unreadable.extend(unreadable(reply));
                        FlowEvent::Received { attempt, deliveries }
                    }
                    _ => FlowEvent::ReceiveFailed { attempt },
                }
            }
            (Who::RenewLock { token, .. }, Heard::Yes(reply)) => match &reply.outcome {
                Outcome::Renewed { lock_ms, refused } if refused.is_empty() => {
                    FlowEvent::Renewed { token, lock_ms: *lock_ms }
                }
                _ => FlowEvent::RenewRefused { token },
            },
            (Who::RenewLock { token, .. }, Heard::No(Refusal::LockLost(_))) => {
                FlowEvent::RenewRefused { token }
            }
            (Who::RenewLock { token, .. }, _) => FlowEvent::RenewFailed { token },
            (Who::Settle { token, .. }, Heard::Yes(reply)) => {
                self.settling.remove(&token);
                let deferred = self.deferring.remove(&token);
                match &reply.outcome {
                    Outcome::Settled { refused } if refused.is_empty() => {
                        if deferred {
                            self.deferred.push(token.sequence);
                            let ms = shell.dice.around(2_000);
                            shell.after(ms, Timer::Deferred(self.index));
                        }
                        FlowEvent::Settled { token }
                    }
                    _ => FlowEvent::SettleRefused { token },
                }
            }
            (Who::Settle { token, .. }, Heard::No(refusal)) => {
                // The request is over; what may pass is asked again as a new one.
                self.settling.remove(&token);
                if refusal.retry() {
                    FlowEvent::SettleFailed { token }
                } else {
                    FlowEvent::SettleRefused { token }
                }
            }
            (Who::Settle { token, .. }, Heard::Unknown) => FlowEvent::SettleFailed { token },
            (Who::FetchDeferred { .. }, heard) => return self.fetched(shell, bus, heard),
            _ => return,
        };
        self.step(shell, bus, event);
    }

    pub(super) fn handler_ends(&mut self, shell: &mut Shell, bus: &mut Bus, token: LockToken) {
        if !self.running.remove(&token) {
            return;
        }
        if self.unreadable.remove(&token) {
            return self.step(shell, bus, FlowEvent::HandlerFailed { token });
        }
        let chance = if bus.healed { 0 } else { shell.dice.below(100) };
        let verdict = match chance {
            0..70 => Verdict::Complete,
            70..76 => Verdict::Retry { after_ms: None },
            76..80 => Verdict::Retry { after_ms: Some(shell.dice.below(3_000)) },
            80..83 => Verdict::DeadLetter,
            83..87 => Verdict::Defer,
            87..90 => Verdict::Release,
            90..92 => Verdict::SettledByHandler,
            _ => return self.step(shell, bus, FlowEvent::HandlerFailed { token }),
        };
        self.step(shell, bus, FlowEvent::HandlerDone { token, verdict });
    }

    /// What was set aside is asked for by number.
    pub(super) fn fetch_deferred(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let Some(sequence) = self.deferred.pop() else { return };
        let command = Command::ReceiveDeferred {
            from: self.from.clone(),
            session: None,
            sequences: vec![sequence],
            mode: ReceiveMode::PeekLock,
        };
        let patience = Patience { resend_ms: 700, give_up_ms: 2_000 };
        let who = Who::FetchDeferred { pump: self.index };
        shell.ask(bus, who, command, Vec::new(), patience);
    }

    fn fetched(&mut self, shell: &mut Shell, bus: &mut Bus, heard: &Heard) {
        let Heard::Yes(reply) = heard else { return };
        let Outcome::Received(views) = &reply.outcome else { return };
        let bad: BTreeSet<LockToken> = unreadable(reply).collect();
        for token in views.iter().filter_map(MessageView::token) {
            let disposition = match shell.dice.below(10) {
                0 => Disposition::Abandon { delay_ms: None },
                1 => Disposition::Release,
                _ if bad.contains(&token) => Disposition::Release,
                _ => Disposition::Complete,
            };
            let command = Command::Settle {
                from: self.from.clone(),
                settlements: Few::One(Settlement { token, disposition, overlay: None }),
            };
            let patience = Patience { resend_ms: 500, give_up_ms: 1_500 };
            shell.ask(bus, Who::Nobody, command, Vec::new(), patience);
        }
    }

    /// Whatever it was told, it takes messages again.
    pub(super) fn resume(&mut self, shell: &mut Shell, bus: &mut Bus) {
        self.step(shell, bus, FlowEvent::Resume);
    }

    /// Pumps are paused and stopped now and then.
    pub(super) fn mood(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let event = match shell.dice.below(4) {
            _ if bus.healed => FlowEvent::Resume,
            0 => FlowEvent::Pause,
            1 => FlowEvent::Stop,
            _ => FlowEvent::Resume,
        };
        self.step(shell, bus, event);
        let ms = shell.dice.around(5_000);
        shell.after(ms, Timer::PumpMood(self.index));
    }

    /// Shows an old token, to see that it is refused.
    pub(super) fn ghost(&mut self, shell: &mut Shell, bus: &mut Bus) {
        if self.old_tokens.is_empty() {
            return;
        }
        let token = self.old_tokens.remove(0);
        // Whoever still works on a delivery would not show its token twice.
        if self.running.contains(&token) || self.settling.contains_key(&token) {
            return;
        }
        bus.stats.ghosts += 1;
        let from = self.from.clone();
        let command = if shell.dice.percent(30) {
            Command::RenewLocks { from, tokens: vec![token], lock_ms: None }
        } else {
            let disposition = match shell.dice.below(3) {
                0 => Disposition::Complete,
                1 => Disposition::Abandon { delay_ms: None },
                _ => Disposition::Release,
            };
            Command::Settle {
                from,
                settlements: Few::One(Settlement { token, disposition, overlay: None }),
            }
        };
        let patience = Patience { resend_ms: 5_000, give_up_ms: 1_000 };
        shell.ask(bus, Who::Nobody, command, Vec::new(), patience);
    }
}

/// Deliveries of an answer whose contents could not be read.
pub(super) fn unreadable(reply: &Reply) -> impl Iterator<Item = LockToken> + '_ {
    let views = match &reply.outcome {
        Outcome::Received(views) => views.as_slice(),
        _ => &[],
    };
    let mut contents = reply.contents.iter();
    views.iter().filter_map(move |view| {
        let count = view.contents().count();
        let bad = contents.by_ref().take(count).filter(|content| content.is_err()).count() > 0;
        view.token().filter(|_| bad)
    })
}

fn arrival(view: &MessageView) -> Option<Arrival> {
    let State::Locked(lock) = view.message.standing.state else { return None };
    let deliveries = view.message.standing.deliveries + 1;
    Some(Arrival { token: view.token()?, lock_ms: lock.lock_ms, deliveries })
}
