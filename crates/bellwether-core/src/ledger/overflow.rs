//! Overflow: what becomes of a send that a queue has no more room for.
//!
//! Nothing goes in silence: a sender is refused and told when to come again, a message that is
//! dropped is counted as shed, and one that spills over is counted as forwarded.

use crate::change::Departure;
use crate::error::Refusal;
use crate::limits;
use crate::message::{NewMessage, State};
use crate::name::{At, Part, QueueId, QueueName, SequenceNumber};
use crate::queue::Queue;
use crate::settings::Overflow;
use crate::time::Now;

use super::send::Move;
use super::{Effects, Ledger};

impl Ledger {
    /// The refusal of whoever would bring so many more.
    pub(super) fn busy(&self, queue: &Queue, more: usize) -> Refusal {
        let messages_max = queue.settings.order.messages_max.unwrap_or(u64::MAX);
        let over = (queue.messages_in() + more as u64).saturating_sub(messages_max);
        let retry_after_ms = queue.meter.estimate_ms(over, self.clock.boot);
        Refusal::QueueBusy { queue: queue.name.clone(), messages_max, retry_after_ms }
    }

    /// For those who watch how much is turned away.
    pub(super) fn count_refused(&mut self, id: QueueId, messages: usize, refusal: &Refusal) {
        if let Refusal::QueueBusy { .. } = refusal
            && let Some(queue) = self.queues.get_mut(&id)
        {
            queue.activity.refused += messages as u64;
        }
    }

    /// Whether all messages of a send find room, here or by what the queue does without it.
    pub(super) fn check_room(&self, queue: &Queue, messages: &[NewMessage]) -> Result<(), Refusal> {
        if !queue.is_crowded_by(messages.len() as u64) {
            return Ok(());
        }
        let max = queue.settings.order.messages_max.unwrap_or(u64::MAX);
        let over = (queue.messages_in() + messages.len() as u64 - max) as usize;
        let finds_room = match &queue.settings.order.overflow {
            Overflow::Refuse => false,
            Overflow::DropOldest => {
                over <= waiting(queue, 0).take(over).count() && messages.len() as u64 <= max
            }
            Overflow::SpillTo(target) => self.takes_spill(queue, target, messages, over),
        };
        if finds_room { Ok(()) } else { Err(self.busy(queue, messages.len())) }
    }

    /// Whether another queue takes the last `over` of the messages, and itself has room for them.
    fn takes_spill(
        &self,
        queue: &Queue,
        target: &QueueName,
        messages: &[NewMessage],
        over: usize,
    ) -> bool {
        let Some(target) = self.names.get(target).and_then(|id| self.queues.get(id)) else {
            return false;
        };
        let bytes: u64 = messages.iter().map(|new| u64::from(new.content_bytes)).sum();
        let fits = |new: &NewMessage| {
            // What is due later is not moved: it waits where its sender can find it and cancel it.
            new.due.is_none_or(|due| due <= self.clock.wall)
                && (new.session.is_some() || !target.settings.sessions)
                && new.content_bytes <= target.settings.message_bytes_max
        };
        // Which of them go is known only when duplicates are: so all must fit.
        target.id != queue.id
            && target.settings.status.can_send()
            && target.size_bytes + bytes <= target.settings.size_bytes_max
            && !target.is_crowded_by(over as u64)
            && messages.iter().all(fits)
    }

    /// Makes room for one more message. Returns where it goes if there is none here. `oldest` is
    /// where those that have waited longest are looked for.
    pub(super) fn make_room(
        &mut self,
        now: Now,
        id: QueueId,
        oldest: &mut u64,
        fx: &mut Effects,
    ) -> Option<QueueId> {
        let queue = self.queues.get(&id).filter(|queue| queue.is_crowded_by(1))?;
        match &queue.settings.order.overflow {
            // Whoever would crowd it was refused; this one comes beside what others forward to it.
            Overflow::Refuse => return None,
            Overflow::SpillTo(target) => return self.names.get(target).copied(),
            Overflow::DropOldest => {}
        }
        let sequence = waiting(queue, *oldest).next()?;
        *oldest = sequence + 1;
        let at = At { queue: id, part: Part::Main, sequence: SequenceNumber(sequence) };
        self.depart(now, at, Departure::Shed, fx);
        None
    }

    /// A message that has just come in goes to another queue.
    pub(super) fn spill(&mut self, now: Now, at: At, target: QueueId, fx: &mut Effects) {
        let Some(message) = self.message(at).copied() else { return };
        let how = Move {
            why: Departure::Forwarded,
            source: QueueId(0),
            hops: 1,
            not_after: message.expires_at,
        };
        let moved = self.move_to(now, at, target, how, fx);
        if let Some(queue) = self.queues.get_mut(&at.queue) {
            queue.activity.spilled += 1;
        }
        self.touch_queue(now, target);
        self.forward(now, moved, fx);
    }
}

/// Messages that wait for a receiver, the oldest first: of the first in the queue.
fn waiting(queue: &Queue, from: u64) -> impl Iterator<Item = u64> {
    let messages = queue.main.messages.range(from).take(limits::SHED_LOOKS_MAX);
    let ready = messages.filter(|(_, message)| message.standing.state == State::Ready);
    ready.map(|(sequence, _)| sequence)
}
