//! Wants a standing lease, as Azure's clients do: takes it, renews it, gives it another id, gives it
//! back or lets it run out. Others break it.

use bellwether_core::command::{Acquire, Command, LeaseKind};
use bellwether_core::limits::LEASE_MS_INFINITE;
use bellwether_core::name::LeaseId;
use bellwether_core::outcome::Outcome;

use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::boundary::lease_name;
use crate::bus::Bus;

const PATIENCE: Patience = Patience { resend_ms: 500, give_up_ms: 2_500 };

#[derive(Debug)]
pub(super) struct Lessee {
    index: usize,
    lease: u8,
    /// Answers to earlier turns are not for this one.
    turn: u64,
    /// The id it holds the lease under, or would.
    id: LeaseId,
    holds: bool,
}

impl Lessee {
    pub(super) fn new(index: usize, lease: u8) -> Self {
        Self { index, lease, turn: 0, id: LeaseId(0), holds: false }
    }

    pub(super) fn start(&mut self, shell: &mut Shell) {
        self.rest(shell, 1_000);
    }

    fn rest(&mut self, shell: &mut Shell, usual_ms: u64) {
        let ms = shell.dice.around(usual_ms);
        shell.after(ms, Timer::Standing(self.index));
    }

    fn new_id(shell: &mut Shell) -> LeaseId {
        LeaseId((u128::from(shell.dice.bits()) << 64) | u128::from(shell.process))
    }

    pub(super) fn wake(&mut self, shell: &mut Shell, bus: &mut Bus) {
        if bus.healed {
            return;
        }
        self.turn += 1;
        let (lease, id) = (lease_name(self.lease), self.id);
        let command = match (self.holds, shell.dice.below(20)) {
            (false, 0) => {
                let period_ms = shell.dice.percent(70).then(|| shell.dice.below(2_000));
                Command::BreakLease { lease, period_ms }
            }
            (false, 1) => Command::TouchLease { lease },
            // Also what is not held any more, or never was.
            (false, 2) | (true, 0..12) => Command::RenewLease { lease, id },
            (false, 3) | (true, 16..) => {
                Command::ReleaseLease { lease, id, successor: bus.successor(&mut shell.dice) }
            }
            (false, _) => {
                self.id = Self::new_id(shell);
                let ttl_ms = shell.dice.between(300, 6_000);
                Command::Acquire(Acquire {
                    lease,
                    id: self.id,
                    kind: LeaseKind::Standing,
                    ttl_ms: if shell.dice.percent(5) { LEASE_MS_INFINITE } else { ttl_ms },
                    metadata: String::new(),
                    wait_ms: shell.dice.pick(&[0, 2_000]),
                    priority: 0,
                    slots: 1,
                })
            }
            (true, 12..=14) => {
                let to = Self::new_id(shell);
                self.id = to;
                Command::ChangeLease { lease, id, to }
            }
            (true, _) => {
                self.holds = false;
                return self.rest(shell, 3_000);
            }
        };
        self.holds = false;
        let who = Who::Standing { lessee: self.index, turn: self.turn };
        // Now and then it does not wait as long as it said.
        let soon_ms = shell.dice.percent(30).then(|| shell.dice.between(200, 1_500));
        let give_up_ms = soon_ms.unwrap_or(PATIENCE.give_up_ms);
        shell.ask(bus, who, command, Vec::new(), Patience { give_up_ms, ..PATIENCE });
    }

    pub(super) fn hear(&mut self, shell: &mut Shell, turn: u64, heard: &Heard) {
        if turn != self.turn {
            return;
        }
        self.holds = matches!(heard, Heard::Yes(reply)
            if matches!(reply.outcome, Outcome::Granted { .. }));
        self.rest(shell, 600);
    }
}
