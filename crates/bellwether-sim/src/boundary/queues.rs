//! Which queue a request is about. Names pass on to other queues, and a request that was decided in
//! one queue is answered for it, also when another has its name by then.

use std::rc::Rc;

use bellwether_core::command::{Command, Request};
use bellwether_core::ledger::Ledger;

use super::words::{index, key, queue_name, queue_of};
use super::{Asked, Asker, Boundary};
use crate::bus::{Bus, Packet};
use crate::history::{Queue, What};

impl Boundary {
    /// Looks at all queues and tells which are others than before; all, after a start.
    pub(crate) fn look_at_queues(&mut self, bus: &mut Bus, ledger: &Ledger, opened: bool) {
        for index in 0..bus.plan.queues.len() as u8 {
            let id = ledger.queue_at(&queue_name(index)).map_or(0, |id| id.0);
            let queue = Queue { index, id };
            if self.queues.insert(index, queue) != Some(queue) || opened {
                bus.record(What::QueueIs { queue });
            }
        }
    }

    /// The queue in which a request is decided, or was before.
    pub(crate) fn decided_in(&mut self, ledger: &Ledger, request: &Request) -> Queue {
        let Some(name) = queue_of(&request.command) else { return Queue::default() };
        let index = index(name.as_str());
        let now = self.queues.get(&index).copied().unwrap_or(Queue { index, id: 0 });
        if request.number.0 == 0 {
            return now;
        }
        let decided = self.decided_in.entry(key(request)).or_insert(now);
        if !ledger.is_decided(request) {
            *decided = now;
        }
        *decided
    }

    /// An answer leaves: if it says that a queue is gone, nobody may wait in it. `open` has the
    /// requests without an answer that came before.
    pub(crate) fn deleted<'a>(
        bus: &mut Bus,
        asked: &Asked,
        open: impl Iterator<Item = &'a (Queue, Rc<Packet>)>,
    ) {
        let Asker::Member(packet) = &asked.asker else { return };
        if !matches!(packet.call.request.command, Command::DeleteQueue { .. }) {
            return;
        }
        let waits = |packet: &Packet| {
            let command = &packet.call.request.command;
            matches!(command, Command::Receive(_) | Command::AcceptSession { .. })
        };
        let left = open.filter(|(queue, packet)| *queue == asked.queue && waits(packet)).count();
        bus.stats.deleted += 1;
        bus.record(What::Deleted { queue: asked.queue, left });
    }
}
