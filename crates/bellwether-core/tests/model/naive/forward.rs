//! Forwarding, dead letters, and sending them again.

use bellwether_core::error::{Operation, Refusal};
use bellwether_core::limits;
use bellwether_core::message::{Reason, State};
use bellwether_core::name::{QueueName, SequenceNumber};
use bellwether_core::note::NoteState;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::WallTime;

use super::Naive;
use super::queues::Message;

impl Naive {
    /// Why a queue would not take a forwarded message, if it would not.
    fn objection(&self, target: &QueueName, message: &Message) -> Result<usize, Reason> {
        let t = self.queue_named(target).map_err(|_| Reason::ForwardTargetUnavailable)?;
        let queue = &self.queues[t];
        let is_full = queue.size() + message.size() > queue.settings.size_bytes_max
            || queue.settings.order.messages_max.is_some_and(|max| queue.live() >= max);
        if !queue.settings.status.can_send() || is_full {
            return Err(Reason::ForwardTargetUnavailable);
        }
        if queue.settings.sessions && message.session.is_none() {
            return Err(Reason::SessionIdIsNull);
        }
        Ok(t)
    }

    /// A ready message moves on as far as it goes.
    pub fn forward(&mut self, q: usize, sequence: u64) {
        let Some(target) = self.queues[q].settings.forward_to.clone() else { return };
        let m = self.queues[q].find(false, sequence).unwrap();
        let message = self.queues[q].messages[m].clone();
        if message.hops >= limits::FORWARD_HOPS_MAX {
            return self.dead_letter(q, m, Reason::MaxTransferHopCountExceeded, None);
        }
        match self.objection(&target, &message) {
            Err(reason) => self.dead_letter(q, m, reason, None),
            Ok(t) => {
                self.queues[q].totals.forwarded += 1;
                self.queues[q].messages.remove(m);
                self.queues[q].settle_ring();
                self.forget_sessions(q);
                let (hops, until) = (message.hops + 1, message.expires_at);
                self.arrive(t, &Message { hops, ..message }, until);
            }
        }
    }

    /// A message comes into a queue from another one and starts there as if sent.
    fn arrive(&mut self, t: usize, message: &Message, not_after: WallTime) {
        let stamp = self.next_stamp();
        let queue = &mut self.queues[t];
        let sequence = queue.next();
        queue.totals.sent += 1;
        queue.used_at = self.now.boot;
        let ttl = queue.settings.ttl_ms.map_or(WallTime::NEVER, |ms| self.now.wall.plus_ms(ms));
        queue.messages.push(Message {
            dead: false,
            sequence,
            state: State::Ready,
            visible: false,
            stamp,
            enqueued_at: self.now.wall,
            expires_at: ttl.min(not_after),
            number: 0,
            deliveries: 0,
            failures: 0,
            crashes: 0,
            releases: 0,
            ..message.clone()
        });
        self.mention_session(t, message.session.as_ref());
        self.forward(t, sequence);
    }

    pub fn forward_what_waits(&mut self, q: usize) {
        let queue = &self.queues[q];
        let mut ready: Vec<u64> = queue
            .messages
            .iter()
            .filter(|m| !m.dead && m.state == State::Ready)
            .map(|m| m.sequence)
            .collect();
        ready.sort_unstable();
        for sequence in ready {
            self.forward(q, sequence);
        }
    }

    /// Sets a message aside with its reason: here, or where the queue's dead letters go.
    pub fn dead_letter(&mut self, q: usize, m: usize, reason: Reason, overlay: Option<u32>) {
        let id = self.queues[q].id;
        let message = &mut self.queues[q].messages[m];
        message.reason = reason;
        message.overlay_bytes = overlay.or(message.overlay_bytes);
        message.source = id;
        let message = message.clone();
        let item = message.clone();
        let target = self.queues[q].settings.forward_dead_letters_to.clone();
        let target = target.filter(|_| message.hops < limits::FORWARD_HOPS_MAX);
        let target = target.and_then(|target| self.objection(&target, &message).ok());
        let queue = &mut self.queues[q];
        if let Some(t) = target {
            queue.totals.forwarded += 1;
            queue.messages.remove(m);
            queue.settle_ring();
            self.forget_sessions(q);
            let hops = message.hops + 1;
            self.arrive(t, &Message { hops, ..message }, WallTime::NEVER);
        } else {
            queue.totals.dead_lettered += 1;
            let message = &mut queue.messages[m];
            self.left.push((message.content, NoteState::Gone));
            message.dead = true;
            message.state = State::Ready;
            message.visible = false;
            queue.settle_ring();
        }
        self.item_dead_lettered(&item, reason);
    }

    /// A message that has just come in goes where it has room.
    pub fn spill(&mut self, q: usize, sequence: u64, target: &QueueName) {
        let m = self.queues[q].find(false, sequence).unwrap();
        let message = self.queues[q].messages.remove(m);
        self.queues[q].totals.forwarded += 1;
        self.forget_sessions(q);
        let (t, until) = (self.queue_named(target).unwrap(), message.expires_at);
        self.arrive(t, &Message { hops: 1, ..message }, until);
    }

    pub fn redrive(
        &mut self,
        name: &QueueName,
        to: Option<&QueueName>,
        sequences: &[SequenceNumber],
        max: u32,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let t = self.queue_named(to.unwrap_or(name))?;
        let target = &self.queues[t];
        if !target.settings.status.can_send() {
            let queue = target.name.clone();
            return Err(Refusal::QueueDisabled { queue, operation: Operation::Send });
        }
        let queue = &self.queues[q];
        let is_ready =
            |n: u64| queue.find(true, n).is_some_and(|m| queue.messages[m].state == State::Ready);
        if let Some(missing) = sequences.iter().find(|sequence| !is_ready(sequence.0)) {
            return Err(Refusal::MessageNotFound(*missing));
        }
        let mut chosen: Vec<u64> = if sequences.is_empty() {
            let all = queue.by_number(true).into_iter().map(|m| queue.messages[m].sequence);
            all.filter(|n| is_ready(*n)).collect()
        } else {
            sequences.iter().map(|sequence| sequence.0).collect()
        };
        chosen.truncate(max as usize);
        chosen.sort_unstable();
        chosen.dedup();
        let message = |n: &u64| &queue.messages[queue.find(true, *n).unwrap()];
        if target.settings.sessions && chosen.iter().any(|n| message(n).session.is_none()) {
            return Err(Refusal::SessionRequired(target.name.clone()));
        }
        let bytes: u64 = chosen.iter().map(|n| message(n).size()).sum();
        if t != q && target.size() + bytes > target.settings.size_bytes_max {
            let (queue, size_bytes_max) = (target.name.clone(), target.settings.size_bytes_max);
            return Err(Refusal::QueueFull { queue, size_bytes_max });
        }
        let max = target.settings.order.messages_max;
        if max.is_some_and(|max| target.live() + chosen.len() as u64 > max) {
            return Err(self.too_many(t));
        }
        self.queues[q].used_at = self.now.boot;
        self.queues[t].used_at = self.now.boot;
        for sequence in &chosen {
            let m = self.queues[q].find(true, *sequence).unwrap();
            let message = self.queues[q].messages.remove(m);
            if t == q {
                // It never left the queue, so it is not counted as coming in again.
                self.queues[q].totals.sent -= 1;
            } else {
                self.queues[q].totals.forwarded += 1;
            }
            self.item_redriven(&message);
            let fresh = Message { reason: Reason::None, hops: 0, source: 0, ..message };
            self.arrive(t, &fresh, WallTime::NEVER);
            self.forget_sessions(q);
        }
        Ok(Outcome::Count(chosen.len() as u64))
    }
}
