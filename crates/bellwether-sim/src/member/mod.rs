//! Members: processes that take part, on machines with clocks of their own.
//!
//! A process reacts to answers and to its timers, and stands still while it is paused: what
//! arrives then is there when it goes on, and its clock has run on meanwhile.

mod clerk;
mod elector;
mod lessee;
mod process;
mod producer;
mod pump;
mod session_consumer;
mod shell;

use std::rc::Rc;

use bellwether_core::time::BootTime;

use crate::bus::{Answer, Bus, Event, Withdrawal};
use crate::clock::DriftingClock;
use crate::history::What;
use process::Process;

/// One member.
#[derive(Debug)]
pub(crate) struct Member {
    index: usize,
    clock: DriftingClock,
    process: Option<Process>,
    /// When it next wakes up, as far as that is arranged.
    wakes_at_us: u64,
    paused_until_us: u64,
    /// What arrived while it stood still.
    held_back: Vec<Rc<Answer>>,
}

impl Member {
    /// A member that was not started yet.
    pub(crate) fn new(bus: &mut Bus, index: usize) -> Self {
        let rate_ppm = bus.plan.members[index].rate_ppm;
        let offset_ms = bus.dice.between(1_000, 1_000_000_000);
        Self {
            index,
            clock: DriftingClock { rate_ppm, offset_ms },
            process: None,
            wakes_at_us: u64::MAX,
            paused_until_us: 0,
            held_back: Vec::new(),
        }
    }

    fn now(&self, bus: &Bus) -> BootTime {
        self.clock.at(bus.now_us)
    }

    /// Starts a process under a new id.
    pub(crate) fn start(&mut self, bus: &mut Bus, number: u32) {
        if self.process.is_some() {
            return;
        }
        bus.record(What::MemberUp { member: self.index, process: number });
        let process = Process::start(bus, self.index, number, self.now(bus));
        self.process = Some(process);
        self.paused_until_us = 0;
        self.arrange(bus);
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self, bus: &mut Bus) {
        if let Some(process) = self.process.take() {
            let (member, process) = (self.index, process.number());
            bus.record(What::MemberDown { member, process });
            // The server may see the connection end, or not.
            if bus.dice.percent(60) {
                bus.send_withdrawal(Withdrawal { member, process, tag: None });
            }
        }
        self.held_back.clear();
        self.wakes_at_us = u64::MAX;
    }

    /// Lets it stand still.
    pub(crate) fn pause(&mut self, bus: &mut Bus, until_us: u64) {
        if self.process.is_some() && until_us > self.paused_until_us {
            self.paused_until_us = until_us;
            bus.at(until_us, Event::MemberWakes(self.index));
        }
    }

    /// It goes on at once.
    pub(crate) fn resume(&mut self, bus: &mut Bus) {
        self.paused_until_us = bus.now_us.max(1);
        bus.after(0, Event::MemberWakes(self.index));
    }

    /// An answer arrives.
    pub(crate) fn receive(&mut self, bus: &mut Bus, answer: Rc<Answer>) {
        if bus.now_us < self.paused_until_us {
            self.held_back.push(answer);
            return;
        }
        let now = self.now(bus);
        if let Some(process) = &mut self.process {
            process.receive(bus, now, &answer);
        }
        self.look_after(bus);
    }

    /// The time has come that was arranged, or the pause is over.
    pub(crate) fn wake(&mut self, bus: &mut Bus) {
        let goes_on = self.paused_until_us != 0 && bus.now_us >= self.paused_until_us;
        let stands_still = bus.now_us < self.paused_until_us;
        // What was arranged earlier and put off since is not due.
        if stands_still || !(goes_on || bus.now_us >= self.wakes_at_us) {
            return;
        }
        self.paused_until_us = 0;
        self.wakes_at_us = u64::MAX;
        let now = self.now(bus);
        // After a pause either may come first: what waited in the socket, or what was due.
        let answers = std::mem::take(&mut self.held_back);
        let due_first = bus.dice.percent(50);
        if let Some(process) = &mut self.process {
            if due_first {
                process.wake(bus, now);
            }
            for answer in answers {
                process.receive(bus, now, &answer);
            }
            if !due_first {
                process.wake(bus, now);
            }
        }
        self.look_after(bus);
    }

    fn look_after(&mut self, bus: &mut Bus) {
        if self.process.as_ref().is_some_and(Process::is_over) {
            // The server forgot it: it ends, and another one starts in its place.
            self.kill(bus);
            let us = bus.dice.around(50_000);
            bus.after(us, Event::MemberStarts(self.index));
        }
        self.arrange(bus);
    }

    fn arrange(&mut self, bus: &mut Bus) {
        let Some(next) = self.process.as_ref().and_then(Process::next_wake) else { return };
        let at_us = self.clock.when(next).max(bus.now_us + 1);
        if at_us < self.wakes_at_us {
            self.wakes_at_us = at_us;
            bus.at(at_us, Event::MemberWakes(self.index));
        }
    }

    /// The term under which it trusts its lease at this moment.
    pub(crate) fn trusts(&self, bus: &Bus, election: u8) -> Option<u64> {
        self.process.as_ref()?.trusts(self.now(bus), election)
    }

    /// Whether it does a leader's work at this moment.
    pub(crate) fn leads(&self, bus: &Bus, election: u8) -> bool {
        self.process.as_ref().is_some_and(|process| process.leads(self.now(bus), election))
    }
}
