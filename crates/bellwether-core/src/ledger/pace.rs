//! Rates: when a queue, or a key of it, may be given the next message.
//!
//! Nobody waits in a loop: whoever is held back is served when the timer says that there is a
//! token. Buckets are not journaled; after a restart they are full.

use crate::keys::{KeyId, Rest};
use crate::name::{Part, QueueId};
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Timer};

impl Ledger {
    /// Somebody looks again when the queue has a token.
    pub(super) fn arm_pace(&mut self, id: QueueId, until: BootTime) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.paced_at != Some(until) {
            queue.paced_at = Some(until);
            self.timers.boot.insert((until, Timer::Pace(id)));
        }
    }

    /// The queue has a token again, unless its rate has changed since.
    pub(super) fn pace_fired(&mut self, now: Now, due: BootTime, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.paced_at.take_if(|at| *at == due).is_some() {
            self.serve_all(now, id, fx);
        }
    }

    /// A key has a token again, or all of them.
    pub(super) fn key_fired(&mut self, id: QueueId, key: KeyId, rest: Rest) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.wake_key(key, rest) {
            self.stirred.insert((id, Part::Main, 0));
        }
        self.forget_key(id, key);
    }

    /// No message has the key: it is forgotten when all its tokens have come back.
    pub(super) fn forget_key(&mut self, id: QueueId, key: KeyId) {
        let now = self.clock.boot;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let rate = queue.settings.order.key_rate;
        if let Some((until, number)) = queue.keys.forget(key, rate, now) {
            self.timers.boot.insert((until, Timer::Key(id, number, key)));
        }
    }
}
