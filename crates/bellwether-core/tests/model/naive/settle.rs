//! The ends of a delivery.

use bellwether_core::command::{Disposition, Settlement};
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::{Reason, State};
use bellwether_core::name::{LockToken, Part, QueuePath};
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

    fn settle_one(&mut self, q: usize, dead: bool, how: &Settlement) -> Result<(), Refusal> {
        let m = self.locked(q, dead, how.token)?;
        if dead && how.disposition == Disposition::DeadLetter {
            return Err(Refusal::InvalidValue { what: "disposition", why: String::new() });
        }
        let overlay = how.overlay.map(|new| new.bytes);
        match how.disposition {
            Disposition::Complete => self.ends(q, m, true),
            Disposition::Defer | Disposition::DeadLetter => self.ends(q, m, false),
            Disposition::Abandon { .. } | Disposition::Release => {}
        }
        let queue = &mut self.queues[q];
        match how.disposition {
            Disposition::Complete => {
                queue.messages.remove(m);
                queue.totals.completed += 1;
                self.forget_sessions(q);
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
        let now = self.now.wall;
        let (how, away_ms) = self.judge(q, m, how);
        let was_suspect = self.is_suspect(q, m);
        let deliveries_max = self.queues[q].settings.deliveries_max;
        let failures = self.queues[q].settings.failures;
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
        let by_queue = failures.retry.filter(|_| how == Return::Failure && !message.dead);
        let by_queue = by_queue.map(|by| by.delay_ms(message.failures.into(), message.sequence));
        message.state = match delay_ms.or(by_queue).unwrap_or(0).max(away_ms) {
            _ if lock.deferred => State::Deferred,
            0 => State::Ready,
            ms => State::Delayed { due: now.plus_ms(ms) },
        };
        if message.dead {
            return;
        }
        let crashed = how == Return::Crash && was_suspect && !lock.deferred;
        if crashed && u32::from(message.crashes) > failures.crashes_max {
            self.dead_letter(q, m, Reason::ConsumerCrashed, None);
        } else if how != Return::Release && message.deliveries >= deliveries_max {
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
