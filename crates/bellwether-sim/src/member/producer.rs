//! Sends to one queue: one by one, in batches, for later, with a time to live, twice.

use bellwether_core::command::Command;
use bellwether_core::message::NewMessage;
use bellwether_core::name::SequenceNumber;
use bellwether_core::outcome::Outcome;
use bellwether_core::rank::Rank;
use bellwether_core::time::WallTime;
use bytes::Bytes;

use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::bodies::Bodies;
use crate::boundary::{queue_name, session_name};
use crate::bus::Bus;

/// Sessions of a session queue.
const SESSIONS: u64 = 4;

#[derive(Debug)]
pub(super) struct Producer {
    index: usize,
    queue: u8,
    bodies: Bodies,
    in_flight: Option<u64>,
    tries: u32,
    /// The send in flight is for later.
    is_scheduled: bool,
    scheduled: Vec<SequenceNumber>,
    /// Message ids that were sent lately.
    hashes: Vec<u128>,
}

impl Producer {
    pub(super) fn new(bus: &Bus, index: usize, queue: u8) -> Self {
        Self {
            index,
            queue,
            bodies: Bodies { usual_bytes: bus.plan.body_bytes },
            in_flight: None,
            tries: 0,
            is_scheduled: false,
            scheduled: Vec::new(),
            hashes: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, shell: &mut Shell) {
        let ms = shell.dice.around(100);
        shell.after(ms, Timer::Produce(self.index));
    }

    pub(super) fn produce(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let pause_ms = shell.dice.around(150);
        shell.after(pause_ms, Timer::Produce(self.index));
        if bus.healed || self.in_flight.is_some() || bus.backlog >= bus.plan.backlog_max {
            return;
        }
        if !self.scheduled.is_empty() && shell.dice.percent(5) {
            return self.cancel(shell, bus);
        }
        let count = if shell.dice.percent(75) { 1 } else { shell.dice.between(2, 6) };
        self.send(shell, bus, count);
    }

    fn send(&mut self, shell: &mut Shell, bus: &mut Bus, count: u64) {
        let settings = &bus.plan.queues[usize::from(self.queue)].settings;
        let (sessions, detects) = (settings.sessions, settings.duplicate_window_ms.is_some());
        let dice = &mut shell.dice;
        let due = dice.percent(10).then(|| WallTime(bus.wall_ms() + dice.below(5_000)));
        let ttl_ms = dice.percent(10).then(|| dice.between(200, 10_000));
        let session = sessions.then(|| session_name(dice.below(SESSIONS) as u8));
        let mut contents = Vec::new();
        let mut messages = Vec::new();
        for _ in 0..count {
            bus.last_id += 1;
            let body = self.bodies.of(bus.last_id);
            let id_hash = match (detects, dice.below(10)) {
                (false, _) | (true, 9) => 0,
                (true, 0) if !self.hashes.is_empty() => {
                    self.hashes[dice.below(self.hashes.len() as u64) as usize]
                }
                _ => u128::from(dice.bits() | 1),
            };
            if id_hash != 0 && self.hashes.len() < 64 {
                self.hashes.push(id_hash);
            }
            messages.push(NewMessage {
                content_bytes: body.len() as u32,
                id_hash,
                session: session.clone(),
                ttl_ms,
                due,
                rank: Rank::default(),
            });
            contents.push(body);
        }
        self.is_scheduled = due.is_some();
        self.tries = 0;
        let command = Command::Send { queue: queue_name(self.queue), messages: messages.into() };
        self.ask(shell, bus, command, contents);
    }

    fn ask(&mut self, shell: &mut Shell, bus: &mut Bus, command: Command, contents: Vec<Bytes>) {
        let patience = patience(shell);
        let who = Who::Send { producer: self.index };
        self.in_flight = Some(shell.ask(bus, who, command, contents, patience));
    }

    fn cancel(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let sequence = self.scheduled.remove(0);
        self.is_scheduled = false;
        self.tries = 0;
        let command = Command::Cancel { queue: queue_name(self.queue), sequences: vec![sequence] };
        self.ask(shell, bus, command, Vec::new());
    }

    pub(super) fn hear(&mut self, shell: &mut Shell, bus: &mut Bus, heard: &Heard) {
        match heard {
            Heard::Yes(reply) => {
                self.in_flight = None;
                if let (Outcome::Sent(sequences), true) = (&reply.outcome, self.is_scheduled) {
                    self.scheduled.extend(sequences.iter().filter(|sequence| sequence.0 != 0));
                    self.scheduled.truncate(8);
                }
            }
            Heard::No(_) => self.in_flight = None,
            Heard::Unknown => {
                self.tries += 1;
                let Some(tag) = self.in_flight else { return };
                if self.tries < 6 {
                    let patience = patience(shell);
                    shell.ask_again(bus, tag, patience);
                } else {
                    // It may be there or not; nobody will ask.
                    shell.forget(tag);
                    self.in_flight = None;
                }
            }
        }
    }
}

fn patience(shell: &mut Shell) -> Patience {
    let give_up_ms = shell.dice.between(300, 3_000);
    Patience { resend_ms: give_up_ms * 2 / 3, give_up_ms }
}
