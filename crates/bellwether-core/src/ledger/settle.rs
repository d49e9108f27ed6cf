//! Settling: the ends of a delivery, and its renewal.

use crate::change::{Change, Departure};
use crate::command::{Disposition, NewContent, Settlement};
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::message::{Lock, Message, Reason, Standing, State};
use crate::name::{At, LockToken, Part, QueueId, QueuePath};
use crate::outcome::Outcome;
use crate::time::{Now, WallTime};

use super::outages::Judged;
use super::{Effects, Ledger, check_count};

/// How a message comes back from a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Return {
    /// Its handler failed: counted.
    Failure,
    /// Its lock ran out: counted.
    Crash,
    /// It was given back unused: not counted.
    Release,
}

impl Ledger {
    pub(super) fn settle(
        &mut self,
        now: Now,
        from: &QueuePath,
        settlements: &[Settlement],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named_mut(&from.queue)?;
        check_count("settlements in one request", settlements.len())?;
        let overlays = settlements.iter().filter_map(|settlement| settlement.overlay);
        let bytes: u64 = overlays.map(|overlay| u64::from(overlay.bytes)).sum();
        if bytes > limits::COMMAND_BYTES_MAX {
            let bytes_max = limits::COMMAND_BYTES_MAX;
            return Err(Refusal::TooLarge { what: "the changed properties", bytes, bytes_max });
        }
        queue.used_at = now.boot;
        let id = queue.id;
        let mut refused = Vec::new();
        for (index, settlement) in settlements.iter().enumerate() {
            if let Err(refusal) = self.settle_one(now, id, from.part, settlement, fx) {
                refused.push((index as u32, refusal));
            }
        }
        Ok(Outcome::Settled { refused })
    }

    fn settle_one(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        settlement: &Settlement,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        let (at, message) = self.locked(now, id, part, settlement.token)?;
        let is_dead_letter =
            part == Part::Dead && settlement.disposition == Disposition::DeadLetter;
        if is_dead_letter {
            let why =
                "a dead letter cannot be dead-lettered again; complete, abandon or redrive it";
            return Err(Refusal::InvalidValue { what: "disposition", why: why.into() });
        }
        if let Some(overlay) = settlement.overlay
            && overlay.bytes > limits::CONTENT_BYTES_MAX
        {
            return Err(Refusal::TooLarge {
                what: "the changed properties",
                bytes: overlay.bytes.into(),
                bytes_max: limits::CONTENT_BYTES_MAX.into(),
            });
        }
        let overlay = match settlement.overlay {
            Some(new) if settlement.disposition != Disposition::Complete => {
                Some(self.add_content(now, new, fx))
            }
            _ => None,
        };
        match settlement.disposition {
            Disposition::Complete => {
                self.went_well(at, &message);
                self.emit(now, Change::Gone { at, why: Departure::Completed }, fx);
            }
            Disposition::Abandon { delay_ms } => {
                self.give_back(now, at, message, Return::Failure, delay_ms, overlay, fx);
            }
            Disposition::Release => {
                self.give_back(now, at, message, Return::Release, None, overlay, fx);
            }
            Disposition::Defer => {
                let overlay = overlay.unwrap_or(message.standing.overlay);
                let standing = Standing { state: State::Deferred, overlay, ..message.standing };
                self.emit(now, Change::Standing { at, standing }, fx);
                self.says_nothing(at, &message);
            }
            Disposition::DeadLetter => {
                self.says_nothing(at, &message);
                self.dead_letter(now, at, Reason::Application, overlay, fx);
            }
        }
        Ok(())
    }

    /// The message a token locks; refused if the lock has ended in any way (D5).
    fn locked(
        &self,
        now: Now,
        id: QueueId,
        part: Part,
        token: LockToken,
    ) -> Result<(At, Message), Refusal> {
        let lost = || Err(Refusal::LockLost(token.sequence));
        let Some(queue) = self.queues.get(&id) else { return lost() };
        let Some(message) = queue.shelf(part).messages.get(token.sequence.0) else {
            return lost();
        };
        let State::Locked(lock) = message.standing.state else { return lost() };
        #[cfg(not(planted_bug = "accept_stale_settle"))]
        if !message.is_locked_by(token) || lock.until <= now.boot {
            return lost();
        }
        #[cfg(planted_bug = "accept_stale_settle")]
        let _ = (now, lock);
        let session = queue.sessions.get(queue.lane(part, message));
        let session_lost =
            session.is_some_and(|session| session.hold.is_none_or(|(_, until)| until <= now.boot));
        if session_lost {
            return lost();
        }
        Ok((At { queue: id, part, sequence: token.sequence }, *message))
    }

    pub(super) fn add_content(&mut self, now: Now, new: NewContent, fx: &mut Effects) -> ContentId {
        let id = self.contents.next_id();
        self.emit(now, Change::Content { id, index: new.index, len: new.bytes }, fx);
        id
    }

    /// A locked message comes back: to its place, later, aside, or to the dead letters.
    #[allow(clippy::too_many_arguments, reason = "one message and how it comes back")]
    pub(super) fn give_back(
        &mut self,
        now: Now,
        at: At,
        message: Message,
        how: Return,
        delay_ms: Option<u64>,
        overlay: Option<ContentId>,
        fx: &mut Effects,
    ) {
        let State::Locked(lock) = message.standing.state else { return };
        let old = message.standing;
        let Judged { how, delay_ms_min } = self.judge(now, at, &message, how);
        #[cfg(not(planted_bug = "count_forgotten"))]
        let counted = u32::from(how != Return::Release);
        #[cfg(planted_bug = "count_forgotten")]
        let counted = u32::from(how == Return::Failure);
        let failures = old.failures.saturating_add(u16::from(how == Return::Failure));
        let delay_ms = delay_ms.or_else(|| self.retry_ms(at, how, failures));
        let delay = delay_ms.map(|ms| ms.max(delay_ms_min)).or(Some(delay_ms_min));
        let delay = delay.filter(|ms| *ms > 0);
        let state = match (lock.deferred, delay) {
            (true, _) => State::Deferred,
            (false, Some(ms)) => State::Delayed { due: now.wall.plus_ms(ms) },
            (false, None) => State::Ready,
        };
        let standing = Standing {
            state,
            deliveries: old.deliveries + counted,
            failures,
            crashes: old.crashes.saturating_add(u16::from(how == Return::Crash)),
            releases: old.releases.saturating_add(u16::from(how == Return::Release)),
            overlay: overlay.unwrap_or(old.overlay),
            ..old
        };
        self.emit(now, Change::Standing { at, standing }, fx);
        if at.part == Part::Dead {
            return;
        }
        let deliveries_max = self.queues[&at.queue].settings.deliveries_max;
        if how == Return::Crash && self.is_convicted(at, &old, &standing) {
            self.dead_letter(now, at, Reason::ConsumerCrashed, None, fx);
        } else if counted > 0 && standing.deliveries >= deliveries_max {
            self.dead_letter(now, at, Reason::MaxDeliveryCountExceeded, None, fx);
        } else if message.expires_at <= now.wall && state != State::Deferred {
            debug_assert!(message.expires_at != WallTime::NEVER);
            self.expire(now, at, fx);
        } else if state == State::Ready {
            self.forward(now, at, fx);
        }
    }

    /// How long the queue keeps away what failed, if nobody said how long.
    fn retry_ms(&self, at: At, how: Return, failures: u16) -> Option<u64> {
        let retry = self.queues.get(&at.queue)?.settings.failures.retry?;
        let is_failure = how == Return::Failure && at.part == Part::Main;
        is_failure.then(|| retry.delay_ms(failures.into(), at.sequence.0))
    }

    /// Whether a crash was one too many. The first one proves nothing: others may have been there.
    fn is_convicted(&self, at: At, old: &Standing, new: &Standing) -> bool {
        let is_alone =
            self.is_suspect(at, old) && matches!(old.state, State::Locked(lock) if !lock.deferred);
        let crashes_max = self.queues[&at.queue].settings.failures.crashes_max;
        (is_alone && u32::from(new.crashes) > crashes_max)
            || cfg!(planted_bug = "first_crash_convicts")
    }

    /// A lock ran out: its receiver is taken for dead.
    pub(super) fn lock_fired(&mut self, now: Now, at: At, fx: &mut Effects) {
        let Some(message) = self.message(at).copied() else { return };
        let State::Locked(lock) = message.standing.state else { return };
        if lock.until <= now.boot {
            self.give_back(now, at, message, Return::Crash, None, None, fx);
        }
    }

    pub(super) fn renew_locks(
        &mut self,
        now: Now,
        from: &QueuePath,
        tokens: &[LockToken],
        lock_ms: Option<u32>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(&from.queue)?;
        let id = queue.id;
        let queue_lock_ms = queue.settings.lock_ms;
        if lock_ms.is_some_and(|ms| ms > limits::LOCK_MS_MAX) {
            let why = format!("a lock lasts at most {} ms", limits::LOCK_MS_MAX);
            return Err(Refusal::InvalidValue { what: "lock_ms", why });
        }
        check_count("tokens in one request", tokens.len())?;
        self.touch_queue(now, id);
        let mut refused = Vec::new();
        let mut shortest_ms: Option<u32> = None;
        for (index, token) in tokens.iter().enumerate() {
            match self.locked(now, id, from.part, *token) {
                Ok((at, message)) => {
                    let State::Locked(lock) = message.standing.state else { continue };
                    let other_duration = lock_ms.is_some_and(|ms| ms != lock.lock_ms);
                    let lock_ms = lock_ms.unwrap_or(lock.lock_ms);
                    shortest_ms = Some(shortest_ms.map_or(lock_ms, |ms| ms.min(lock_ms)));
                    // A renewal in time is only memory: after a restart a lock is a full one
                    // again. Only another duration must be known then.
                    let until = now.boot.plus_ms(lock_ms.into());
                    let lock = Lock { until, lock_ms, ..lock };
                    let standing = Standing { state: State::Locked(lock), ..message.standing };
                    let change = Change::Standing { at, standing };
                    self.set(now, &change, fx);
                    if other_duration {
                        self.journal(change, fx);
                    }
                }
                Err(refusal) => refused.push((index as u32, refusal)),
            }
        }
        let lock_ms = shortest_ms.or(lock_ms).unwrap_or(queue_lock_ms);
        Ok(Outcome::Renewed { lock_ms, refused })
    }
}
