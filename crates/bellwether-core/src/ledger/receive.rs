//! Receiving: handing messages out, waiting for them, looking at them.

use crate::change::{Change, Departure};
use crate::command::{Receive, ReceiveMode, Request};
use crate::contents::Contents;
use crate::error::{Operation, Refusal};
use crate::limits;
use crate::message::{Lock, Message, MessageView, Standing, State};
use crate::name::{
    At, DeliveryNumber, MemberSlot, Part, QueueId, QueuePath, SequenceNumber, SessionId,
    SessionToken, Ticket,
};
use crate::outage::Gate;
use crate::outcome::Outcome;
use crate::queue::{Demand, Queue};
use crate::ready::LaneId;
use crate::time::{Now, WallTime};

use super::set::with_session_lock;
use super::suspects::Turn;
use super::{Effects, Ledger, Waits, check_count};

/// Room for so many is made with the first message that is taken.
const TAKEN_AT_FIRST: usize = 16;

/// How messages are taken: by whom and how long.
#[derive(Clone, Copy)]
pub(super) struct Take {
    pub(super) lane: LaneId,
    pub(super) member: MemberSlot,
    pub(super) mode: ReceiveMode,
    pub(super) max: u32,
    pub(super) lock_ms: u32,
    /// Who gets nothing now waits.
    pub(super) waits: bool,
}

impl Ledger {
    pub(super) fn receive(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        receive: &Receive,
        fx: &mut Effects,
    ) -> Result<Option<Outcome>, Refusal> {
        let queue = self.queue_named_mut(&receive.from.queue)?;
        let (id, part) = (queue.id, receive.from.part);
        let lane = receive_lane(now, queue, part, receive.session.as_ref())?;
        let lock_ms = receive.lock_ms.unwrap_or(queue.settings.lock_ms);
        if !(limits::LOCK_MS_MIN..=limits::LOCK_MS_MAX).contains(&lock_ms) {
            let why = format!(
                "{lock_ms} is not between {} and {}",
                limits::LOCK_MS_MIN,
                limits::LOCK_MS_MAX
            );
            return Err(Refusal::InvalidValue { what: "lock_ms", why });
        }
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        queue.used_at = now.boot;
        self.check_unsettled(request.member, receive.mode, 1)?;
        let max = receive.max.clamp(1, limits::RECEIVE_MESSAGES_MAX);
        let (mode, waits) = (receive.mode, receive.wait_ms > 0);
        let take = Take { lane, member: request.member, mode, max, lock_ms, waits };
        let taken = self.take(now, id, part, take, Ok(()), fx)?;
        if !taken.is_empty() || receive.wait_ms == 0 {
            return Ok(Some(Outcome::Received(taken)));
        }
        let until = now.boot.plus_ms(receive.wait_ms.min(limits::WAIT_MS_MAX));
        let (member, number) = (request.member, request.number);
        let demand = Demand { member, number, max, mode: receive.mode, lock_ms, until };
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.shelf_mut(part).demands.insert((lane, ticket), demand);
        }
        self.wait(ticket, request, until, Waits::Messages(id, part, lane));
        Ok(None)
    }

    /// How many more a member may be handed.
    fn unsettled_room(&self, member: MemberSlot, mode: ReceiveMode) -> u32 {
        match mode {
            _ if cfg!(planted_bug = "unsettled_uncounted") => u32::MAX,
            ReceiveMode::PeekLock => self.unsettled_max.saturating_sub(self.unsettled.of(member)),
            ReceiveMode::ReceiveAndDelete => u32::MAX,
        }
    }

    pub(super) fn check_unsettled(
        &self,
        member: MemberSlot,
        mode: ReceiveMode,
        wanted: usize,
    ) -> Result<(), Refusal> {
        if wanted <= self.unsettled_room(member, mode) as usize {
            return Ok(());
        }
        let (what, max) = ("deliveries that one member has not settled", self.unsettled_max.into());
        Err(Refusal::TooMany { what, max })
    }

    /// Takes up to `take.max` messages out of a lane; if there is one for it and it may.
    pub(super) fn take(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        take: Take,
        may: Result<(), Refusal>,
        fx: &mut Effects,
    ) -> Result<Vec<MessageView>, Refusal> {
        let gate = self.gate(id, part, take.mode);
        let max = match gate {
            Gate::Open => take.max.min(self.unsettled_room(take.member, take.mode)),
            Gate::One => 1,
            Gate::Shut => return Ok(Vec::new()),
        };
        // In an outage nobody is kept free for anything.
        let take = Take { waits: take.waits && gate == Gate::Open, ..take };
        let taken = match self.turn(now, id, part, &take, fx) {
            Turn::Nothing => Vec::new(),
            Turn::Suspect(sequence) => {
                let at = At { queue: id, part, sequence };
                let Some(message) = self.message(at).copied() else { return Ok(Vec::new()) };
                may?;
                vec![self.hand_out(now, at, message, take, fx)]
            }
            Turn::Lane => self.take_from_lane(now, id, part, take, max, may, fx)?,
        };
        if let (Gate::One, Some(view)) = (gate, taken.first())
            && let Some(queue) = self.queues.get_mut(&id)
        {
            queue.outage.tries(view.sequence, view.message.standing.number);
        }
        Ok(taken)
    }

    #[allow(clippy::too_many_arguments, reason = "what is taken, from where and how")]
    fn take_from_lane(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        take: Take,
        max: u32,
        may: Result<(), Refusal>,
        fx: &mut Effects,
    ) -> Result<Vec<MessageView>, Refusal> {
        let lane = take.lane;
        let mut taken = Vec::new();
        let (mut expired, mut bytes, mut is_refused) = (0, 0, false);
        while taken.len() < max as usize && expired < limits::TICK_WORK_MAX {
            let Some(queue) = self.queues.get_mut(&id) else { break };
            let Some(sequence) = queue.shelf(part).ready.first(lane) else { break };
            if queue.sessions.get(lane).is_some_and(|session| session.is_blocked_before(sequence)) {
                break;
            }
            let shelf = queue.shelf_mut(part);
            let at = At { queue: id, part, sequence: SequenceNumber(sequence) };
            let Some(message) = shelf.messages.get(sequence).copied() else {
                shelf.ready.pop(lane);
                continue;
            };
            let is_expired = part == Part::Main && message.expires_at <= now.wall;
            let is_to_be_had = message.standing.state == State::Ready && !is_expired;
            let is_suspect = lane != 0 && is_to_be_had && self.is_suspect(at, &message.standing);
            if is_suspect && !self.suspect_in_session(id, &take, taken.len()) {
                break;
            }
            is_refused = may.is_err() && is_to_be_had;
            if is_refused {
                break;
            }
            // Of one message that is asked for nobody needs to know how long it is.
            if take.max > 1 && is_to_be_had {
                bytes += bytes_of(&self.contents, &message);
                if bytes > limits::RECEIVE_BYTES_MAX && !taken.is_empty() {
                    break;
                }
            }
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.shelf_mut(part).ready.pop(lane);
            }
            if message.standing.state != State::Ready {
                continue;
            }
            if is_expired {
                self.expire(now, at, fx);
                expired += 1;
                continue;
            }
            let view = self.hand_out(now, at, message, take, fx);
            if taken.is_empty() {
                // One is what most ask for.
                taken.reserve_exact((take.max as usize).min(TAKEN_AT_FIRST));
            }
            taken.push(view);
            if is_suspect {
                break;
            }
        }
        if expired == limits::TICK_WORK_MAX {
            // There may be more behind those that expired; the next step looks.
            self.stirred.insert((id, part, lane));
        }
        if lane != 0
            && let Some(queue) = self.queues.get_mut(&id)
        {
            queue.refresh_session(lane);
        }
        if is_refused { may.map(|()| taken) } else { Ok(taken) }
    }

    fn hand_out(
        &mut self,
        now: Now,
        at: At,
        message: Message,
        take: Take,
        fx: &mut Effects,
    ) -> MessageView {
        match take.mode {
            ReceiveMode::PeekLock => {
                let lock = Lock {
                    until: now.boot.plus_ms(take.lock_ms.into()),
                    lock_ms: take.lock_ms,
                    member: take.member,
                    incarnation: self.incarnation,
                    deferred: message.standing.state == State::Deferred,
                };
                let standing = Standing {
                    state: with_session_lock(take.lane, State::Locked(lock)),
                    number: DeliveryNumber(message.standing.number.0.wrapping_add(1)),
                    ..message.standing
                };
                self.emit(now, Change::Standing { at, standing }, fx);
                self.view(at, Message { standing, ..message })
            }
            ReceiveMode::ReceiveAndDelete => {
                let view = self.view(at, message);
                self.emit(now, Change::Gone { at, why: Departure::Completed }, fx);
                view
            }
        }
    }

    pub(super) fn view(&self, at: At, message: Message) -> MessageView {
        let place = |id| self.contents.place(id).unwrap_or_default();
        MessageView {
            sequence: at.sequence,
            message: Message { session: 0, ..message },
            session: self.session_id(at.queue, message.session),
            places: [place(message.content), place(message.standing.overlay)],
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn receive_deferred(
        &mut self,
        now: Now,
        member: MemberSlot,
        from: &QueuePath,
        session: Option<&SessionToken>,
        sequences: &[SequenceNumber],
        mode: ReceiveMode,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(&from.queue)?;
        let (id, part) = (queue.id, from.part);
        let lane = receive_lane(now, queue, part, session)?;
        let lock_ms = queue.settings.lock_ms;
        check_count("sequence numbers in one request", sequences.len())?;
        if member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        self.check_unsettled(member, mode, sequences.len())?;
        let at = |sequence: SequenceNumber| At { queue: id, part, sequence };
        for sequence in sequences {
            let found = self.message(at(*sequence)).is_some_and(|message| {
                message.standing.state == State::Deferred
                    && self.queues[&id].lane(part, message) == lane
            });
            if !found {
                return Err(Refusal::MessageNotFound(*sequence));
            }
        }
        let wanted = sequences.iter().filter_map(|sequence| self.message(at(*sequence)));
        let bytes = wanted.map(|message| bytes_of(&self.contents, message)).sum();
        if bytes > limits::RECEIVE_BYTES_MAX && sequences.len() > 1 {
            let (what, bytes_max) = ("what one receive asks for", limits::RECEIVE_BYTES_MAX);
            return Err(Refusal::TooLarge { what, bytes, bytes_max });
        }
        self.touch_queue(now, id);
        let take = Take { lane, member, mode, max: u32::MAX, lock_ms, waits: false };
        let mut taken = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            // The same number twice in one request is handed out once.
            if let Some(message) = self.message(at(*sequence)).copied()
                && message.standing.state == State::Deferred
            {
                taken.push(self.hand_out(now, at(*sequence), message, take, fx));
            }
        }
        Ok(Outcome::Received(taken))
    }

    pub(super) fn peek(
        &mut self,
        now: Now,
        from: &QueuePath,
        sequence: SequenceNumber,
        max: u32,
        session: Option<&SessionId>,
    ) -> Result<Outcome, Refusal> {
        let id = self.queue_id(&from.queue)?;
        self.touch_queue(now, id);
        let queue = &self.queues[&id];
        let lane = match session {
            Some(id) => match queue.sessions.find(id) {
                Some(lane) => Some(lane),
                None => return Ok(Outcome::Peeked(Vec::new())),
            },
            None => None,
        };
        let max = max.min(limits::RECEIVE_MESSAGES_MAX) as usize;
        let mut bytes = 0;
        let views = queue
            .shelf(from.part)
            .messages
            .range(sequence.0)
            .filter(|(_, message)| lane.is_none_or(|lane| message.session == lane))
            .take(max)
            .take_while(|(_, message)| {
                let is_first = bytes == 0;
                bytes += bytes_of(&self.contents, message);
                is_first || bytes <= limits::RECEIVE_BYTES_MAX
            })
            .map(|(sequence, message)| {
                let sequence = SequenceNumber(sequence);
                self.view(At { queue: queue.id, part: from.part, sequence }, *message)
            })
            .collect();
        Ok(Outcome::Peeked(views))
    }

    /// A message's time ran out: it becomes a dead letter or is dropped.
    pub(super) fn expire(&mut self, now: Now, at: At, fx: &mut Effects) {
        let Some(message) = self.message(at).copied() else { return };
        debug_assert!(message.expires_at != WallTime::NEVER);
        if self.queues[&at.queue].settings.dead_letter_expired {
            self.dead_letter(now, at, crate::message::Reason::TtlExpired, None, fx);
        } else {
            self.emit(now, Change::Gone { at, why: Departure::Expired }, fx);
        }
    }
}

/// What a message takes up in an answer.
fn bytes_of(contents: &Contents, message: &Message) -> u64 {
    contents.len(message.content) + contents.len(message.standing.overlay)
}

/// The lane a receive is for, after checking that it may be received from.
fn receive_lane(
    now: Now,
    queue: &Queue,
    part: Part,
    session: Option<&SessionToken>,
) -> Result<LaneId, Refusal> {
    if !queue.settings.status.can_receive() {
        let (queue, operation) = (queue.name.clone(), Operation::Receive);
        return Err(Refusal::QueueDisabled { queue, operation });
    }
    match (queue.settings.sessions && part == Part::Main, session) {
        (true, None) => Err(Refusal::SessionRequired(queue.name.clone())),
        (false, Some(_)) => Err(Refusal::SessionNotSupported(queue.name.clone())),
        (false, None) => Ok(0),
        (true, Some(token)) => queue.held_lane(now, token),
    }
}
