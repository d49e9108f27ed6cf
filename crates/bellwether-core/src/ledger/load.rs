//! What a scaler looks at: how much there is to do, and who is at it.

use std::collections::BTreeMap;

use crate::error::Refusal;
use crate::limits;
use crate::message::State;
use crate::name::{MemberSlot, QueueName};
use crate::outcome::{Busy, Load, Outcome};
use crate::queue::Queue;
use crate::time::Now;

use super::Ledger;

impl Ledger {
    pub(super) fn read_load(&self, now: Now, name: &QueueName) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let stats = queue.stats();
        let oldest_ms = stats.oldest_ready.map(|at| now.wall.0.saturating_sub(at.0));
        let busy = busy(queue).into_iter().filter_map(|(slot, deliveries)| {
            Some(Busy { member: self.members.get(&slot)?.id, deliveries })
        });
        Ok(Outcome::Load(Box::new(Load {
            counts: stats.counts,
            totals: stats.totals,
            oldest_ms,
            is_paused: !queue.settings.status.can_receive(),
            busy: busy.collect(),
        })))
    }
}

/// Who has messages of this queue, and how many. What is locked stands near the front, so the look
/// ends when all of it was found.
fn busy(queue: &Queue) -> BTreeMap<MemberSlot, u32> {
    let mut busy = BTreeMap::new();
    let locked = queue.main.messages.range(0).take(limits::LOAD_MESSAGES_MAX);
    let locked = locked.filter_map(|(_, message)| match message.standing.state {
        State::Locked(lock) => Some(lock.member),
        _ => None,
    });
    for member in locked.take(queue.main.tally.locked as usize) {
        *busy.entry(member).or_default() += 1;
    }
    busy
}
