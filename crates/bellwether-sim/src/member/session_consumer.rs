//! Receives from a session queue: takes hold of a session, works through its messages, lets go.

use bellwether_core::command::{
    Command, Disposition, NewContent, Receive, ReceiveMode, Settlement,
};
use bellwether_core::error::Refusal;
use bellwether_core::message::MessageView;
use bellwether_core::name::{LockToken, QueuePath, SessionToken};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use super::pump::unreadable;
use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::bodies::Bodies;
use crate::boundary::{queue_name, session_name};
use crate::bus::Bus;

#[derive(Debug)]
enum Turn {
    Rests,
    Accepting,
    /// Holds a session and is about to do something with it.
    Holds,
    Receiving,
    Handling,
    Settling,
    Renewing,
    Keeping,
    Closing,
}

#[derive(Debug)]
pub(super) struct SessionConsumer {
    index: usize,
    queue: u8,
    turn: Turn,
    /// Answers to earlier turns are not for this one.
    turns: u64,
    token: Option<SessionToken>,
    /// Holds that were given up or lost.
    old: Vec<SessionToken>,
    in_hand: Vec<LockToken>,
    /// Of these, those whose body could not be read.
    unreadable: Vec<LockToken>,
    left: u64,
}

const PATIENCE: Patience = Patience { resend_ms: 800, give_up_ms: 2_500 };

impl SessionConsumer {
    pub(super) fn new(index: usize, queue: u8) -> Self {
        Self {
            index,
            queue,
            turn: Turn::Rests,
            turns: 0,
            token: None,
            old: Vec::new(),
            in_hand: Vec::new(),
            unreadable: Vec::new(),
            left: 0,
        }
    }

    pub(super) fn start(&mut self, shell: &mut Shell, bus: &Bus) {
        self.rest(shell, bus, 200);
    }

    fn rest(&mut self, shell: &mut Shell, bus: &Bus, usual_ms: u64) {
        self.turn = Turn::Rests;
        self.turns += 1;
        if let Some(token) = self.token.take() {
            self.old.push(token);
        }
        self.in_hand.clear();
        let ms = if bus.healed { usual_ms } else { shell.dice.around(usual_ms) };
        shell.after(ms, Timer::Session(self.index));
    }

    fn path(&self) -> QueuePath {
        QueuePath::main(queue_name(self.queue))
    }

    fn ask(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        turn: Turn,
        command: Command,
        contents: Vec<Bytes>,
        patience: Patience,
    ) {
        self.turn = turn;
        self.turns += 1;
        let who = Who::Session { consumer: self.index, turn: self.turns };
        if matches!(self.turn, Turn::Renewing) {
            shell.ask_unnumbered(bus, who, command, patience);
        } else {
            shell.ask(bus, who, command, contents, patience);
        }
    }

    /// A timer rang.
    pub(super) fn wake(&mut self, shell: &mut Shell, bus: &mut Bus) {
        match self.turn {
            Turn::Rests => self.accept(shell, bus),
            Turn::Holds => self.act(shell, bus),
            Turn::Handling => self.settle(shell, bus),
            _ => {}
        }
    }

    fn accept(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let session = (!bus.healed && shell.dice.percent(20))
            .then(|| session_name(shell.dice.below(4) as u8));
        let wait_ms = if bus.healed { 30_000 } else { shell.dice.pick(&[0, 2_000, 20_000]) };
        self.left = shell.dice.between(1, 8);
        let queue = queue_name(self.queue);
        let command = Command::AcceptSession { queue, session, wait_ms };
        let soon = !bus.healed && shell.dice.percent(20);
        let give_up_ms = if soon { 1 + wait_ms / 4 } else { wait_ms + 4_000 };
        let patience = Patience { resend_ms: wait_ms + 1_500, give_up_ms };
        self.ask(shell, bus, Turn::Accepting, command, Vec::new(), patience);
    }

    /// Does the next thing with the session it holds.
    fn act(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let Some(token) = self.token.clone() else { return self.rest(shell, bus, 50) };
        let queue = queue_name(self.queue);
        let careless = !bus.healed && shell.dice.percent(3);
        if careless {
            // Walks away without a word: the hold runs out by itself.
            return self.rest(shell, bus, 500);
        }
        if self.left == 0 {
            let command = Command::CloseSession { queue, token };
            return self.ask(shell, bus, Turn::Closing, command, Vec::new(), PATIENCE);
        }
        match shell.dice.below(10) {
            0 => {
                let command = Command::RenewSession { queue, token };
                self.ask(shell, bus, Turn::Renewing, command, Vec::new(), PATIENCE);
            }
            1 => {
                bus.last_id += 1;
                let body = Bodies { usual_bytes: bus.plan.body_bytes }.of(bus.last_id);
                let new = NewContent { index: 0, bytes: body.len() as u32 };
                let state = shell.dice.percent(80).then_some(new);
                let contents = state.map(|_| body).into_iter().collect();
                let command = Command::SetSessionState { queue, token, state };
                self.ask(shell, bus, Turn::Keeping, command, contents, PATIENCE);
            }
            2 => {
                let command = Command::GetSessionState { queue, token };
                self.ask(shell, bus, Turn::Renewing, command, Vec::new(), PATIENCE);
            }
            _ => {
                let command = Command::Receive(Receive {
                    from: self.path(),
                    session: Some(token),
                    max: shell.dice.between(1, 3) as u32,
                    mode: ReceiveMode::PeekLock,
                    wait_ms: 0,
                    lock_ms: None,
                });
                self.ask(shell, bus, Turn::Receiving, command, Vec::new(), PATIENCE);
            }
        }
    }

    fn settle(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let settlements = std::mem::take(&mut self.in_hand)
            .into_iter()
            .map(|token| {
                let chance = if bus.healed { 0 } else { shell.dice.below(100) };
                let disposition = match chance {
                    _ if self.unreadable.contains(&token) => Disposition::Release,
                    0..80 => Disposition::Complete,
                    80..88 => {
                        let delay_ms = shell.dice.percent(50).then(|| shell.dice.below(1_500));
                        Disposition::Abandon { delay_ms }
                    }
                    88..92 => Disposition::Release,
                    92..96 => Disposition::Defer,
                    _ => Disposition::DeadLetter,
                };
                Settlement { token, disposition, overlay: None }
            })
            .collect();
        let command = Command::Settle { from: self.path(), settlements };
        self.ask(shell, bus, Turn::Settling, command, Vec::new(), PATIENCE);
    }

    fn go_on(&mut self, shell: &mut Shell) {
        self.turn = Turn::Holds;
        self.turns += 1;
        let ms = shell.dice.around(30);
        shell.after(ms, Timer::Session(self.index));
    }

    pub(super) fn hear(&mut self, shell: &mut Shell, bus: &mut Bus, turn: u64, heard: &Heard) {
        if turn != self.turns {
            return;
        }
        match (&self.turn, heard) {
            (Turn::Accepting, Heard::Yes(reply)) => match &reply.outcome {
                Outcome::Session(Some(hold)) => {
                    self.token = Some(hold.token.clone());
                    self.go_on(shell);
                }
                _ => self.rest(shell, bus, 200),
            },
            (Turn::Receiving, Heard::Yes(reply)) => {
                let Outcome::Received(views) = &reply.outcome else { return };
                self.in_hand = views.iter().filter_map(MessageView::token).collect();
                self.unreadable = unreadable(reply).collect();
                self.left = self.left.saturating_sub(1);
                if self.in_hand.is_empty() {
                    return self.go_on(shell);
                }
                self.turn = Turn::Handling;
                let ms = shell.dice.around(if bus.healed { 10 } else { 100 });
                shell.after(ms, Timer::Session(self.index));
            }
            (Turn::Closing, Heard::Yes(_)) => self.rest(shell, bus, 20),
            (_, Heard::Yes(_)) => self.go_on(shell),
            (_, Heard::No(Refusal::SessionLost(_))) => self.rest(shell, bus, 50),
            // What is unknown is left to run out; so is what cannot be done just now.
            (_, Heard::No(_) | Heard::Unknown) => self.rest(shell, bus, 300),
        }
    }

    /// Shows an old hold, to see that it is refused.
    pub(super) fn ghost(&mut self, shell: &mut Shell, bus: &mut Bus) {
        if self.old.is_empty() {
            return;
        }
        let token = self.old.remove(0);
        bus.stats.ghosts += 1;
        let queue = queue_name(self.queue);
        let command = if shell.dice.percent(50) {
            Command::RenewSession { queue, token }
        } else {
            Command::CloseSession { queue, token }
        };
        let patience = Patience { resend_ms: 5_000, give_up_ms: 1_000 };
        shell.ask_unnumbered(bus, Who::Nobody, command, patience);
    }
}
