//! An operator's errands, and a client's that does not stay: dead letters are taken, sent again and
//! purged, settings changed, messages received and deleted, lists read.

use bellwether_core::command::{
    Command, Disposition, NewContent, Receive, ReceiveMode, Settlement,
};
use bellwether_core::few::Few;
use bellwether_core::message::MessageView;
use bellwether_core::name::{Part, QueuePath};
use bellwether_core::outcome::Outcome;
use bellwether_core::settings::{SettingsPatch, Status};
use bytes::Bytes;

use super::shell::{Heard, Patience, Shell, Timer, Who};
use crate::boundary::{lease_name, queue_name};
use crate::bus::Bus;

const PATIENCE: Patience = Patience { resend_ms: 700, give_up_ms: 3_000 };

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Clerk {
    /// Where the messages come from that were asked for.
    from: Option<QueuePath>,
    /// The queue whose settings are next put right.
    next: u8,
}

impl Clerk {
    pub(super) fn wake(&mut self, shell: &mut Shell, bus: &mut Bus) {
        let usual_ms = if bus.healed { 500 } else { 1_500 };
        let ms = shell.dice.around(usual_ms);
        shell.after(ms, Timer::Clerk);
        let queues = bus.plan.queues.len() as u64;
        if bus.healed {
            // A late packet may have changed it again.
            self.next = (self.next + 1) % queues as u8;
            shell.after(0, Timer::Create(self.next));
            let usual = &bus.plan.queues[usize::from(self.next)].settings;
            let (lock_ms, status) = (usual.lock_ms, Status::Active);
            return Self::change(shell, bus, self.next, lock_ms, status);
        }
        let queue = shell.dice.below(queues) as u8;
        let sessions = bus.plan.queues[usize::from(queue)].settings.sessions;
        let dead = sessions || shell.dice.percent(60);
        let part = if dead { Part::Dead } else { Part::Main };
        let from = QueuePath { queue: queue_name(queue), part };
        let max = shell.dice.between(1, 3) as u32;
        match shell.dice.below(20) {
            // Others move their messages to the first queue: it goes only if there are none.
            0 if (queue > 0 || queues == 1) && shell.dice.percent(50) => {
                Self::ask(shell, bus, Command::DeleteQueue { queue: queue_name(queue) });
                let ms = shell.dice.around(1_500);
                shell.after(ms, Timer::Create(queue));
            }
            0..7 => self.receive(shell, bus, QueuePath::dead(queue_name(queue)), max, false),
            7..9 => self.receive(shell, bus, from, max, true),
            9..13 => {
                let to = shell.dice.percent(30).then(|| queue_name(0));
                let (queue, sequences) = (queue_name(queue), Vec::new());
                Self::ask(shell, bus, Command::Redrive { queue, to, sequences, max });
            }
            13..15 => Self::ask(shell, bus, Command::Purge { from, before: None, max }),
            15..17 => {
                let lock_ms = shell.dice.between(300, 6_000) as u32;
                let closed = [Status::SendDisabled, Status::ReceiveDisabled, Status::Disabled];
                let status =
                    if shell.dice.percent(70) { Status::Active } else { shell.dice.pick(&closed) };
                Self::change(shell, bus, queue, lock_ms, status);
            }
            _ => Self::look_around(shell, bus, queue),
        }
    }

    fn ask(shell: &mut Shell, bus: &mut Bus, command: Command) {
        shell.ask(bus, Who::Nobody, command, Vec::new(), PATIENCE);
    }

    fn change(shell: &mut Shell, bus: &mut Bus, queue: u8, lock_ms: u32, status: Status) {
        let patch = SettingsPatch {
            lock_ms: Some(lock_ms),
            status: Some(status),
            ..SettingsPatch::default()
        };
        let command = Command::UpdateQueue { queue: queue_name(queue), patch: Box::new(patch) };
        Self::ask(shell, bus, command);
    }

    fn receive(
        &mut self,
        shell: &mut Shell,
        bus: &mut Bus,
        from: QueuePath,
        max: u32,
        deletes: bool,
    ) {
        let lock_ms =
            (!deletes && shell.dice.percent(50)).then(|| shell.dice.between(200, 8_000) as u32);
        self.from = (!deletes).then(|| from.clone());
        let command = Command::Receive(Receive {
            from,
            session: None,
            max,
            mode: if deletes { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock },
            wait_ms: shell.dice.pick(&[0, 1_000]),
            lock_ms,
        });
        shell.ask(bus, Who::Clerk, command, Vec::new(), PATIENCE);
    }

    /// Dead letters came: each is dealt with in its own way.
    pub(super) fn hear(&mut self, shell: &mut Shell, bus: &mut Bus, heard: &Heard) {
        let (Some(from), Heard::Yes(reply)) = (self.from.clone(), heard) else { return };
        let Outcome::Received(views) = &reply.outcome else { return };
        for token in views.iter().filter_map(MessageView::token) {
            if shell.dice.percent(30) {
                let lock_ms = shell.dice.percent(50).then(|| shell.dice.between(200, 8_000) as u32);
                let (from, tokens) = (from.clone(), vec![token]);
                let command = Command::RenewLocks { from, tokens, lock_ms };
                shell.ask(bus, Who::Nobody, command, Vec::new(), PATIENCE);
            }
            let disposition = match shell.dice.below(10) {
                0..4 => Disposition::Complete,
                4..6 => Disposition::Release,
                6..9 => {
                    let delay_ms = shell.dice.percent(50).then(|| shell.dice.below(3_000));
                    Disposition::Abandon { delay_ms }
                }
                // Nobody settles it: its lock runs out.
                _ => continue,
            };
            let note = Bytes::from(vec![b'n'; shell.dice.between(1, 60) as usize]);
            let overlay = (disposition != Disposition::Complete)
                .then_some(NewContent { index: 0, bytes: note.len() as u32 });
            let contents = overlay.map(|_| note).into_iter().collect();
            let settlements = Few::One(Settlement { token, disposition, overlay });
            let command = Command::Settle { from: from.clone(), settlements };
            shell.ask(bus, Who::Nobody, command, contents, PATIENCE);
        }
    }

    fn look_around(shell: &mut Shell, bus: &mut Bus, queue: u8) {
        let lease = lease_name(0);
        let command = match shell.dice.below(7) {
            0 => Command::ListQueues { after: None, max: 2 },
            1 => Command::ListSessions { queue: queue_name(queue), after: None, max: 2 },
            2 => Command::ListMembers,
            3 => Command::ListLeases { after: None, max: 2 },
            4 => Command::DescribeLease { lease },
            5 => Command::TouchLease { lease },
            _ => Command::WatchLease { lease, seen: shell.dice.below(20), wait_ms: 1_500 },
        };
        shell.ask_unnumbered(bus, Who::Nobody, command, PATIENCE);
    }
}
