//! Sending: into a queue, on to another, to the dead letters, and back.

use crate::change::{Change, Departure};
use crate::content::ContentId;
use crate::error::{Operation, Refusal};
use crate::limits;
use crate::message::{Message, NewMessage, Reason, Standing, State};
use crate::name::{At, Part, QueueId, QueueName, SequenceNumber, SessionId};
use crate::outcome::{Outcome, Sequences};
use crate::queue::Queue;
use crate::rank::Rank;
use crate::time::{Now, WallTime};

use super::transact::Ahead;
use super::{Effects, Ledger, check_count};

/// How a message moves to another queue, or begins again in its own.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) why: Departure,
    pub(super) source: QueueId,
    pub(super) hops: u8,
    /// It expires no later than this.
    pub(super) not_after: WallTime,
}

/// The numbers of one send, as a run for as long as they are one: a ring of forwarding queues
/// takes numbers in between.
#[derive(Default)]
struct Numbers {
    first: SequenceNumber,
    count: u32,
    list: Vec<SequenceNumber>,
}

impl Numbers {
    fn push(&mut self, number: SequenceNumber) {
        if self.count == 0 {
            self.first = number;
        }
        let is_next = number.0 != 0 && number.0 == self.first.0 + u64::from(self.count);
        if self.list.is_empty() && !is_next {
            self.list = Sequences::Run { first: self.first, count: self.count }.iter().collect();
        }
        if !is_next || !self.list.is_empty() {
            self.list.push(number);
        }
        self.count += 1;
    }
}

impl From<Numbers> for Sequences {
    fn from(numbers: Numbers) -> Self {
        let Numbers { first, count, list } = numbers;
        if list.is_empty() { Self::Run { first, count } } else { Self::List(list) }
    }
}

impl Ledger {
    pub(super) fn send(
        &mut self,
        now: Now,
        name: &QueueName,
        messages: &[NewMessage],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let id = queue.id;
        let checked = self.check_send(queue, messages, Ahead::default());
        if let Err(refusal) = checked.and_then(|()| self.check_room(queue, messages)) {
            self.count_refused(id, messages.len(), &refusal);
            return Err(refusal);
        }
        Ok(Outcome::Sent(self.put_all(now, id, messages, 0, fx)))
    }

    /// Puts messages that were checked into a queue. Their contents are those from `first` on.
    pub(super) fn put_all(
        &mut self,
        now: Now,
        id: QueueId,
        messages: &[NewMessage],
        first: u32,
        fx: &mut Effects,
    ) -> Sequences {
        let queue = &self.queues[&id];
        let window = queue.settings.duplicate_window_ms;
        let forwards = queue.settings.forward_to.is_some();
        let is_bounded = queue.settings.order.messages_max.is_some();
        self.touch_queue(now, id);

        let mut numbers = Numbers::default();
        let mut oldest = 0;
        for (index, new) in (first..).zip(messages) {
            if let Some(window) = window.filter(|_| new.id_hash != 0) {
                if self.queues[&id].seen.contains(new.id_hash, now.wall, window) {
                    self.emit(now, Change::Duplicate { queue: id }, fx);
                    numbers.push(SequenceNumber(0));
                    continue;
                }
                let seen = Change::Seen { queue: id, id_hash: new.id_hash, at: now.wall };
                self.emit(now, seen, fx);
            }
            let content = self.contents.next_id();
            let len = new.content_bytes;
            self.emit(now, Change::Content { id: content, index, len }, fx);
            let spills = if is_bounded { self.make_room(now, id, &mut oldest, fx) } else { None };
            let at = self.put_new(now, id, new, content, fx);
            numbers.push(at.sequence);
            if let Some(target) = spills {
                self.spill(now, at, target, fx);
            } else if forwards && new.due.is_none_or(|due| due <= now.wall) {
                self.forward(now, at, fx);
            }
        }
        numbers.into()
    }

    /// Everything that can be refused is refused before anything is changed: a batch is accepted
    /// whole or not at all.
    pub(super) fn check_send(
        &self,
        queue: &Queue,
        messages: &[NewMessage],
        ahead: Ahead,
    ) -> Result<(), Refusal> {
        let settings = &queue.settings;
        if !settings.status.can_send() {
            let (queue, operation) = (queue.name.clone(), Operation::Send);
            return Err(Refusal::QueueDisabled { queue, operation });
        }
        if messages.is_empty() {
            let why = "a send needs at least one message".into();
            return Err(Refusal::InvalidValue { what: "messages", why });
        }
        check_count("messages in one send", messages.len())?;
        if self.disk_full {
            return Err(Refusal::DiskFull);
        }
        let mut bytes = 0;
        for new in messages {
            bytes += u64::from(new.content_bytes);
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
                let why = "0 lets a message expire before anybody can receive it; the least is 1, \
                           or leave it out: then it lives as long as the queue allows";
                return Err(Refusal::InvalidValue { what: "ttl_ms", why: why.into() });
            }
            new.rank.check()?;
        }
        check_keys(queue, messages.iter().map(|new| &new.rank))?;
        let named = messages.iter().filter_map(|new| new.session.as_ref());
        self.check_sessions(queue, named, ahead.sessions)?;
        if bytes > limits::COMMAND_BYTES_MAX {
            let bytes_max = limits::COMMAND_BYTES_MAX;
            return Err(Refusal::TooLarge { what: "one send", bytes, bytes_max });
        }
        if ahead.size_bytes(queue) + bytes > settings.size_bytes_max {
            let (queue, size_bytes_max) = (queue.name.clone(), settings.size_bytes_max);
            return Err(Refusal::QueueFull { queue, size_bytes_max });
        }
        let added = (ahead.messages_in + messages.len() as u64) * limits::MESSAGE_MEMORY_BYTES;
        let freed = ahead.messages_out * limits::MESSAGE_MEMORY_BYTES;
        if self.memory_bytes() + added > self.memory_bytes_max + freed {
            return Err(Refusal::Busy { retry_after_ms: 100 });
        }
        Ok(())
    }

    pub(super) fn put_new(
        &mut self,
        now: Now,
        id: QueueId,
        new: &NewMessage,
        content: ContentId,
        fx: &mut Effects,
    ) -> At {
        let queue = &self.queues[&id];
        let sequence = queue.next_sequence();
        let due = new.due.filter(|due| *due > now.wall);
        let ttl_ms = match (new.ttl_ms, queue.settings.ttl_ms) {
            (Some(own), Some(cut)) => Some(own.min(cut)),
            (own, cut) => own.or(cut),
        };
        let enqueued_at = due.unwrap_or(now.wall);
        let state = due.map_or(State::Ready, |due| State::Scheduled { due });
        let message = Message {
            content,
            enqueued_at,
            expires_at: ttl_ms.map_or(WallTime::NEVER, |ms| enqueued_at.plus_ms(ms)),
            origin: sequence,
            mark: 0,
            source: QueueId(0),
            standing: Standing::new(state),
        };
        let at = At { queue: id, part: Part::Main, sequence };
        let (session, rank) = (new.session.clone(), new.rank.clone());
        self.emit(now, Change::Message { at, message, session, rank, arrived: true }, fx);
        at
    }

    pub(super) fn cancel(
        &mut self,
        now: Now,
        name: &QueueName,
        sequences: &[SequenceNumber],
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let id = self.queue_id(name)?;
        self.check_cancel(id, sequences)?;
        Ok(Outcome::Count(self.put_cancelled(now, id, sequences, fx)))
    }

    pub(super) fn check_cancel(
        &self,
        id: QueueId,
        sequences: &[SequenceNumber],
    ) -> Result<(), Refusal> {
        check_count("sequence numbers in one request", sequences.len())?;
        let is_scheduled = |sequence: &SequenceNumber| {
            let message = self.message(At { queue: id, part: Part::Main, sequence: *sequence });
            message.is_some_and(|m| matches!(m.standing.state, State::Scheduled { .. }))
        };
        match sequences.iter().find(|sequence| !is_scheduled(sequence)) {
            Some(missing) => Err(Refusal::MessageNotFound(*missing)),
            None => Ok(()),
        }
    }

    /// Takes back messages that are scheduled; returns how many.
    pub(super) fn put_cancelled(
        &mut self,
        now: Now,
        id: QueueId,
        sequences: &[SequenceNumber],
        fx: &mut Effects,
    ) -> u64 {
        let at =
            |sequence: &SequenceNumber| At { queue: id, part: Part::Main, sequence: *sequence };
        self.touch_queue(now, id);
        let mut count = 0;
        for sequence in sequences {
            // The same number twice in one request is cancelled once.
            if self.message(at(sequence)).is_some() {
                self.depart(now, at(sequence), Departure::Cancelled, fx);
                count += 1;
            }
        }
        count
    }

    /// Moves a ready message on, as far as forwarding goes. What cannot move on becomes a
    /// dead letter where it stopped.
    pub(super) fn forward(&mut self, now: Now, from: At, fx: &mut Effects) {
        let mut at = from;
        while let Some(target) = self.queues[&at.queue].settings.forward_to.clone() {
            let Some(message) = self.message(at).copied() else { return };
            if message.standing.hops >= limits::FORWARD_HOPS_MAX {
                self.dead_letter(now, at, Reason::MaxTransferHopCountExceeded, None, fx);
                return;
            }
            match self.check_forward(&target, at, message.standing.overlay) {
                Ok(to) => {
                    let how = Move {
                        why: Departure::Forwarded,
                        source: message.source,
                        hops: message.standing.hops + 1,
                        not_after: message.expires_at,
                    };
                    at = self.move_to(now, at, to, how, fx);
                }
                Err(reason) => {
                    self.dead_letter(now, at, reason, None, fx);
                    return;
                }
            }
        }
    }

    pub(super) fn check_forward(
        &self,
        target: &QueueName,
        at: At,
        overlay: ContentId,
    ) -> Result<QueueId, Reason> {
        let target = self
            .names
            .get(target)
            .map(|id| &self.queues[id])
            .ok_or(Reason::ForwardTargetUnavailable)?;
        let content = self.message(at).map_or(ContentId(0), |message| message.content);
        let bytes = self.contents.len(content) + self.contents.len(overlay);
        if !target.settings.status.can_send()
            || target.size_bytes + bytes > target.settings.size_bytes_max
            || target.is_crowded_by(1)
        {
            return Err(Reason::ForwardTargetUnavailable);
        }
        if target.settings.sessions && self.session_of(at).is_none() {
            return Err(Reason::SessionIdIsNull);
        }
        Ok(target.id)
    }

    /// Moves a message into a queue under a new number: it starts there as if sent, but for what
    /// was changed on it.
    pub(super) fn move_to(
        &mut self,
        now: Now,
        at: At,
        to: QueueId,
        how: Move,
        fx: &mut Effects,
    ) -> At {
        let old = *self.message(at).expect("a message that moves is there");
        let (session, rank) = self.marked(at.queue, old.mark);
        let ttl_ms = self.queues[&to].settings.ttl_ms;
        let sequence = self.queues[&to].next_sequence();
        let standing = Standing {
            hops: how.hops,
            overlay: old.standing.overlay,
            reason: old.standing.reason,
            ..Standing::new(State::Ready)
        };
        let message = Message {
            enqueued_at: now.wall,
            expires_at: ttl_ms
                .map_or(WallTime::NEVER, |ms| now.wall.plus_ms(ms))
                .min(how.not_after),
            mark: 0,
            source: how.source,
            standing,
            ..old
        };
        let moved = At { queue: to, part: Part::Main, sequence };
        let arrived = to != at.queue;
        // First there, then gone here: a content must not lose its last reference in between.
        self.emit(now, Change::Message { at: moved, message, session, rank, arrived }, fx);
        self.emit(now, Change::Gone { at, why: how.why }, fx);
        moved
    }

    /// Sets a message aside with its reason. If it is an item, it has failed.
    pub(super) fn dead_letter(
        &mut self,
        now: Now,
        at: At,
        reason: Reason,
        overlay: Option<ContentId>,
        fx: &mut Effects,
    ) {
        let Some(content) = self.message(at).map(|message| message.content) else { return };
        self.set_aside(now, at, reason, overlay, fx);
        self.item_dead_lettered(now, content, reason, fx);
    }

    /// … in its queue's dead letters or where they go.
    fn set_aside(
        &mut self,
        now: Now,
        at: At,
        reason: Reason,
        overlay: Option<ContentId>,
        fx: &mut Effects,
    ) {
        let Some(old) = self.message(at).copied() else { return };
        let (session, rank) = self.marked(at.queue, old.mark);
        let standing = Standing {
            state: State::Ready,
            reason,
            overlay: overlay.unwrap_or(old.standing.overlay),
            ..old.standing
        };
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        queue.activity.count_dead_letter(reason);
        let target = queue.settings.forward_dead_letters_to.clone();
        let target = target
            .filter(|_| old.standing.hops < limits::FORWARD_HOPS_MAX)
            .and_then(|name| self.check_forward(&name, at, standing.overlay).ok());
        if let Some(to) = target {
            self.emit(
                now,
                Change::Standing {
                    at,
                    standing: Standing { state: old.standing.state, ..standing },
                },
                fx,
            );
            // A dead letter has no time-to-live of its own any more: the one that expired
            // must not expire again where it goes.
            let how = Move {
                why: Departure::Forwarded,
                source: at.queue,
                hops: old.standing.hops + 1,
                not_after: WallTime::NEVER,
            };
            let moved = self.move_to(now, at, to, how, fx);
            self.forward(now, moved, fx);
            return;
        }
        let dead = At { part: Part::Dead, ..at };
        let message = Message { source: at.queue, mark: 0, standing, ..old };
        self.emit(now, Change::Message { at: dead, message, session, rank, arrived: false }, fx);
        self.emit(now, Change::Gone { at, why: Departure::DeadLettered }, fx);
    }

    /// Dead letters are sent again.
    pub(super) fn redrive(
        &mut self,
        now: Now,
        name: &QueueName,
        to: Option<&QueueName>,
        sequences: &[SequenceNumber],
        max: u32,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let id = self.queue_id(name)?;
        let target = self.queue_named(to.unwrap_or(name))?;
        let (target_id, sessions) = (target.id, target.settings.sessions);
        if !target.settings.status.can_send() {
            let (queue, operation) = (target.name.clone(), Operation::Send);
            return Err(Refusal::QueueDisabled { queue, operation });
        }
        check_count("sequence numbers in one request", sequences.len())?;
        let at = |sequence| At { queue: id, part: Part::Dead, sequence };
        let is_ready = |at: At| self.message(at).is_some_and(|m| m.standing.state == State::Ready);
        if let Some(missing) = sequences.iter().find(|sequence| !is_ready(at(**sequence))) {
            return Err(Refusal::MessageNotFound(*missing));
        }
        let max = max.min(limits::BATCH_MESSAGES_MAX as u32) as usize;
        let mut chosen: Vec<SequenceNumber> = if sequences.is_empty() {
            let dead = &self.queues[&id].dead;
            let ready = dead.messages.range(0).filter(|(_, m)| m.standing.state == State::Ready);
            ready.map(|(sequence, _)| SequenceNumber(sequence)).take(max).collect()
        } else {
            sequences.iter().copied().take(max).collect()
        };
        chosen.sort_unstable();
        chosen.dedup();
        if sessions && chosen.iter().any(|sequence| self.session_of(at(*sequence)).is_none()) {
            return Err(Refusal::SessionRequired(self.queues[&target_id].name.clone()));
        }
        let bytes = |sequence: &SequenceNumber| {
            self.message(at(*sequence)).map_or(0, |message| {
                self.contents.len(message.content) + self.contents.len(message.standing.overlay)
            })
        };
        let bytes: u64 = chosen.iter().map(bytes).sum();
        let target = &self.queues[&target_id];
        if target_id != id && target.size_bytes + bytes > target.settings.size_bytes_max {
            let (queue, size_bytes_max) = (target.name.clone(), target.settings.size_bytes_max);
            return Err(Refusal::QueueFull { queue, size_bytes_max });
        }
        if target.is_crowded_by(chosen.len() as u64) {
            return Err(self.busy(target, chosen.len()));
        }
        self.touch_queue(now, id);
        self.touch_queue(now, target_id);
        for sequence in &chosen {
            let why = if target_id == id { Departure::Moved } else { Departure::Forwarded };
            // Reason and description stay with the dead letter's life, not with the new one.
            let dead = at(*sequence);
            if let Some(message) = self.message(dead).copied() {
                let standing = Standing { reason: Reason::None, ..message.standing };
                self.emit(now, Change::Standing { at: dead, standing }, fx);
            }
            let how = Move { why, source: QueueId(0), hops: 0, not_after: WallTime::NEVER };
            let moved = self.move_to(now, dead, target_id, how, fx);
            self.item_redriven(now, moved, fx);
            self.forward(now, moved, fx);
        }
        Ok(Outcome::Count(chosen.len() as u64))
    }

    /// The session a message names, also where its queue has none.
    pub(super) fn session_of(&self, at: At) -> Option<SessionId> {
        self.marked(at.queue, self.message(at)?.mark).0
    }

    /// Session and rank that a mark stands for.
    pub(super) fn marked(&self, queue: QueueId, mark: u32) -> (Option<SessionId>, Rank) {
        let queue = if mark == 0 { None } else { self.queues.get(&queue) };
        let Some(queue) = queue else { return (None, Rank::default()) };
        let session = queue.sessions.get(queue.keys.session(mark));
        (session.map(|session| session.id.clone()), queue.keys.rank(mark))
    }
}

/// Whether there is room in a queue for the keys that are named. Each name counts that is not
/// known, as with sessions.
pub(super) fn check_keys<'a>(
    queue: &Queue,
    ranks: impl ExactSizeIterator<Item = &'a Rank>,
) -> Result<(), Refusal> {
    let (known, max) = (queue.keys.len(), limits::KEYS_PER_QUEUE_MAX);
    if known + ranks.len() <= max {
        return Ok(());
    }
    let mut new = ranks.filter_map(|rank| rank.key.as_ref()).filter(|k| !queue.keys.contains(k));
    if new.nth(max.saturating_sub(known)).is_some() {
        return Err(Refusal::TooMany { what: "keys in the queue", max: max as u64 });
    }
    Ok(())
}
