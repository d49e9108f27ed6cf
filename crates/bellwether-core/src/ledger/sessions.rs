//! Sessions: taking hold of one, keeping it, letting go, its state.

use crate::change::{Change, Hold, KeptOutcome};
use crate::command::{NewContent, Request};
use crate::content::ContentId;
use crate::error::{Operation, Refusal};
use crate::limits;
use crate::name::{
    At, DeliveryNumber, MemberSlot, Part, QueueId, QueueName, RequestNumber, SequenceNumber,
    SessionId, SessionToken, Ticket,
};
use crate::outcome::{Answer, Barrier, Outcome, SessionHold};
use crate::queue::{AcceptDemand, Queue};
use crate::ready::LaneId;
use crate::time::Now;

use super::settle::Return;
use super::{Effects, Ledger, Timer, Waits, refuse};

impl Ledger {
    #[allow(clippy::too_many_arguments, reason = "the request and its fields")]
    pub(super) fn accept_session(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        name: &QueueName,
        session: Option<&SessionId>,
        wait_ms: u64,
        fx: &mut Effects,
    ) -> Result<Option<Outcome>, Refusal> {
        let queue = self.queue_named(name)?;
        let id = queue.id;
        if !queue.settings.sessions {
            return Err(Refusal::SessionNotSupported(queue.name.clone()));
        }
        if !queue.settings.status.can_receive() {
            let (queue, operation) = (queue.name.clone(), Operation::Receive);
            return Err(Refusal::QueueDisabled { queue, operation });
        }
        if request.member.0 == 0 {
            return Err(Refusal::MemberGone);
        }
        self.check_sessions(queue, session.into_iter(), 0)?;
        self.touch_queue(now, id);
        if let Some(lane) = session.and_then(|session| self.queues[&id].sessions.find(session)) {
            // A hold whose time is over ends now, not when the timer gets to it.
            self.hold_fired(now, id, lane, fx);
        }
        if let Some(lane) = self.free_lane(id, session) {
            let hold = self.hold_session(now, id, lane, request.member, fx);
            return Ok(Some(Outcome::Session(Some(hold))));
        }
        if wait_ms == 0 {
            return match session {
                Some(session) => Err(Refusal::SessionLocked(session.clone())),
                None => Ok(Some(Outcome::Session(None))),
            };
        }
        let until = now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX));
        let (member, number, session) = (request.member, request.number, session.cloned());
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.accepts.insert(ticket, AcceptDemand { member, number, session, until });
        }
        self.wait(ticket, request, until, Waits::Session(id));
        Ok(None)
    }

    /// Whether there is room in a queue for the sessions that are named, and so many others. Each name
    /// counts that is not known: the same one twice is not worth telling apart.
    pub(super) fn check_sessions<'a>(
        &self,
        queue: &Queue,
        named: impl Iterator<Item = &'a SessionId>,
        others: usize,
    ) -> Result<(), Refusal> {
        let (known, max) = (queue.sessions.len() + others, self.sessions_max as usize);
        // Most are far from it, and need not be looked up for it.
        let may_be_too_many = named.size_hint().1.is_none_or(|more| known + more > max);
        if may_be_too_many {
            let mut new = named.filter(|id| queue.sessions.find(id).is_none());
            if new.nth(max.saturating_sub(known)).is_some() {
                return Err(Refusal::TooMany { what: "sessions in the queue", max: max as u64 });
            }
        }
        Ok(())
    }

    /// A lane that can be held now: the named session's if it is free, or the oldest offered one.
    fn free_lane(&mut self, id: QueueId, session: Option<&SessionId>) -> Option<LaneId> {
        let sessions = &mut self.queues.get_mut(&id)?.sessions;
        let Some(session) = session else { return sessions.first_offered() };
        let lane = sessions.lane(session);
        sessions.get(lane)?.hold.is_none().then_some(lane)
    }

    fn hold_session(
        &mut self,
        now: Now,
        id: QueueId,
        lane: LaneId,
        member: MemberSlot,
        fx: &mut Effects,
    ) -> SessionHold {
        let queue = &self.queues[&id];
        let lock_ms = queue.settings.lock_ms;
        let session = queue.sessions.get(lane).expect("a lane that was just found");
        let (name, state) = (session.id.clone(), session.state);
        self.holds = self.holds.wrapping_add(1);
        let number = DeliveryNumber(self.holds);
        let incarnation = self.incarnation;
        let hold = Some(Hold { member, lock_ms, incarnation });
        let change = Change::Session { queue: id, session: name.clone(), number, hold, state };
        self.emit(now, change, fx);
        SessionHold { token: SessionToken { session: name, number, incarnation }, lock_ms }
    }

    /// Serves those who wait for a session, first come first served.
    pub(super) fn serve_accepts(&mut self, now: Now, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.get(&id) else { return };
        if queue.accepts.is_empty() || !queue.settings.status.can_receive() {
            return;
        }
        let waiting: Vec<(Ticket, AcceptDemand)> =
            queue.accepts.iter().map(|(ticket, accept)| (*ticket, accept.clone())).collect();
        let mut none_offered = false;
        for (ticket, accept) in waiting {
            if accept.session.is_none() && none_offered {
                continue;
            }
            let Some(lane) = self.free_lane(id, accept.session.as_ref()) else {
                none_offered |= accept.session.is_none();
                continue;
            };
            let may = self.check_waiting(now, ticket);
            self.withdraw(ticket);
            if let Err(refusal) = may {
                refuse(ticket, refusal, fx);
                if let Some(queue) = self.queues.get_mut(&id) {
                    queue.refresh_session(lane);
                }
                continue;
            }
            let hold = self.hold_session(now, id, lane, accept.member, fx);
            let outcome = Outcome::Session(Some(hold));
            let kept = KeptOutcome::Plain(outcome.clone());
            self.keep(now, accept.member, accept.number, RequestNumber(0), kept, fx);
            fx.answers.push(Answer { ticket, result: Ok(outcome), barrier: Barrier::Durable });
        }
    }

    pub(super) fn renew_session(
        &mut self,
        now: Now,
        name: &QueueName,
        token: &SessionToken,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let id = queue.id;
        let lane = queue.held_lane(now, token)?;
        self.touch_queue(now, id);
        let mut lock_ms = 0;
        let number = token.number;
        if let Some((hold, until)) = self
            .queues
            .get_mut(&id)
            .and_then(|queue| queue.sessions.get_mut(lane))
            .and_then(|session| session.hold.as_mut())
        {
            lock_ms = hold.lock_ms;
            let old = std::mem::replace(until, now.boot.plus_ms(hold.lock_ms.into()));
            let new = *until;
            self.timers.boot.remove(&(old, Timer::Hold(id, number, lane)));
            self.timers.boot.insert((new, Timer::Hold(id, number, lane)));
        }
        Ok(Outcome::Renewed { lock_ms, refused: Vec::new() })
    }

    pub(super) fn close_session(
        &mut self,
        now: Now,
        name: &QueueName,
        token: &SessionToken,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let id = queue.id;
        let lane = queue.held_lane(now, token)?;
        self.touch_queue(now, id);
        self.end_hold(now, id, lane, Return::Release, fx);
        Ok(Outcome::Done)
    }

    /// A session's hold ran out: what was handed out under it counts as crashed.
    pub(super) fn hold_fired(&mut self, now: Now, id: QueueId, lane: LaneId, fx: &mut Effects) {
        let over = self
            .queues
            .get(&id)
            .and_then(|queue| queue.sessions.get(lane))
            .and_then(|session| session.hold)
            .is_some_and(|(_, until)| until <= now.boot);
        if over {
            self.end_hold(now, id, lane, Return::Crash, fx);
        }
    }

    fn end_hold(&mut self, now: Now, id: QueueId, lane: LaneId, how: Return, fx: &mut Effects) {
        let Some(queue) = self.queues.get(&id) else { return };
        let Some(session) = queue.sessions.get(lane) else { return };
        let locked: Vec<u64> = session.locked.iter().copied().collect();
        let (name, number, state) = (session.id.clone(), session.number, session.state);
        // Those who still wait under the old hold hear that it is over.
        let range = (lane, Ticket(0))..=(lane, Ticket(u64::MAX));
        let waiting: Vec<Ticket> =
            queue.main.demands.range(range).map(|((_, ticket), _)| *ticket).collect();
        for ticket in waiting {
            self.withdraw(ticket);
            refuse(ticket, Refusal::SessionLost(name.clone()), fx);
        }
        for sequence in locked {
            let at = At { queue: id, part: Part::Main, sequence: SequenceNumber(sequence) };
            if let Some(message) = self.message(at).copied() {
                self.give_back(now, at, message, how, None, None, fx);
            }
        }
        let change = Change::Session { queue: id, session: name, number, hold: None, state };
        self.emit(now, change, fx);
        self.serve_accepts(now, id, fx);
    }

    pub(super) fn set_session_state(
        &mut self,
        now: Now,
        name: &QueueName,
        token: &SessionToken,
        state: Option<NewContent>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let id = queue.id;
        let lane = queue.held_lane(now, token)?;
        let old = self.state_bytes_of(queue, lane);
        check_state(queue, state, queue.size_bytes - old)?;
        self.put_session_state(now, id, lane, state, fx);
        Ok(Outcome::Done)
    }

    /// How long a session's state is.
    pub(super) fn state_bytes_of(&self, queue: &Queue, lane: LaneId) -> u64 {
        queue.sessions.get(lane).map_or(0, |session| self.contents.len(session.state))
    }

    /// Sets the state of a session that is held; it was checked.
    pub(super) fn put_session_state(
        &mut self,
        now: Now,
        id: QueueId,
        lane: LaneId,
        state: Option<NewContent>,
        fx: &mut Effects,
    ) {
        self.touch_queue(now, id);
        let state = state.map_or(ContentId(0), |new| self.add_content(now, new, fx));
        let session = self.queues[&id].sessions.get(lane).expect("a held session is there");
        let change = Change::Session {
            queue: id,
            session: session.id.clone(),
            number: session.number,
            hold: session.hold.map(|(hold, _)| hold),
            state,
        };
        self.emit(now, change, fx);
    }

    pub(super) fn session_state(
        &self,
        now: Now,
        name: &QueueName,
        token: &SessionToken,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let lane = queue.held_lane(now, token)?;
        let state = queue.sessions.get(lane).map_or(ContentId(0), |session| session.state);
        let place = self.contents.place(state).unwrap_or_default();
        Ok(Outcome::SessionState(state, place))
    }

    pub(super) fn list_sessions(
        &self,
        name: &QueueName,
        after: Option<&SessionId>,
        max: u32,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        if !queue.settings.sessions {
            return Err(Refusal::SessionNotSupported(queue.name.clone()));
        }
        let names = queue.sessions.after(after).map(|session| session.id.clone());
        Ok(Outcome::Sessions(names.take(max as usize).collect()))
    }
}

/// Whether a session's state fits into a queue in which everything else has so many bytes.
pub(super) fn check_state(
    queue: &Queue,
    state: Option<NewContent>,
    others: u64,
) -> Result<(), Refusal> {
    let Some(new) = state else { return Ok(()) };
    let bytes_max = queue.settings.message_bytes_max;
    if new.bytes > bytes_max {
        let (bytes, bytes_max) = (new.bytes.into(), bytes_max.into());
        return Err(Refusal::TooLarge { what: "a session's state", bytes, bytes_max });
    }
    let size_bytes_max = queue.settings.size_bytes_max;
    if others + u64::from(new.bytes) > size_bytes_max {
        return Err(Refusal::QueueFull { queue: queue.name.clone(), size_bytes_max });
    }
    Ok(())
}
