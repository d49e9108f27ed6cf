//! What every role of a process has at hand: requests, timers, chance.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bellwether::Error;
use bellwether::engine::{Call, Reply};
use bellwether_core::candidacy::Attempt;
use bellwether_core::command::{Command, Request};
use bellwether_core::error::Refusal;
use bellwether_core::name::{LockToken, MemberId, MemberSlot, RequestNumber};
use bellwether_core::time::BootTime;
use bytes::Bytes;

use crate::bus::{Bus, Packet, Withdrawal};
use crate::dice::Dice;

/// Which role asked, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Join,
    Create { queue: u8 },
    Leave,
    Clerk,
    Standing { lessee: usize, turn: u64 },
    Presence,
    Beat { elector: usize, attempt: Attempt },
    Renew { elector: usize, attempt: Attempt },
    Acquire { elector: usize, attempt: Attempt },
    Release { elector: usize },
    Receive { pump: usize, attempt: u64 },
    RenewLock { pump: usize, token: LockToken },
    Settle { pump: usize, token: LockToken },
    FetchDeferred { pump: usize },
    Send { producer: usize },
    Session { consumer: usize, turn: u64 },
    Nobody,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    Yes(Reply),
    No(Refusal),
    /// Nobody knows.
    Unknown,
}

/// What a process wakes up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Resend(u64),
    GiveUp(u64),
    Heartbeat,
    Work(usize),
    WorkEnds(usize, u64),
    HandlerEnds(usize, LockToken),
    PumpMood(usize),
    Deferred(usize),
    Produce(usize),
    Session(usize),
    Create(u8),
    Clerk,
    Standing(usize),
    Goodbye,
    Ghost,
}

#[derive(Debug)]
struct Open {
    packet: Rc<Packet>,
    who: Who,
    resend_ms: u64,
    /// Given up, but the role may ask again under the same number.
    parked: bool,
}

/// One process's own.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) member: usize,
    pub(super) process: u32,
    pub(super) id: MemberId,
    pub(super) slot: MemberSlot,
    pub(super) now: BootTime,
    pub(super) dice: Dice,
    /// The server no longer knows this process.
    pub(super) is_gone: bool,
    last_tag: u64,
    open: BTreeMap<u64, Open>,
    timers: BTreeSet<(BootTime, Timer)>,
}

/// How long a request is waited for, and how often it is sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) resend_ms: u64,
    pub(super) give_up_ms: u64,
}

impl Shell {
    pub(super) fn new(member: usize, process: u32, now: BootTime, mut dice: Dice) -> Self {
        let id = MemberId((u128::from(process) << 64) | u128::from(dice.bits()));
        Self {
            member,
            process,
            id,
            slot: MemberSlot(0),
            now,
            dice,
            is_gone: false,
            last_tag: 0,
            open: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }

    pub(super) fn after(&mut self, ms: u64, timer: Timer) {
        self.timers.insert((self.now.plus_ms(ms), timer));
    }

    pub(super) fn next_timer(&self) -> Option<BootTime> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn take_due(&mut self) -> Option<Timer> {
        let (at, timer) = self.timers.first().copied()?;
        if at > self.now {
            return None;
        }
        self.timers.pop_first();
        Some(timer)
    }

    /// Asks under a number of its own, so that it is done once however often it is sent.
    pub(super) fn ask(
        &mut self,
        bus: &mut Bus,
        who: Who,
        command: Command,
        contents: Vec<Bytes>,
        patience: Patience,
    ) -> u64 {
        self.send(bus, who, command, contents, patience, true)
    }

    /// Asks for something that may be done twice.
    pub(super) fn ask_unnumbered(
        &mut self,
        bus: &mut Bus,
        who: Who,
        command: Command,
        patience: Patience,
    ) -> u64 {
        self.send(bus, who, command, Vec::new(), patience, false)
    }

    fn send(
        &mut self,
        bus: &mut Bus,
        who: Who,
        command: Command,
        contents: Vec<Bytes>,
        patience: Patience,
        numbered: bool,
    ) -> u64 {
        self.last_tag += 1;
        let tag = self.last_tag;
        let answered_below = self.open.keys().next().copied().unwrap_or(tag);
        let request = Request {
            member: self.slot,
            number: RequestNumber(if numbered { tag } else { 0 }),
            answered_below: RequestNumber(answered_below),
            command,
            fence: None,
        };
        let call = Call { request, contents: contents.into() };
        let (member, process) = (self.member, self.process);
        let packet = Rc::new(Packet { member, process, tag, call });
        bus.send_request(&packet);
        let resend_ms = patience.resend_ms.max(1);
        self.open.insert(tag, Open { packet, who, resend_ms, parked: false });
        self.after(resend_ms, Timer::Resend(tag));
        self.after(patience.give_up_ms.max(1), Timer::GiveUp(tag));
        tag
    }

    /// Asks once more what was given up, under the same number.
    pub(super) fn ask_again(&mut self, bus: &mut Bus, tag: u64, patience: Patience) {
        let Some(open) = self.open.get_mut(&tag) else { return };
        open.parked = false;
        open.resend_ms = patience.resend_ms.max(1);
        bus.stats.resent += 1;
        bus.send_request(&open.packet);
        self.after(patience.resend_ms.max(1), Timer::Resend(tag));
        self.after(patience.give_up_ms.max(1), Timer::GiveUp(tag));
    }

    /// No answer is wanted any more, and the server is told so.
    pub(super) fn withdraw(&mut self, bus: &mut Bus, tag: u64) {
        self.forget(tag);
        let (member, process) = (self.member, self.process);
        bus.send_withdrawal(Withdrawal { member, process, tag: Some(tag) });
    }

    /// No answer is waited for any more.
    pub(super) fn forget(&mut self, tag: u64) {
        self.open.remove(&tag);
    }

    pub(super) fn resend(&mut self, bus: &mut Bus, tag: u64) {
        let Some(open) = self.open.get(&tag).filter(|open| !open.parked) else { return };
        bus.stats.resent += 1;
        bus.send_request(&open.packet);
        let ms = open.resend_ms;
        self.after(ms, Timer::Resend(tag));
    }

    /// Sends everything again that is waited for, as after finding the server again.
    pub(super) fn resend_all(&mut self, bus: &mut Bus) {
        for open in self.open.values().filter(|open| !open.parked) {
            bus.stats.resent += 1;
            bus.send_request(&open.packet);
        }
    }

    /// The time for an answer is over. Kept for another try if `park`.
    pub(super) fn give_up(
        &mut self,
        bus: &mut Bus,
        tag: u64,
        park: fn(Who) -> bool,
    ) -> Option<Who> {
        let open = self.open.get_mut(&tag).filter(|open| !open.parked)?;
        let who = open.who;
        open.parked = park(who);
        if !open.parked {
            self.open.remove(&tag);
            if self.dice.percent(50) {
                self.withdraw(bus, tag);
            }
        }
        bus.stats.unknown += 1;
        Some(who)
    }

    /// An answer arrived; `None` if it does not say anything, or nobody waits for it.
    pub(super) fn hear(&mut self, tag: u64, result: &Result<Reply, Error>) -> Option<(Who, Heard)> {
        let heard = match result {
            Ok(reply) => Heard::Yes(reply.clone()),
            Err(Error::Refused(Refusal::MemberGone)) => {
                self.is_gone |= self.open.get(&tag).is_some_and(|open| open.who != Who::Nobody);
                Heard::No(Refusal::MemberGone)
            }
            Err(Error::Refused(refusal)) => Heard::No(refusal.clone()),
            // It will be sent again, to the server's next life.
            Err(_) => return None,
        };
        self.open.remove(&tag).map(|open| (open.who, heard))
    }
}
