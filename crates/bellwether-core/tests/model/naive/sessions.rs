//! Sessions.

use bellwether_core::command::{NewContent, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::{Operation, Refusal};
use bellwether_core::message::State;
use bellwether_core::name::{
    DeliveryNumber, Incarnation, QueueName, SessionId, SessionToken, Ticket,
};
use bellwether_core::outcome::{Outcome, SessionHold};
use bellwether_core::time::BootTime;

use super::settle::Return;
use super::{ForWhat, Naive};

pub struct Session {
    pub id: SessionId,
    pub hold: Option<Hold>,
    pub state_bytes: Option<u32>,
}

pub struct Hold {
    pub number: u32,
    pub incarnation: u32,
    pub lock_ms: u32,
    pub until: BootTime,
    pub member: u32,
}

impl Naive {
    /// A session is there from its first mention on.
    pub fn mention_session(&mut self, q: usize, id: Option<&SessionId>) {
        let Some(id) = id else { return };
        let sessions = &mut self.queues[q].sessions;
        if !sessions.iter().any(|session| session.id == *id) {
            sessions.push(Session { id: id.clone(), hold: None, state_bytes: None });
        }
    }

    /// A session without messages, hold and state is nothing.
    pub fn forget_sessions(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let messages = &queue.messages;
        queue.sessions.retain(|session| {
            session.hold.is_some()
                || session.state_bytes.is_some()
                || messages.iter().any(|m| m.session.as_ref() == Some(&session.id))
        });
    }

    /// The session a token holds, if that hold stands.
    pub fn held(&self, q: usize, token: &SessionToken) -> Result<usize, Refusal> {
        let is_held = |session: &Session| {
            session.hold.as_ref().is_some_and(|hold| {
                hold.number == token.number.0
                    && hold.incarnation == token.incarnation.0
                    && hold.until > self.now.boot
            })
        };
        self.queues[q]
            .sessions
            .iter()
            .position(|session| session.id == token.session && is_held(session))
            .ok_or_else(|| Refusal::SessionLost(token.session.clone()))
    }

    pub fn accept_session(
        &mut self,
        ticket: Ticket,
        request: &Request,
        name: &QueueName,
        session: Option<&SessionId>,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        let q = self.queue_named(name)?;
        let queue = &mut self.queues[q];
        if !queue.settings.sessions {
            return Err(Refusal::SessionNotSupported(queue.name.clone()));
        }
        if !queue.settings.status.can_receive() {
            let queue = queue.name.clone();
            return Err(Refusal::QueueDisabled { queue, operation: Operation::Receive });
        }
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        queue.used_at = self.now.boot;
        if let Some(hold) = self.take_session(q, session, request.member.0) {
            return Ok(Some(Outcome::Session(Some(hold))));
        }
        if wait_ms == 0 {
            return match session {
                Some(session) => Err(Refusal::SessionLocked(session.clone())),
                None => Ok(Some(Outcome::Session(None))),
            };
        }
        let (queue, session) = (self.queues[q].id, session.cloned());
        self.wait(ticket, request, wait_ms, ForWhat::Session { queue, session });
        Ok(None)
    }

    /// Takes hold of the named session, or of the free one whose next message is the oldest.
    pub fn take_session(
        &mut self,
        q: usize,
        wanted: Option<&SessionId>,
        member: u32,
    ) -> Option<SessionHold> {
        let id = if let Some(id) = wanted {
            id.clone()
        } else {
            let sessions = self.queues[q].sessions.iter().filter(|s| s.hold.is_none());
            let offers = sessions.filter_map(|s| Some((self.next_of(q, &s.id)?, &s.id)));
            offers.min()?.1.clone()
        };
        self.mention_session(q, Some(&id));
        let (incarnation, number) = (self.incarnation, self.holds + 1);
        let queue = &mut self.queues[q];
        let lock_ms = queue.settings.lock_ms;
        let session = queue.sessions.iter_mut().find(|session| session.id == id)?;
        if session.hold.is_some() {
            return None;
        }
        let until = self.now.boot.plus_ms(lock_ms.into());
        session.hold = Some(Hold { number, incarnation, lock_ms, until, member });
        self.holds = number;
        let (number, incarnation) = (DeliveryNumber(number), Incarnation(incarnation));
        Some(SessionHold { token: SessionToken { session: id, number, incarnation }, lock_ms })
    }

    /// Whether [`Naive::take_session`] would give one.
    pub fn has_free_session(&self, q: usize, wanted: Option<&SessionId>) -> bool {
        let sessions = &self.queues[q].sessions;
        match wanted {
            Some(id) => !sessions.iter().any(|s| s.id == *id && s.hold.is_some()),
            None => sessions.iter().any(|s| s.hold.is_none() && self.next_of(q, &s.id).is_some()),
        }
    }

    /// The number of the message a session could give out now.
    pub fn next_of(&self, q: usize, id: &SessionId) -> Option<u64> {
        let queue = &self.queues[q];
        for m in queue.by_number(false) {
            let message = &queue.messages[m];
            if message.session.as_ref() != Some(id) {
                continue;
            }
            match message.state {
                State::Ready if message.visible => return Some(message.sequence),
                State::Ready | State::Delayed { .. } => return None,
                _ => {}
            }
        }
        None
    }

    pub fn renew_session(
        &mut self,
        name: &QueueName,
        token: &SessionToken,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let s = self.held(q, token)?;
        self.queues[q].used_at = self.now.boot;
        let hold = self.queues[q].sessions[s].hold.as_mut().unwrap();
        hold.until = self.now.boot.plus_ms(hold.lock_ms.into());
        Ok(Outcome::Renewed { lock_ms: hold.lock_ms, refused: Vec::new() })
    }

    pub fn close_session(
        &mut self,
        name: &QueueName,
        token: &SessionToken,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let s = self.held(q, token)?;
        self.queues[q].used_at = self.now.boot;
        self.end_hold(q, s, Return::Release);
        Ok(Outcome::Done)
    }

    /// The hold is over: whoever waits under it hears so, and what was handed out comes back.
    pub fn end_hold(&mut self, q: usize, s: usize, how: Return) {
        let (queue_id, id) = (self.queues[q].id, self.queues[q].sessions[s].id.clone());
        let is_under = |for_what: &ForWhat| match for_what {
            ForWhat::Messages { queue, receive, .. } => {
                *queue == queue_id
                    && receive.session.as_ref().is_some_and(|token| token.session == id)
            }
            _ => false,
        };
        let waiting = self.waits.iter().filter(|wait| is_under(&wait.for_what));
        let waiting: Vec<Ticket> = waiting.map(|wait| wait.ticket).collect();
        for ticket in waiting {
            self.answer_wait(ticket, Err(Refusal::SessionLost(id.clone())));
        }
        let queue = &self.queues[q];
        let out = queue
            .by_number(false)
            .into_iter()
            .map(|m| &queue.messages[m])
            .filter(|m| m.session.as_ref() == Some(&id) && matches!(m.state, State::Locked(_)));
        let out: Vec<u64> = out.map(|m| m.sequence).collect();
        for sequence in out {
            if let Some(m) = self.queues[q].find(false, sequence) {
                self.give_back(q, m, how, None, None);
            }
        }
        let session = self.queues[q].sessions.iter_mut().find(|session| session.id == id);
        session.unwrap().hold = None;
        self.forget_sessions(q);
    }

    pub fn set_session_state(
        &mut self,
        name: &QueueName,
        token: &SessionToken,
        state: Option<NewContent>,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let s = self.held(q, token)?;
        let queue = &mut self.queues[q];
        if let Some(new) = state {
            if new.bytes > queue.settings.message_bytes_max {
                return Err(Refusal::TooLarge {
                    what: "a session's state",
                    bytes: new.bytes.into(),
                    bytes_max: queue.settings.message_bytes_max.into(),
                });
            }
            let old = u64::from(queue.sessions[s].state_bytes.unwrap_or(0));
            let size_bytes_max = queue.settings.size_bytes_max;
            if queue.size() - old + u64::from(new.bytes) > size_bytes_max {
                return Err(Refusal::QueueFull { queue: queue.name.clone(), size_bytes_max });
            }
        }
        queue.used_at = self.now.boot;
        queue.sessions[s].state_bytes = state.map(|new| new.bytes);
        Ok(Outcome::Done)
    }

    pub fn session_state(
        &self,
        name: &QueueName,
        token: &SessionToken,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(name)?;
        let s = self.held(q, token)?;
        let is_some = self.queues[q].sessions[s].state_bytes.is_some();
        Ok(Outcome::SessionState(ContentId(u64::from(is_some)), Place::default()))
    }

    pub fn list_sessions(
        &self,
        name: &QueueName,
        after: Option<&SessionId>,
        max: u32,
    ) -> Result<Outcome, Refusal> {
        let queue = &self.queues[self.queue_named(name)?];
        if !queue.settings.sessions {
            return Err(Refusal::SessionNotSupported(queue.name.clone()));
        }
        let mut names: Vec<SessionId> = queue.sessions.iter().map(|s| s.id.clone()).collect();
        names.retain(|id| after.is_none_or(|after| id > after));
        names.sort();
        names.truncate(max as usize);
        Ok(Outcome::Sessions(names))
    }
}
