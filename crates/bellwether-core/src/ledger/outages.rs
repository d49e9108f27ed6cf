//! Outages: what a queue's own counting of failures does to it.

use crate::command::ReceiveMode;
use crate::error::Refusal;
use crate::message::Message;
use crate::name::{At, Part, QueueId, QueueName};
use crate::outage::Gate;
use crate::outcome::Outcome;
use crate::ready::LaneId;
use crate::time::{BootTime, Now};

use super::settle::Return;
use super::{Ledger, Timer};

/// What a return is worth.
pub(super) struct Judged {
    pub(super) how: Return,
    /// It does not come back sooner.
    pub(super) delay_ms_min: u64,
}

impl Ledger {
    /// What may be handed out to one who locks what it gets.
    pub(super) fn gate(&self, id: QueueId, part: Part, mode: ReceiveMode) -> Gate {
        match self.queues.get(&id) {
            Some(queue) if part == Part::Main && mode != ReceiveMode::ReceiveAndDelete => {
                queue.outage.gate()
            }
            _ => Gate::Open,
        }
    }

    /// A delivery comes back: whether it counts. In an outage it does not, and what was tried stays
    /// away for so long that another one is tried next.
    pub(super) fn judge(&mut self, now: Now, at: At, message: &Message, how: Return) -> Judged {
        let as_said = Judged { how, delay_ms_min: 0 };
        let Some(queue) = self.queues.get_mut(&at.queue).filter(|_| at.part == Part::Main) else {
            return as_said;
        };
        let Some(policy) = queue.settings.failures.outage else { return as_said };
        let seed = u64::from(at.queue.0);
        let (sequence, number) = (at.sequence, message.standing.number);
        let uncounted = |delay_ms_min| Judged { how: Return::Release, delay_ms_min };
        let is_tried = queue.outage.is_tried(sequence, number);
        match how {
            Return::Release if is_tried => {
                queue.outage.try_again();
                self.stir_queue(at.queue);
                as_said
            }
            Return::Release => as_said,
            #[cfg(planted_bug = "outage_counts")]
            _ if queue.outage.is_on() && !is_tried => as_said,
            _ if is_tried => {
                let next = queue.outage.try_failed(now.boot, &policy, seed);
                let Some((due, pause_ms)) = next else { return as_said };
                self.timers.boot.insert((due, Timer::Try(at.queue)));
                uncounted(pause_ms.saturating_mul(2))
            }
            _ if queue.outage.is_on() => uncounted(0),
            Return::Failure | Return::Crash => {
                let lost_by = match message.standing.state {
                    crate::message::State::Locked(lock) if how == Return::Crash => {
                        Some(lock.member)
                    }
                    _ => None,
                };
                let Some(due) = queue.outage.failed(now, &policy, seed, sequence, lost_by) else {
                    return as_said;
                };
                self.timers.boot.insert((due, Timer::Try(at.queue)));
                self.let_go_for(at.queue, None);
                uncounted(0)
            }
        }
    }

    /// A delivery was completed by its receiver.
    pub(super) fn went_well(&mut self, at: At, message: &Message) {
        let Some(queue) = self.queues.get_mut(&at.queue).filter(|_| at.part == Part::Main) else {
            return;
        };
        if queue.outage.is_tried(at.sequence, message.standing.number) {
            self.outage_ends(at.queue);
        } else {
            queue.outage.completed();
        }
    }

    /// A delivery ended in a way that says nothing of what all messages need.
    pub(super) fn says_nothing(&mut self, at: At, message: &Message) {
        let Some(queue) = self.queues.get_mut(&at.queue).filter(|_| at.part == Part::Main) else {
            return;
        };
        if queue.outage.is_tried(at.sequence, message.standing.number) {
            queue.outage.try_again();
            self.stir_queue(at.queue);
        }
    }

    /// The outage is over, if there is one: whoever waits is served.
    pub(super) fn outage_ends(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.outage.end() {
            self.stir_queue(id);
        }
    }

    /// A try may be due.
    pub(super) fn try_fired(&mut self, due: BootTime, id: QueueId) {
        if self.queues.get_mut(&id).is_some_and(|queue| queue.outage.is_due(due)) {
            self.stir_queue(id);
        }
    }

    pub(super) fn describe_outage(&self, now: Now, name: &QueueName) -> Result<Outcome, Refusal> {
        Ok(Outcome::Outage(self.queue_named(name)?.outage.info(now.boot)))
    }

    /// An operator says that it is over. Tells what was.
    pub(super) fn end_outage(&mut self, now: Now, name: &QueueName) -> Result<Outcome, Refusal> {
        let was = self.describe_outage(now, name)?;
        let id = self.queue_id(name)?;
        self.touch_queue(now, id);
        self.outage_ends(id);
        Ok(was)
    }

    /// Everybody who waits for messages of a queue is looked at again.
    pub(super) fn stir_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let lanes: Vec<LaneId> = queue.main.demands.keys().map(|(lane, _)| *lane).collect();
        self.stirred.extend(lanes.into_iter().map(|lane| (id, Part::Main, lane)));
    }
}
