//! Receiving.

use bellwether_core::command::{Receive, ReceiveMode, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::{Operation, Refusal};
use bellwether_core::limits;
use bellwether_core::message::{self, Lock, MessageView, Standing, State};
use bellwether_core::name::{
    DeliveryNumber, Incarnation, MemberSlot, Part, QueueId, QueuePath, SequenceNumber, SessionId,
    SessionToken, Ticket,
};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::BootTime;

use super::outage::Turn;
use super::queues::Message;
use super::{ForWhat, Naive};

/// The message as it is shown.
pub fn view(message: &Message) -> MessageView {
    MessageView {
        sequence: SequenceNumber(message.sequence),
        message: message::Message {
            content: ContentId(1),
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            origin: SequenceNumber(message.origin),
            session: 0,
            source: QueueId(message.source),
            standing: Standing {
                state: message.state,
                number: DeliveryNumber(message.number),
                deliveries: message.deliveries,
                failures: message.failures,
                crashes: message.crashes,
                releases: message.releases,
                reason: message.reason,
                hops: message.hops,
                overlay: ContentId(u64::from(message.overlay_bytes.is_some())),
            },
        },
        session: message.session.clone(),
        places: [Place::default(); 2],
    }
}

impl Naive {
    /// Whether this may be received from at all, and from which session.
    fn check_receive(
        &self,
        q: usize,
        part: Part,
        session: Option<&SessionToken>,
    ) -> Result<Option<SessionId>, Refusal> {
        let queue = &self.queues[q];
        if !queue.settings.status.can_receive() {
            let queue = queue.name.clone();
            return Err(Refusal::QueueDisabled { queue, operation: Operation::Receive });
        }
        match (queue.settings.sessions && part == Part::Main, session) {
            (true, None) => Err(Refusal::SessionRequired(queue.name.clone())),
            (false, Some(_)) => Err(Refusal::SessionNotSupported(queue.name.clone())),
            (false, None) => Ok(None),
            (true, Some(token)) => {
                self.held(q, token)?;
                Ok(Some(token.session.clone()))
            }
        }
    }

    pub fn receive(
        &mut self,
        ticket: Ticket,
        request: &Request,
        receive: &Receive,
    ) -> Result<Option<Outcome>, Refusal> {
        let q = self.queue_named(&receive.from.queue)?;
        self.check_receive(q, receive.from.part, receive.session.as_ref())?;
        let lock_ms = receive.lock_ms.unwrap_or(self.queues[q].settings.lock_ms);
        if !(limits::LOCK_MS_MIN..=limits::LOCK_MS_MAX).contains(&lock_ms) {
            return Err(Refusal::InvalidValue { what: "lock_ms", why: String::new() });
        }
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        self.queues[q].used_at = self.now.boot;
        let taken = self.take(q, receive, lock_ms, request.member.0, receive.wait_ms > 0);
        if !taken.is_empty() || receive.wait_ms == 0 {
            return Ok(Some(Outcome::Received(taken)));
        }
        let (queue, receive) = (self.queues[q].id, receive.clone());
        let wait_ms = receive.wait_ms;
        self.wait(ticket, request, wait_ms, ForWhat::Messages { queue, receive, lock_ms });
        Ok(None)
    }

    /// Hands out what there is, in the order of numbers. In a session, what waits for a retry or
    /// is not shown yet holds back everything behind it.
    pub fn take(
        &mut self,
        q: usize,
        receive: &Receive,
        lock_ms: u32,
        member: u32,
        waits: bool,
    ) -> Vec<MessageView> {
        let dead = receive.from.part == Part::Dead;
        let session = receive.session.as_ref().map(|token| token.session.clone());
        let in_session = session.is_some();
        let mut taken = Vec::new();
        let (max, suspect) = match self.turn(q, receive, member, waits) {
            Turn::Nothing => return taken,
            Turn::Suspect(number) => (1, Some(number)),
            Turn::Others(max) => (max, None),
        };
        for number in self.numbers_of(q, dead, session.as_ref()) {
            if taken.len() >= max {
                break;
            }
            let Some(m) = self.queues[q].find(dead, number) else { continue };
            let message = &self.queues[q].messages[m];
            match message.state {
                State::Delayed { .. } if in_session => break,
                State::Ready if !message.visible && in_session => break,
                State::Ready if !message.visible => {}
                State::Ready if !dead && message.expires_at <= self.now.wall => self.expire(q, m),
                State::Ready if suspect.is_some_and(|suspect| suspect != number) => {}
                State::Ready if suspect.is_none() && self.is_suspect(q, m) && in_session => break,
                State::Ready if suspect.is_none() && self.is_suspect(q, m) => {}
                State::Ready => {
                    let view = self.hand_out(q, m, receive.mode, lock_ms, member, in_session);
                    self.tries(q, receive, number, view.message.standing.number.0);
                    taken.push(view);
                }
                _ => {}
            }
        }
        taken
    }

    /// Whether [`Naive::take`] would hand out anything. What has expired goes, as there.
    pub fn has_one(&mut self, q: usize, receive: &Receive, member: u32) -> bool {
        let dead = receive.from.part == Part::Dead;
        let session = receive.session.as_ref().map(|token| token.session.clone());
        match self.turn(q, receive, member, true) {
            Turn::Nothing => return false,
            Turn::Suspect(_) => return true,
            Turn::Others(_) => {}
        }
        for number in self.numbers_of(q, dead, session.as_ref()) {
            let Some(m) = self.queues[q].find(dead, number) else { continue };
            let message = &self.queues[q].messages[m];
            match message.state {
                State::Delayed { .. } if session.is_some() => return false,
                State::Ready if !message.visible && session.is_some() => return false,
                State::Ready if !message.visible => {}
                State::Ready if !dead && message.expires_at <= self.now.wall => self.expire(q, m),
                State::Ready if self.is_suspect(q, m) => {}
                State::Ready => return true,
                _ => {}
            }
        }
        false
    }

    fn numbers_of(&self, q: usize, dead: bool, session: Option<&SessionId>) -> Vec<u64> {
        self.queues[q]
            .by_number(dead)
            .into_iter()
            .map(|m| &self.queues[q].messages[m])
            .filter(|m| session.is_none() || m.session.as_ref() == session)
            .map(|m| m.sequence)
            .collect()
    }

    fn hand_out(
        &mut self,
        q: usize,
        m: usize,
        mode: ReceiveMode,
        lock_ms: u32,
        member: u32,
        in_session: bool,
    ) -> MessageView {
        let queue = &mut self.queues[q];
        if mode == ReceiveMode::ReceiveAndDelete {
            let view = view(&queue.messages[m]);
            queue.messages.remove(m);
            queue.totals.completed += 1;
            self.forget_sessions(q);
            return view;
        }
        let message = &mut queue.messages[m];
        let end = self.now.boot.plus_ms(lock_ms.into());
        message.number += 1;
        let lock = Lock {
            // The hold decides how long.
            until: if in_session { BootTime::NEVER } else { end },
            lock_ms,
            member: MemberSlot(member),
            incarnation: Incarnation(self.incarnation),
            deferred: message.state == State::Deferred,
        };
        message.state = State::Locked(lock);
        view(message)
    }

    pub fn receive_deferred(
        &mut self,
        member: u32,
        from: &QueuePath,
        session: Option<&SessionToken>,
        sequences: &[SequenceNumber],
        mode: ReceiveMode,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        let session = self.check_receive(q, from.part, session)?;
        if member == 0 {
            return Err(Refusal::MemberGone);
        }
        let dead = from.part == Part::Dead;
        let queue = &mut self.queues[q];
        for sequence in sequences {
            let found = queue.find(dead, sequence.0).map(|m| &queue.messages[m]);
            let is_there = found.is_some_and(|m| {
                m.state == State::Deferred && (session.is_none() || m.session == session)
            });
            if !is_there {
                return Err(Refusal::MessageNotFound(*sequence));
            }
        }
        queue.used_at = self.now.boot;
        let lock_ms = queue.settings.lock_ms;
        let mut taken = Vec::new();
        for sequence in sequences {
            let Some(m) = self.queues[q].find(dead, sequence.0) else { continue };
            if self.queues[q].messages[m].state == State::Deferred {
                taken.push(self.hand_out(q, m, mode, lock_ms, member, session.is_some()));
            }
        }
        Ok(Outcome::Received(taken))
    }

    pub fn peek(
        &mut self,
        from: &QueuePath,
        sequence: u64,
        max: u32,
        session: Option<&SessionId>,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        self.queues[q].used_at = self.now.boot;
        let queue = &self.queues[q];
        let views = queue
            .by_number(from.part == Part::Dead)
            .into_iter()
            .map(|m| &queue.messages[m])
            .filter(|m| m.sequence >= sequence)
            .filter(|m| session.is_none() || m.session.as_ref() == session)
            .take(max as usize)
            .map(view);
        Ok(Outcome::Peeked(views.collect()))
    }
}
