//! One process of a member: its presence, and its roles.

use bellwether::engine::Reply;
use bellwether_core::candidacy::Attempt;
use bellwether_core::command::Command;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;

use super::clerk::Clerk;
use super::elector::{Elector, held_set};
use super::lessee::Lessee;
use super::producer::Producer;
use super::pump::Pump;
use super::session_consumer::SessionConsumer;
use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::boundary::queue_name;
use crate::bus::{Answer, Bus};

#[derive(Debug)]
pub(super) struct Process {
    shell: Shell,
    ttl_ms: u64,
    electors: Vec<Elector>,
    pumps: Vec<Pump>,
    sessions: Vec<SessionConsumer>,
    producers: Vec<Producer>,
    lessees: Vec<Lessee>,
    clerk: Option<Clerk>,
    /// It says goodbye as soon as its electors are done.
    is_leaving: bool,
    /// It has heard that nothing goes wrong any more.
    is_calm: bool,
}

impl Process {
    pub(super) fn start(bus: &mut Bus, member: usize, number: u32, now: BootTime) -> Self {
        let dice = bus.dice.fork();
        let mut shell = Shell::new(member, number, now, dice);
        bus.ids[member] = shell.id;
        let plan = bus.plan.members[member].clone();
        let electors = plan
            .elections
            .iter()
            .enumerate()
            .map(|(index, election)| {
                let election_plan = bus.plan.elections[usize::from(*election)];
                Elector::new(&mut shell, index, *election, election_plan)
            })
            .collect();
        let pumps = plan
            .pumps
            .iter()
            .enumerate()
            .map(|(index, queue)| Pump::new(&mut shell, bus, index, *queue))
            .collect();
        let sessions =
            (0..).zip(&plan.sessions).map(|(i, q)| SessionConsumer::new(i, *q)).collect();
        let producers = (0..).zip(&plan.sends).map(|(i, q)| Producer::new(bus, i, *q)).collect();
        let lessees = (0..).zip(&plan.standing).map(|(i, l)| Lessee::new(i, *l)).collect();
        let clerk = plan.has_clerk.then(Clerk::default);
        let ttl_ms = plan.ttl_ms;
        let is_calm = bus.healed;
        let mut process = Self {
            shell,
            ttl_ms,
            electors,
            pumps,
            sessions,
            producers,
            lessees,
            clerk,
            is_leaving: false,
            is_calm,
        };
        process.join(bus);
        process
    }

    pub(super) fn number(&self) -> u32 {
        self.shell.process
    }

    pub(super) fn is_over(&self) -> bool {
        self.shell.is_gone
    }

    fn join(&mut self, bus: &mut Bus) {
        let command =
            Command::Join { id: self.shell.id, metadata: String::new(), ttl_ms: self.ttl_ms };
        let patience = Patience { resend_ms: 300, give_up_ms: 1_000 };
        self.shell.ask_unnumbered(bus, Who::Join, command, patience);
    }

    fn joined(&mut self, bus: &mut Bus, heard: &Heard) {
        let Heard::Yes(Reply { outcome: Outcome::Joined(slot), .. }) = heard else {
            return self.join(bus);
        };
        self.shell.slot = *slot;
        for queue in 0..bus.plan.queues.len() as u8 {
            self.create(bus, queue);
        }
        self.shell.after(self.ttl_ms / 3, Timer::Heartbeat);
        self.shell.after(2_000, Timer::Ghost);
        if self.shell.dice.percent(50) {
            let ms = self.shell.dice.around(40_000);
            self.shell.after(ms, Timer::Goodbye);
        }
        if self.clerk.is_some() {
            self.shell.after(1_000, Timer::Clerk);
        }
        for lessee in &mut self.lessees {
            lessee.start(&mut self.shell);
        }
        for elector in &mut self.electors {
            elector.start(&mut self.shell, bus);
        }
        for pump in &mut self.pumps {
            pump.start(&mut self.shell, bus);
        }
        for consumer in &mut self.sessions {
            consumer.start(&mut self.shell, bus);
        }
        for producer in &mut self.producers {
            producer.start(&mut self.shell);
        }
    }

    fn create(&mut self, bus: &mut Bus, queue: u8) {
        let settings = Box::new(bus.plan.queues[usize::from(queue)].settings.clone());
        let command = Command::CreateQueue { queue: queue_name(queue), settings };
        let patience = Patience { resend_ms: 1_000, give_up_ms: 3_600_000 };
        self.shell.ask(bus, Who::Create { queue }, command, Vec::new(), patience);
    }

    /// Says goodbye once nobody works under a lease any more.
    fn leave(&mut self, bus: &mut Bus) {
        if self.is_leaving && self.electors.iter().all(|elector| elector.is_closed) {
            self.is_leaving = false;
            bus.stats.goodbyes += 1;
            let patience = Patience { resend_ms: 700, give_up_ms: 3_000 };
            self.shell.ask(bus, Who::Leave, Command::Leave, Vec::new(), patience);
        }
    }

    fn beat(&mut self, bus: &mut Bus, who: Who, in_full: bool, patience: Patience) {
        let held = self.electors.iter().filter_map(Elector::held).collect();
        let command = Command::Heartbeat { held: held_set(held, in_full) };
        self.shell.ask_unnumbered(bus, who, command, patience);
    }

    /// Heartbeats that electors want as renewals.
    fn beat_for_electors(&mut self, bus: &mut Bus) {
        for elector in 0..self.electors.len() {
            let Some((attempt, deadline)) = self.electors[elector].wants_beat.take() else {
                continue;
            };
            let give_up_ms = self.shell.now.ms_until(deadline);
            let patience = Patience { resend_ms: give_up_ms / 2, give_up_ms };
            let in_full = self.shell.dice.percent(50);
            self.beat(bus, Who::Beat { elector, attempt }, in_full, patience);
        }
    }

    fn beaten(&mut self, bus: &mut Bus, who: Who, heard: &Heard) {
        let carried: Option<(usize, Attempt)> = match who {
            Who::Beat { elector, attempt } => Some((elector, attempt)),
            _ => None,
        };
        let Heard::Yes(Reply { outcome: Outcome::Beat(beat), .. }) = heard else {
            if let Some((elector, _)) = carried {
                self.electors[elector].hear(&mut self.shell, bus, who, heard);
            }
            return;
        };
        if beat.resync {
            // Nothing was renewed: the set is told in full, for the same renewal.
            let patience = Patience { resend_ms: 500, give_up_ms: 1_000 };
            return self.beat(bus, who, true, patience);
        }
        for (index, elector) in self.electors.iter_mut().enumerate() {
            let attempt = carried.filter(|(of, _)| *of == index).map(|(_, attempt)| attempt);
            elector.beaten(&mut self.shell, bus, attempt, beat);
        }
    }

    pub(super) fn receive(&mut self, bus: &mut Bus, now: BootTime, answer: &Answer) {
        self.shell.now = now;
        if answer.process != self.shell.process {
            return;
        }
        if let Some((who, heard)) = self.shell.hear(answer.tag, &answer.result) {
            self.hear(bus, who, &heard);
        }
        self.beat_for_electors(bus);
    }

    fn hear(&mut self, bus: &mut Bus, who: Who, heard: &Heard) {
        let shell = &mut self.shell;
        match who {
            Who::Join => self.joined(bus, heard),
            // The queue it forwards to may not be there yet.
            Who::Create { queue } => {
                if let Heard::No(_) = heard {
                    shell.after(300, Timer::Create(queue));
                }
            }
            Who::Nobody => {}
            Who::Leave => shell.is_gone = true,
            Who::Clerk => {
                if let Some(clerk) = &mut self.clerk {
                    clerk.hear(shell, bus, heard);
                }
            }
            Who::Standing { lessee, turn } => self.lessees[lessee].hear(shell, turn, heard),
            Who::Presence | Who::Beat { .. } => self.beaten(bus, who, heard),
            Who::Renew { elector, .. }
            | Who::Acquire { elector, .. }
            | Who::Release { elector } => {
                self.electors[elector].hear(shell, bus, who, heard);
            }
            Who::Receive { pump, .. }
            | Who::RenewLock { pump, .. }
            | Who::Settle { pump, .. }
            | Who::FetchDeferred { pump } => {
                self.pumps[pump].hear(shell, bus, who, heard);
                self.replace_pump(bus, pump);
            }
            Who::Send { producer } => self.producers[producer].hear(shell, bus, heard),
            Who::Session { consumer, turn } => {
                self.sessions[consumer].hear(shell, bus, turn, heard);
            }
        }
    }

    /// A pump that was stopped is followed by another one.
    fn replace_pump(&mut self, bus: &mut Bus, pump: usize) {
        if self.pumps[pump].is_stopped {
            let queue = bus.plan.members[self.shell.member].pumps[pump];
            self.pumps[pump] = Pump::new(&mut self.shell, bus, pump, queue);
            self.pumps[pump].start(&mut self.shell, bus);
        }
    }

    pub(super) fn wake(&mut self, bus: &mut Bus, now: BootTime) {
        self.shell.now = now;
        if bus.healed && !self.is_calm {
            self.is_calm = true;
            self.shell.resend_all(bus);
            self.pumps.iter_mut().for_each(|pump| pump.resume(&mut self.shell, bus));
        }
        while let Some(timer) = self.shell.take_due() {
            self.ring(bus, timer);
        }
        for elector in &mut self.electors {
            elector.wake(&mut self.shell, bus);
        }
        for pump in 0..self.pumps.len() {
            self.pumps[pump].wake(&mut self.shell, bus);
            self.replace_pump(bus, pump);
        }
        self.leave(bus);
        self.beat_for_electors(bus);
    }

    fn ring(&mut self, bus: &mut Bus, timer: Timer) {
        let shell = &mut self.shell;
        match timer {
            Timer::Resend(tag) => shell.resend(bus, tag),
            Timer::GiveUp(tag) => {
                let park = |who| matches!(who, Who::Settle { .. } | Who::Send { .. });
                if let Some(who) = shell.give_up(bus, tag, park) {
                    self.hear(bus, who, &Heard::Unknown);
                }
            }
            Timer::Heartbeat => {
                let ms = self.ttl_ms / 3;
                shell.after(ms, Timer::Heartbeat);
                let in_full = shell.dice.percent(20);
                let patience = Patience { resend_ms: ms, give_up_ms: ms };
                self.beat(bus, Who::Presence, in_full, patience);
            }
            Timer::Work(elector) => self.electors[elector].work(shell, bus),
            Timer::WorkEnds(elector, work) => self.electors[elector].work_ends(shell, bus, work),
            Timer::HandlerEnds(pump, token) => self.pumps[pump].handler_ends(shell, bus, token),
            Timer::PumpMood(pump) => self.pumps[pump].mood(shell, bus),
            Timer::Deferred(pump) => self.pumps[pump].fetch_deferred(shell, bus),
            Timer::Produce(producer) => self.producers[producer].produce(shell, bus),
            Timer::Session(consumer) => self.sessions[consumer].wake(shell, bus),
            Timer::Create(queue) => self.create(bus, queue),
            Timer::Clerk => {
                if let Some(clerk) = &mut self.clerk {
                    clerk.wake(shell, bus);
                }
            }
            Timer::Standing(lessee) => self.lessees[lessee].wake(shell, bus),
            Timer::Goodbye => {
                if !bus.healed {
                    self.is_leaving = true;
                    self.electors.iter_mut().for_each(|elector| elector.shut_down(shell, bus));
                }
            }
            Timer::Ghost => self.ghost(bus),
        }
    }

    /// Somebody comes back who should have given up.
    fn ghost(&mut self, bus: &mut Bus) {
        let shell = &mut self.shell;
        let ms = shell.dice.around(4_000);
        shell.after(ms, Timer::Ghost);
        if bus.healed {
            return;
        }
        self.electors.iter_mut().for_each(|elector| elector.ghost(shell, bus));
        self.pumps.iter_mut().for_each(|pump| pump.ghost(shell, bus));
        self.sessions.iter_mut().for_each(|consumer| consumer.ghost(shell, bus));
    }

    pub(super) fn next_wake(&self) -> Option<BootTime> {
        let electors = self.electors.iter().filter_map(|elector| elector.candidacy.next_wake());
        let pumps = self.pumps.iter().filter_map(|pump| pump.flow.next_wake());
        electors.chain(pumps).chain(self.shell.next_timer()).min()
    }

    pub(super) fn trusts(&self, now: BootTime, election: u8) -> Option<u64> {
        let elector = self.electors.iter().find(|elector| elector.election == election)?;
        let trusted = elector.candidacy.is_trusted(now);
        elector.candidacy.term().filter(|_| trusted).map(|term| term.0)
    }

    pub(super) fn leads(&self, now: BootTime, election: u8) -> bool {
        self.electors.iter().any(|elector| {
            elector.election == election
                && elector.work.is_some()
                && elector.candidacy.is_trusted(now)
        })
    }
}
