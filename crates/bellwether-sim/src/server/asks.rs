//! What the world itself asks of the server: looks, probes, words for a leader.

use std::rc::Rc;

use bellwether::engine::Call;
use bellwether_core::command::{Command, Request};
use bellwether_core::few::Few;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{MemberSlot, Part, QueuePath, RequestNumber, SequenceNumber, Ticket};

use super::Server;
use crate::bodies::Bodies;
use crate::boundary::{Asked, Asker, lease_name, queue_name, session_name};
use crate::bus::{Bus, Item, Packet};

impl Server {
    /// Somebody sends a message, to see whether those who wait for it get it.
    pub(crate) fn probe(&mut self, bus: &mut Bus, queue: u8) {
        bus.last_id += 1;
        let id = bus.last_id;
        let body = Bodies { usual_bytes: bus.plan.body_bytes }.of(id);
        let sessions = bus.plan.queues[usize::from(queue)].settings.sessions;
        let session = sessions.then_some(0);
        let messages = Few::One(NewMessage {
            content_bytes: body.len() as u32,
            session: session.map(session_name),
            ..NewMessage::default()
        });
        let command = Command::Send { queue: queue_name(queue), messages };
        let (number, answered_below) = (RequestNumber(id), RequestNumber(0));
        let request =
            Request { member: MemberSlot(0), number, answered_below, command, fence: None };
        let call = Call { request, contents: Few::One(body) };
        bus.probes.insert(id, (queue, session));
        self.receive(bus, Item::Call(Rc::new(Packet { member: 0, process: 0, tag: 0, call })));
    }

    /// The auditor looks at everything, in one moment.
    pub(crate) fn audit(&mut self, bus: &mut Bus) -> Option<u64> {
        if self.shard.is_none() || bus.now_us < self.paused_until_us || self.is_broken {
            return None;
        }
        self.audits += 1;
        let audit = self.audits;
        let queues = bus.plan.queues.len() as u8;
        self.boundary.begin_audit(bus, audit, 3 * usize::from(queues));
        for queue in 0..queues {
            for part in [Some(Part::Main), Some(Part::Dead), None] {
                let command = match part {
                    Some(part) => Command::Peek {
                        from: QueuePath { queue: queue_name(queue), part },
                        sequence: SequenceNumber(0),
                        max: 10_000,
                        session: None,
                    },
                    None => Command::DescribeQueue { queue: queue_name(queue) },
                };
                self.ask(bus, audit, part, command);
            }
        }
        self.speak(bus);
        self.wake(bus, 0);
        Some(audit)
    }

    /// Somebody asks the holder of a lease to step down.
    pub(crate) fn ask_step_down(&mut self, bus: &Bus, election: u8) {
        self.ask(bus, 0, None, Command::AskStepDown { lease: lease_name(election) });
    }

    fn ask(&mut self, bus: &Bus, audit: u64, part: Option<Part>, command: Command) {
        let now = self.now(bus);
        let Some(shard) = &mut self.shard else { return };
        let none = RequestNumber(0);
        let request = Request {
            member: MemberSlot(0),
            number: none,
            answered_below: none,
            command,
            fence: None,
        };
        let asker = Asker::Audit { audit, part };
        self.last_ticket += 1;
        let (applied_ms, as_of) = (bus.now_ms(), bus.history.len());
        let queue = self.boundary.decided_in(shard.ledger(), &request);
        let (ticket, stood) = (self.last_ticket, Vec::new());
        let asked = Asked { asker, ticket, applied_ms, as_of, queue, stood };
        let call = Call { request, contents: Few::default() };
        shard.apply(now, Ticket(self.last_ticket), &call, asked);
    }
}
