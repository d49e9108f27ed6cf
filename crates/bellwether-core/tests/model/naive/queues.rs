//! Queues and sending.

use bellwether_core::error::{Operation, Refusal};
use bellwether_core::job::Failure;
use bellwether_core::message::{NewMessage, Reason, State};
use bellwether_core::name::{QueueName, QueuePath, SequenceNumber, SessionId};
use bellwether_core::outcome::{Counts, Outcome, QueueInfo, Sequences, Totals};
use bellwether_core::settings::{QueueSettings, SettingsPatch};
use bellwether_core::time::{BootTime, WallTime};

use super::sessions::Session;
use super::{ForWhat, Naive};

pub struct Queue {
    pub id: u32,
    pub name: QueueName,
    pub settings: QueueSettings,
    pub created_at: WallTime,
    pub last: u64,
    pub messages: Vec<Message>,
    pub sessions: Vec<Session>,
    pub seen: Vec<(u128, WallTime)>,
    pub totals: Totals,
    pub used_at: BootTime,
    /// What was there when forwarding was switched on has still to move.
    pub begins_to_forward: bool,
}

#[derive(Clone)]
pub struct Message {
    pub dead: bool,
    pub sequence: u64,
    pub state: State,
    pub visible: bool,
    pub bytes: u32,
    pub overlay_bytes: Option<u32>,
    pub enqueued_at: WallTime,
    pub expires_at: WallTime,
    pub origin: u64,
    pub source: u32,
    pub session: Option<SessionId>,
    pub number: u32,
    pub deliveries: u32,
    pub failures: u16,
    pub crashes: u16,
    pub releases: u16,
    pub reason: Reason,
    pub hops: u8,
    /// Which item of which job.
    pub item: Option<(u32, u32)>,
    /// Which job it gathers.
    pub gathers: Option<u32>,
    /// Which schedule sent it.
    pub of_schedule: Option<u32>,
}

impl Message {
    pub fn size(&self) -> u64 {
        u64::from(self.bytes) + u64::from(self.overlay_bytes.unwrap_or(0))
    }
}

impl Queue {
    pub fn find(&self, dead: bool, sequence: u64) -> Option<usize> {
        self.messages.iter().position(|m| m.dead == dead && m.sequence == sequence)
    }

    /// Indices of the messages of one half, by number.
    pub fn by_number(&self, dead: bool) -> Vec<usize> {
        let mut indices: Vec<usize> =
            (0..self.messages.len()).filter(|m| self.messages[*m].dead == dead).collect();
        indices.sort_by_key(|m| self.messages[*m].sequence);
        indices
    }

    pub fn size(&self) -> u64 {
        let states = self.sessions.iter().map(|s| u64::from(s.state_bytes.unwrap_or(0)));
        self.messages.iter().map(Message::size).sum::<u64>() + states.sum::<u64>()
    }

    fn count(&self, is: impl Fn(&State) -> bool) -> u64 {
        self.messages.iter().filter(|m| !m.dead && is(&m.state)).count() as u64
    }

    pub fn info(&self) -> QueueInfo {
        QueueInfo {
            name: self.name.clone(),
            settings: self.settings.clone(),
            created_at: self.created_at,
            counts: Counts {
                ready: self.count(|s| *s == State::Ready),
                locked: self.count(|s| matches!(s, State::Locked(_))),
                scheduled: self
                    .count(|s| matches!(s, State::Scheduled { .. } | State::Delayed { .. })),
                deferred: self.count(|s| *s == State::Deferred),
                dead_letters: self.messages.iter().filter(|m| m.dead).count() as u64,
                size_bytes: self.size(),
            },
            totals: self.totals,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Naive {
    pub fn create_queue(
        &mut self,
        name: &QueueName,
        settings: &QueueSettings,
    ) -> Result<Outcome, Refusal> {
        if self.queue_named(name).is_ok() {
            return Ok(Outcome::QueueCreated { existed: true });
        }
        settings.check()?;
        self.check_targets(name, settings)?;
        self.queues_ever += 1;
        self.queues.push(Queue {
            id: self.queues_ever,
            name: name.clone(),
            settings: settings.clone(),
            created_at: self.now.wall,
            last: 0,
            messages: Vec::new(),
            sessions: Vec::new(),
            seen: Vec::new(),
            totals: Totals::default(),
            used_at: self.now.boot,
            begins_to_forward: false,
        });
        self.gather_what_is_owed(name);
        Ok(Outcome::QueueCreated { existed: false })
    }

    fn check_targets(&self, name: &QueueName, settings: &QueueSettings) -> Result<(), Refusal> {
        let wrong = |what| Err(Refusal::InvalidValue { what, why: String::new() });
        let is_bad = |target: &QueueName| target == name || self.queue_named(target).is_err();
        if settings.forward_to.as_ref().is_some_and(is_bad) {
            return wrong("forward_to");
        }
        if settings.forward_dead_letters_to.as_ref().is_some_and(is_bad) {
            return wrong("forward_dead_letters_to");
        }
        if settings.sessions && settings.forward_to.is_some() {
            return wrong("forward_to");
        }
        Ok(())
    }

    pub fn update_queue(
        &mut self,
        name: &QueueName,
        patch: &SettingsPatch,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let settings = patch.apply(&self.queues[q].settings)?;
        self.check_targets(name, &settings)?;
        let queue = &mut self.queues[q];
        queue.begins_to_forward |=
            settings.forward_to.is_some() && queue.settings.forward_to.is_none();
        queue.settings = settings;
        queue.used_at = self.now.boot;
        // Whoever waited may be served now, and what is told is what is then.
        self.serve();
        let q = self.queue_named(name)?;
        Ok(Outcome::Queue(Box::new(self.queues[q].info())))
    }

    pub fn delete_queue(&mut self, name: &QueueName) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        self.remove_queue(q);
        Ok(Outcome::Done)
    }

    pub fn remove_queue(&mut self, q: usize) {
        let (id, name) = (self.queues[q].id, self.queues[q].name.clone());
        let waiting: Vec<_> = self.waits.iter().filter(|w| w.queue() == Some(id)).collect();
        let waiting: Vec<_> = waiting.into_iter().map(|wait| wait.ticket).collect();
        for ticket in waiting {
            self.answer_wait(ticket, Err(Refusal::QueueNotFound(name.clone())));
        }
        self.queues.remove(q);
        self.queue_was_removed();
        // A queue of the same name must not take its tokens for its own.
        self.incarnation += 1;
    }

    pub fn is_busy(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        queue.settings.forward_to.is_some()
            || queue.info().counts.scheduled > 0
            || self.waits.iter().any(|wait| wait.queue() == Some(queue.id))
    }

    pub fn describe_queue(&self, name: &QueueName) -> Result<Outcome, Refusal> {
        Ok(Outcome::Queue(Box::new(self.queues[self.queue_named(name)?].info())))
    }

    pub fn list_queues(&self, after: Option<&QueueName>, max: u32) -> Outcome {
        let mut infos: Vec<QueueInfo> = self.queues.iter().map(Queue::info).collect();
        infos.retain(|info| after.is_none_or(|after| info.name > *after));
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos.truncate(max as usize);
        Outcome::Queues(infos)
    }

    pub fn purge(
        &mut self,
        from: &QueuePath,
        before: Option<WallTime>,
        max: u32,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        let dead = from.part == bellwether_core::name::Part::Dead;
        let queue = &mut self.queues[q];
        queue.used_at = self.now.boot;
        let mut doomed: Vec<u64> = queue
            .messages
            .iter()
            .filter(|m| m.dead == dead && !matches!(m.state, State::Locked(_)))
            .filter(|m| before.is_none_or(|before| m.enqueued_at < before))
            .map(|m| m.sequence)
            .collect();
        doomed.sort_unstable();
        doomed.truncate(max as usize);
        for sequence in &doomed {
            let m = self.queues[q].find(dead, *sequence).unwrap();
            let message = self.queues[q].messages.remove(m);
            self.queues[q].totals.purged += 1;
            self.item_gone(&message, Failure::Removed);
        }
        self.forget_sessions(q);
        Ok(Outcome::Count(doomed.len() as u64))
    }

    pub fn send(&mut self, name: &QueueName, messages: &[NewMessage]) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        if messages.is_empty() && self.queues[q].settings.status.can_send() {
            return Err(Refusal::InvalidValue { what: "messages", why: String::new() });
        }
        self.check_send(q, messages.iter())?;
        self.queues[q].used_at = self.now.boot;
        let numbers = messages.iter().map(|new| self.send_one(q, new)).collect();
        Ok(Outcome::Sent(Sequences::List(numbers)))
    }

    pub fn check_send<'a>(
        &self,
        q: usize,
        messages: impl Iterator<Item = &'a NewMessage>,
    ) -> Result<(), Refusal> {
        let queue = &self.queues[q];
        let settings = &queue.settings;
        if !settings.status.can_send() {
            let queue = queue.name.clone();
            return Err(Refusal::QueueDisabled { queue, operation: Operation::Send });
        }
        let mut bytes = 0;
        for new in messages {
            if new.content_bytes > settings.message_bytes_max {
                return Err(Refusal::TooLarge {
                    what: "a message, properties included,",
                    bytes: new.content_bytes.into(),
                    bytes_max: settings.message_bytes_max.into(),
                });
            }
            if settings.sessions && new.session.is_none() {
                return Err(Refusal::SessionRequired(queue.name.clone()));
            }
            if new.ttl_ms == Some(0) {
                return Err(Refusal::InvalidValue { what: "ttl_ms", why: String::new() });
            }
            bytes += u64::from(new.content_bytes);
        }
        if queue.size() + bytes > settings.size_bytes_max {
            let (queue, size_bytes_max) = (queue.name.clone(), settings.size_bytes_max);
            return Err(Refusal::QueueFull { queue, size_bytes_max });
        }
        Ok(())
    }

    fn send_one(&mut self, q: usize, new: &NewMessage) -> SequenceNumber {
        let (queue, now) = (&mut self.queues[q], self.now.wall);
        if let Some(window) = queue.settings.duplicate_window_ms.filter(|_| new.id_hash != 0) {
            let is_lately = |at: WallTime| at.plus_ms(window) > now;
            if queue.seen.iter().any(|(id, at)| *id == new.id_hash && is_lately(*at)) {
                queue.totals.duplicates += 1;
                return SequenceNumber(0);
            }
            queue.seen.push((new.id_hash, now));
        }
        let sequence = self.enqueue(q, new);
        if new.due.is_none_or(|due| due <= now) {
            self.forward(q, sequence);
        }
        SequenceNumber(sequence)
    }

    /// A message comes in from outside.
    pub fn enqueue(&mut self, q: usize, new: &NewMessage) -> u64 {
        let (queue, now) = (&mut self.queues[q], self.now.wall);
        let due = new.due.filter(|due| *due > now);
        let enqueued_at = due.unwrap_or(now);
        let ttl_ms = new.ttl_ms.unwrap_or(u64::MAX).min(queue.settings.ttl_ms.unwrap_or(u64::MAX));
        let sequence = queue.next();
        queue.totals.sent += 1;
        queue.messages.push(Message {
            dead: false,
            sequence,
            state: due.map_or(State::Ready, |due| State::Scheduled { due }),
            visible: false,
            bytes: new.content_bytes,
            overlay_bytes: None,
            enqueued_at,
            expires_at: enqueued_at.plus_ms(ttl_ms),
            origin: sequence,
            source: 0,
            session: new.session.clone(),
            number: 0,
            deliveries: 0,
            failures: 0,
            crashes: 0,
            releases: 0,
            reason: Reason::None,
            hops: 0,
            item: None,
            gathers: None,
            of_schedule: None,
        });
        self.mention_session(q, new.session.as_ref());
        sequence
    }

    pub fn cancel(
        &mut self,
        name: &QueueName,
        sequences: &[SequenceNumber],
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let queue = &mut self.queues[q];
        for sequence in sequences {
            let found = queue.find(false, sequence.0).map(|m| queue.messages[m].state);
            if !matches!(found, Some(State::Scheduled { .. })) {
                return Err(Refusal::MessageNotFound(*sequence));
            }
        }
        queue.used_at = self.now.boot;
        let mut count = 0;
        for sequence in sequences {
            if let Some(m) = self.queues[q].find(false, sequence.0) {
                let message = self.queues[q].messages.remove(m);
                self.queues[q].totals.cancelled += 1;
                self.item_gone(&message, Failure::Removed);
                count += 1;
            }
        }
        self.forget_sessions(q);
        Ok(Outcome::Count(count))
    }

    /// A scheduled message is appended as new; a delayed one returns to its place.
    pub fn becomes_due(&mut self, q: usize, m: usize) {
        let queue = &mut self.queues[q];
        if matches!(queue.messages[m].state, State::Scheduled { .. }) {
            queue.messages[m].sequence = queue.last + 1;
            queue.last += 1;
            queue.used_at = self.now.boot;
        }
        queue.messages[m].state = State::Ready;
        queue.messages[m].visible = false;
        let (dead, sequence) = (queue.messages[m].dead, queue.messages[m].sequence);
        if !dead {
            self.forward(q, sequence);
        }
    }

    /// Its time ran out.
    pub fn expire(&mut self, q: usize, m: usize) {
        if self.queues[q].settings.dead_letter_expired {
            self.dead_letter(q, m, Reason::TtlExpired, None);
        } else {
            let message = self.queues[q].messages.remove(m);
            self.queues[q].totals.expired += 1;
            self.forget_sessions(q);
            self.item_gone(&message, Failure::Expired);
        }
    }
}

impl super::Wait {
    pub fn queue(&self) -> Option<u32> {
        match self.for_what {
            ForWhat::Messages { queue, .. } | ForWhat::Session { queue, .. } => Some(queue),
            _ => None,
        }
    }
}
