//! What the harness may look at.

use bellwether_core::message::{MessageView, State};
use bellwether_core::name::{
    DeliveryNumber, Incarnation, LeaseName, LockToken, MemberSlot, Part, QueueName, QueuePath,
    SessionToken, Term,
};
use bellwether_core::outcome::{LeaseInfo, Outcome, QueueInfo};
use bellwether_core::time::BootTime;

use super::queues::Queue;
use super::{Naive, receive};

impl Naive {
    /// What is due, if anything is.
    pub fn due(&self) -> Option<String> {
        let begins = self.queues.iter().find(|queue| queue.begins_to_forward);
        let begins = begins.map(|queue| format!("{:?} begins to forward", queue.name));
        let swept = self.jobs.iter().find(|job| job.to_sweep);
        let swept = swept.map(|job| format!("{:?} is to be looked after", job.name));
        self.first_due().map(|event| format!("{event:?}")).or(begins).or(swept)
    }

    pub fn queue_infos(&self) -> Vec<QueueInfo> {
        self.queues.iter().map(Queue::info).collect()
    }

    /// All messages of one half of a queue, by number.
    pub fn views(&self, from: &QueuePath) -> Vec<MessageView> {
        let queue = &self.queues[self.queue_named(&from.queue).unwrap()];
        let numbers = queue.by_number(from.part == Part::Dead);
        numbers.into_iter().map(|m| receive::view(&queue.messages[m])).collect()
    }

    pub fn lease_infos(&self) -> Vec<LeaseInfo> {
        match self.list_leases(None, u32::MAX) {
            Outcome::Leases(infos) => infos,
            other => panic!("{other:?}"),
        }
    }

    /// Those who are here.
    pub fn member_slots(&self) -> Vec<MemberSlot> {
        let present = self.members.iter().filter(|member| member.gone_at.is_none());
        present.map(|member| MemberSlot(member.slot)).collect()
    }

    /// The leases a member believes it holds if it listens well.
    pub fn agreed(&self, slot: MemberSlot) -> Vec<(LeaseName, Term)> {
        self.member(slot.0).map_or(Vec::new(), |member| member.agreed.clone())
    }

    /// Every outcome kept: whose, of which request, and how it would be answered now.
    pub fn all_kept(&self) -> Vec<(u32, u64, Outcome)> {
        let remembered = self.members.iter().filter(|member| !member.forgotten);
        let kept = remembered.flat_map(|member| {
            member.kept.iter().map(|(number, kept)| (member.slot, *number, self.answered(kept)))
        });
        kept.collect()
    }

    /// Every lock that stands outside a session.
    pub fn all_locks(&self) -> Vec<(QueuePath, LockToken, u32)> {
        let mut locks = Vec::new();
        for queue in &self.queues {
            for message in &queue.messages {
                if let State::Locked(lock) = message.state {
                    if lock.until == BootTime::NEVER {
                        continue;
                    }
                    let part = if message.dead { Part::Dead } else { Part::Main };
                    let from = QueuePath { queue: queue.name.clone(), part };
                    let token = receive::view(message).token().unwrap();
                    locks.push((from, token, lock.lock_ms));
                }
            }
        }
        locks
    }

    /// Every hold of a session that stands.
    pub fn all_holds(&self) -> Vec<(QueueName, SessionToken, u32)> {
        let mut holds = Vec::new();
        for queue in &self.queues {
            for session in &queue.sessions {
                if let Some(hold) = &session.hold {
                    let token = SessionToken {
                        session: session.id.clone(),
                        number: DeliveryNumber(hold.number),
                        incarnation: Incarnation(hold.incarnation),
                    };
                    holds.push((queue.name.clone(), token, hold.lock_ms));
                }
            }
        }
        holds
    }
}
