//! The ends of a delivery.

use bellwether_core::command::{Disposition, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::{Reason, State};
use bellwether_core::name::{LockToken, Part, QueuePath};
use bellwether_core::note::NoteState;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;

use super::Naive;

#[derive(Clone, Copy, PartialEq)]
pub enum Return {
    Failure,
    Crash,
    Release,
}

impl Naive {
    pub fn settle(
        &mut self,
        from: &QueuePath,
        settlements: &[Settlement],
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        self.queues[q].used_at = self.now.boot;
        let dead = from.part == Part::Dead;
        let mut refused = Vec::new();
        for (index, settlement) in settlements.iter().enumerate() {
            if let Err(refusal) = self.settle_one(q, dead, settlement) {
                refused.push((index as u32, refusal));
            }
        }
        Ok(Outcome::Settled { refused })
    }

    pub fn check_settle(&self, q: usize, dead: bool, how: &Settlement) -> Result<usize, Refusal> {
        let m = self.locked(q, dead, how.token)?;
        if dead && how.disposition == Disposition::DeadLetter {
            return Err(Refusal::InvalidValue { what: "disposition", why: String::new() });
        }
        Ok(m)
    }

    fn settle_one(&mut self, q: usize, dead: bool, how: &Settlement) -> Result<(), Refusal> {
        let m = self.check_settle(q, dead, how)?;
        let overlay = how.overlay.map(|new| new.bytes);
        let queue = &mut self.queues[q];
        match how.disposition {
            Disposition::Complete => {
                let message = queue.messages.remove(m);
                if !dead {
                    self.left.push((message.content, NoteState::Succeeded));
                }
                let queue = &mut self.queues[q];
                queue.totals.completed += 1;
                self.forget_sessions(q);
                self.item_done(&message);
            }
            Disposition::Abandon { delay_ms } => {
                self.give_back(q, m, Return::Failure, delay_ms, overlay);
            }
            Disposition::Release => self.give_back(q, m, Return::Release, None, overlay),
            Disposition::Defer => {
                let message = &mut queue.messages[m];
                message.state = State::Deferred;
                message.overlay_bytes = overlay.or(message.overlay_bytes);
            }
            Disposition::DeadLetter => self.dead_letter(q, m, Reason::Application, overlay),
        }
        self.queues[q].settle_ring();
        Ok(())
    }

    /// The message whose lock this token proves, if that lock stands (D5).
    pub fn locked(&self, q: usize, dead: bool, token: LockToken) -> Result<usize, Refusal> {
        let lost = Refusal::LockLost(token.sequence);
        let queue = &self.queues[q];
        let m = queue.find(dead, token.sequence.0).ok_or(lost.clone())?;
        let message = &queue.messages[m];
        let State::Locked(lock) = message.state else { return Err(lost) };
        let is_this = lock.incarnation == token.incarnation && message.number == token.number.0;
        if is_this && lock.until > self.now.boot { Ok(m) } else { Err(lost) }
    }

    /// A delivery ended without success: the message comes back, now or later, or is set aside.
    pub fn give_back(
        &mut self,
        q: usize,
        m: usize,
        how: Return,
        delay_ms: Option<u64>,
        overlay: Option<u32>,
    ) {
        if self.is_unwanted(&self.queues[q].messages[m]) {
            self.queues[q].messages.remove(m);
            self.queues[q].totals.purged += 1;
            self.queues[q].settle_ring();
            self.forget_sessions(q);
            return;
        }
        let now = self.now.wall;
        let deliveries_max = self.queues[q].settings.deliveries_max;
        let stamp = self.next_stamp();
        let message = &mut self.queues[q].messages[m];
        let State::Locked(lock) = message.state else { panic!("only a lock is given back") };
        match how {
            Return::Failure => message.failures += 1,
            Return::Crash => message.crashes += 1,
            Return::Release => message.releases += 1,
        }
        message.deliveries = u32::from(message.failures) + u32::from(message.crashes);
        message.overlay_bytes = overlay.or(message.overlay_bytes);
        message.visible = false;
        message.stamp = stamp;
        message.state = match delay_ms {
            _ if lock.deferred => State::Deferred,
            Some(ms) if ms > 0 => State::Delayed { due: now.plus_ms(ms) },
            _ => State::Ready,
        };
        if message.dead {
            return;
        }
        self.queues[q].settle_ring();
        let message = &self.queues[q].messages[m];
        if how != Return::Release && message.deliveries >= deliveries_max {
            self.dead_letter(q, m, Reason::MaxDeliveryCountExceeded, None);
        } else if message.expires_at <= now && message.state != State::Deferred {
            self.expire(q, m);
        } else if message.state == State::Ready {
            let sequence = message.sequence;
            self.forward(q, sequence);
        }
    }

    pub fn renew_locks(
        &mut self,
        from: &QueuePath,
        tokens: &[LockToken],
        lock_ms: Option<u32>,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        if lock_ms.is_some_and(|ms| ms > limits::LOCK_MS_MAX) {
            return Err(Refusal::InvalidValue { what: "lock_ms", why: String::new() });
        }
        self.queues[q].used_at = self.now.boot;
        let mut refused = Vec::new();
        let mut shortest = None;
        for (index, token) in tokens.iter().enumerate() {
            match self.locked(q, from.part == Part::Dead, *token) {
                Err(refusal) => refused.push((index as u32, refusal)),
                Ok(m) => {
                    let State::Locked(lock) = &mut self.queues[q].messages[m].state else {
                        panic!("it is locked")
                    };
                    lock.lock_ms = lock_ms.unwrap_or(lock.lock_ms);
                    if lock.until != BootTime::NEVER {
                        lock.until = self.now.boot.plus_ms(lock.lock_ms.into());
                    }
                    shortest = Some(lock.lock_ms.min(shortest.unwrap_or(u32::MAX)));
                }
            }
        }
        let lock_ms = shortest.or(lock_ms).unwrap_or(self.queues[q].settings.lock_ms);
        Ok(Outcome::Renewed { lock_ms, refused })
    }
}
