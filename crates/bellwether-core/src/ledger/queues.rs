//! Queues: creating, changing, deleting, purging, counting.

use crate::change::{Change, Departure};
use crate::error::{LeaseRefusal, Refusal};
use crate::limits;
use crate::message::State;
use crate::name::{At, Incarnation, Part, QueueId, QueueName, QueuePath, SequenceNumber, Ticket};
use crate::outcome::{Answer, Barrier, Outcome};
use crate::settings::{QueueSettings, SettingsPatch};
use crate::time::{BootTime, Now, WallTime};

use super::{Effects, Ledger, Timer, Waits, check_count, refuse};

impl Ledger {
    /// Which queue has this name now: another of the same name has another id.
    pub fn queue_at(&self, name: &QueueName) -> Option<QueueId> {
        self.names.get(name).copied()
    }

    pub(super) fn create_queue(
        &mut self,
        now: Now,
        name: &QueueName,
        settings: &QueueSettings,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        if self.names.contains_key(name) {
            return Ok(Outcome::QueueCreated { existed: true });
        }
        settings.check()?;
        self.check_forwarding(name, settings)?;
        if self.queues.len() >= limits::QUEUES_MAX {
            return Err(Refusal::TooMany { what: "queues", max: limits::QUEUES_MAX as u64 });
        }
        let id = QueueId(self.last_queue.0 + 1);
        let change = Change::Queue {
            id,
            name: name.clone(),
            settings: Box::new(settings.clone()),
            created_at: now.wall,
        };
        self.emit(now, change, fx);
        Ok(Outcome::QueueCreated { existed: false })
    }

    pub(super) fn update_queue(
        &mut self,
        now: Now,
        name: &QueueName,
        patch: &SettingsPatch,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let settings = patch.apply(&queue.settings)?;
        self.check_forwarding(name, &settings)?;
        let (id, created_at) = (queue.id, queue.created_at);
        let forwards = settings.forward_to.is_some() && queue.settings.forward_to.is_none();
        let opens = settings.status.can_receive() && !queue.settings.status.can_receive();
        let (closes, heeds_outages) =
            (!settings.status.can_receive(), settings.failures.outage.is_some());
        let change = Change::Queue {
            id,
            name: queue.name.clone(),
            settings: Box::new(settings),
            created_at,
        };
        self.emit(now, change, fx);
        self.touch_queue(now, id);
        if forwards {
            self.forwarding.insert(id);
        }
        if closes {
            self.let_go_for(id, None);
        }
        if !heeds_outages {
            self.outage_ends(id);
        }
        if opens {
            self.serve_all(now, id, fx);
        }
        self.serve_stirred(now, fx);
        Ok(Outcome::Queue(Box::new(self.queues[&id].info())))
    }

    /// A target must exist and is not the queue itself.
    fn check_forwarding(&self, name: &QueueName, settings: &QueueSettings) -> Result<(), Refusal> {
        let targets = [
            ("forward_to", &settings.forward_to),
            ("forward_dead_letters_to", &settings.forward_dead_letters_to),
        ];
        for (what, target) in targets {
            let Some(target) = target else { continue };
            if target == name {
                let why = "a queue cannot forward to itself".into();
                return Err(Refusal::InvalidValue { what, why });
            }
            if !self.names.contains_key(target) {
                let why = format!("there is no queue {target:?}; create it first");
                return Err(Refusal::InvalidValue { what, why });
            }
        }
        if settings.sessions && settings.forward_to.is_some() {
            let why = "a session queue cannot forward its messages".into();
            return Err(Refusal::InvalidValue { what: "forward_to", why });
        }
        Ok(())
    }

    pub(super) fn delete_queue(
        &mut self,
        now: Now,
        name: &QueueName,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let id = self.queue_id(name)?;
        self.remove_queue(now, id, fx);
        Ok(Outcome::Done)
    }

    /// Removes a queue; those who wait for it learn that it is gone.
    pub(super) fn remove_queue(&mut self, now: Now, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.get(&id) else { return };
        let name = queue.name.clone();
        let waiting: Vec<_> = [&queue.main, &queue.dead]
            .into_iter()
            .flat_map(|shelf| shelf.demands.keys().map(|(_, ticket)| *ticket))
            .chain(queue.accepts.keys().copied())
            .collect();
        for ticket in waiting {
            self.withdraw(ticket);
            refuse(ticket, Refusal::QueueNotFound(name.clone()), fx);
        }
        self.emit(now, Change::QueueGone { id }, fx);
        // A queue of the same name counts from one again. Tokens handed out by this one must not
        // be taken for its tokens, so that they are told apart as if the shard had been opened.
        let incarnation = Incarnation(self.incarnation.0 + 1);
        self.emit(now, Change::Opened { incarnation }, fx);
    }

    pub(super) fn purge(
        &mut self,
        now: Now,
        from: &QueuePath,
        before: Option<WallTime>,
        max: u32,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(&from.queue)?;
        let (id, part) = (queue.id, from.part);
        let max = max.min(limits::BATCH_MESSAGES_MAX as u32) as usize;
        self.touch_queue(now, id);
        let queue = &self.queues[&id];
        let doomed: Vec<u64> = queue
            .shelf(part)
            .messages
            .range(0)
            .filter(|(_, message)| {
                !matches!(message.standing.state, State::Locked(_))
                    && before.is_none_or(|before| message.enqueued_at < before)
            })
            .map(|(sequence, _)| sequence)
            .take(max)
            .collect();
        let count = doomed.len() as u64;
        for sequence in doomed {
            let at = At { queue: id, part, sequence: SequenceNumber(sequence) };
            self.emit(now, Change::Gone { at, why: Departure::Purged }, fx);
        }
        Ok(Outcome::Count(count))
    }

    pub(super) fn remove(
        &mut self,
        now: Now,
        from: &QueuePath,
        sequences: &[SequenceNumber],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let (id, part) = (self.queue_id(&from.queue)?, from.part);
        check_count("sequence numbers in one request", sequences.len())?;
        self.touch_queue(now, id);
        let mut count = 0;
        for sequence in sequences {
            let at = At { queue: id, part, sequence: *sequence };
            let is_free =
                |m: &crate::message::Message| !matches!(m.standing.state, State::Locked(_));
            if self.message(at).is_some_and(is_free) {
                self.emit(now, Change::Gone { at, why: Departure::Purged }, fx);
                count += 1;
            }
        }
        Ok(Outcome::Count(count))
    }

    pub(super) fn list_queues(&self, after: Option<&QueueName>, max: u32) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        Outcome::Queues(
            self.names
                .range::<QueueName, _>((from, Unbounded))
                .take(max as usize)
                .map(|(_, id)| self.queues[id].info())
                .collect(),
        )
    }

    /// A queue was used: it is not idle.
    pub(super) fn touch_queue(&mut self, now: Now, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.used_at = now.boot;
        }
    }

    /// Sets the idle timer of a queue; it looks at `used_at` when it fires.
    pub(super) fn arm_queue(&mut self, now: Now, id: QueueId) {
        if !self.live {
            return;
        }
        let Some(queue) = self.queues.get(&id) else { return };
        if let Some(ms) = queue.settings.delete_idle_ms {
            let at = queue.used_at.max(now.boot).plus_ms(ms);
            self.timers.boot.insert((at, Timer::Idle(id)));
        }
    }

    /// The idle timer fired: deletes the queue, or looks again later.
    pub(super) fn idle_fired(&mut self, now: Now, due: BootTime, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.get(&id) else { return };
        let Some(ms) = queue.settings.delete_idle_ms else { return };
        let at = queue.used_at.plus_ms(ms);
        if at > due {
            self.timers.boot.insert((at, Timer::Idle(id)));
            return;
        }
        let busy = queue.main.tally.scheduled > 0
            || queue.settings.forward_to.is_some()
            || !queue.main.demands.is_empty()
            || !queue.dead.demands.is_empty()
            || !queue.accepts.is_empty();
        if busy {
            self.touch_queue(now, id);
            self.timers.boot.insert((now.boot.plus_ms(ms), Timer::Idle(id)));
        } else {
            self.remove_queue(now, id, fx);
        }
    }

    /// Forgets message ids that are older than the window, and looks again for the next.
    pub(super) fn seen_fired(&mut self, now: Now, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(window) = queue.settings.duplicate_window_ms else { return };
        let before = queue.seen.len();
        queue.seen.forget(now.wall, window, limits::TICK_WORK_MAX);
        self.seen -= (before - queue.seen.len()) as u64;
        let due = queue.seen.oldest().map(|at| at.plus_ms(window));
        // At most once a second: an id is forgotten a little late, never early. But what this step
        // has left undone is done next, so that ids are forgotten as fast as they come.
        let pause_ms = if due.is_some_and(|due| due <= now.wall) { 1 } else { 1000 };
        self.arm_seen_at(id, due.map(|due| due.max(now.wall.plus_ms(pause_ms))));
    }

    /// Sets the timer to when the oldest id leaves the window.
    pub(super) fn arm_seen(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id).filter(|_| self.live) else { return };
        let window = queue.settings.duplicate_window_ms;
        let due = queue.seen.oldest().zip(window).map(|(at, window)| at.plus_ms(window));
        self.arm_seen_at(id, due);
    }

    fn arm_seen_at(&mut self, id: QueueId, at: Option<WallTime>) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if let Some(old) = std::mem::replace(&mut queue.seen_armed, at) {
            self.timers.wall.remove(&(old, Timer::Seen(id)));
        }
        if let Some(at) = at {
            self.timers.wall.insert((at, Timer::Seen(id)));
        }
    }

    /// Moves messages on that were there before forwarding was switched on, some at a time.
    pub(super) fn forward_some(&mut self, now: Now, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.get(&id) else { return };
        let waiting: Vec<u64> = queue
            .main
            .messages
            .range(0)
            .filter(|(_, message)| message.standing.state == State::Ready)
            .map(|(sequence, _)| sequence)
            .take(limits::TICK_WORK_MAX)
            .collect();
        if waiting.len() < limits::TICK_WORK_MAX || queue.settings.forward_to.is_none() {
            self.forwarding.remove(&id);
        }
        for sequence in waiting {
            let at = At { queue: id, part: Part::Main, sequence: SequenceNumber(sequence) };
            self.forward(now, at, fx);
        }
    }

    /// The wait of a request ended without what it waited for.
    pub(super) fn wait_fired(&mut self, now: Now, ticket: Ticket, fx: &mut Effects) {
        let Some(waits) = self.waiting.get(&ticket).copied() else { return };
        let (result, barrier) = match waits {
            Waits::Messages(..) => (Ok(Outcome::Received(Vec::new())), Barrier::Appended),
            Waits::Session(_) => (Ok(Outcome::Session(None)), Barrier::Durable),
            Waits::Lease(lease) => {
                let entry = &self.leases[&lease];
                let waiter = entry.line.iter().find(|((_, waits), _)| *waits == ticket);
                let slots = waiter.map_or(1, |(_, waiter)| waiter.acquire.slots);
                let is_free = self.held_numbers(now, &entry.name).len() < slots as usize;
                let is_paused = is_free && self.is_lease_paused(&entry.name);
                let kind = if is_paused { LeaseRefusal::Paused } else { LeaseRefusal::NotGranted };
                (Err(kind(entry.name.clone()).into()), Barrier::Durable)
            }
            Waits::Turn(_) => (Ok(Outcome::Turn { next: false }), Barrier::Durable),
            Waits::Watch(lease) => {
                (Ok(self.describe_lease(now, &self.leases[&lease].name)), Barrier::Durable)
            }
        };
        self.withdraw(ticket);
        fx.answers.push(Answer { ticket, result, barrier });
    }
}
