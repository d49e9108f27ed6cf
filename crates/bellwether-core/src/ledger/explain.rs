//! Why is it not being delivered? The same rules that hand a message out, read backwards.

use crate::error::Refusal;
use crate::limits;
use crate::message::{Message, State};
use crate::name::{At, MemberSlot, Part, QueueName, SequenceNumber, SessionId};
use crate::outcome::{Cause, Explanation, Holder, Outcome, SessionInfo};
use crate::queue::Queue;
use crate::session::Session;
use crate::time::{BootTime, Now};

use super::Ledger;

impl Ledger {
    pub(super) fn explain(
        &self,
        now: Now,
        name: &QueueName,
        sequence: SequenceNumber,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        let found = [Part::Main, Part::Dead]
            .into_iter()
            .find_map(|part| Some((part, queue.shelf(part).messages.get(sequence.0)?)));
        let (part, message) = found.ok_or(Refusal::MessageNotFound(sequence))?;
        let mut causes = Vec::new();
        if part == Part::Dead {
            causes.push(Cause::DeadLetter { reason: message.standing.reason });
        } else if message.expires_at <= now.wall {
            causes.push(Cause::Expired { at: message.expires_at });
        }
        self.explain_state(now, queue, part, message, &mut causes);
        if !queue.settings.status.can_receive() {
            causes.push(Cause::Paused);
        }
        if let Some(outage) = queue.outage.info(now.boot).filter(|_| part == Part::Main) {
            causes.push(Cause::Outage { try_in_ms: outage.try_in_ms });
        }
        if message.standing.state == State::Ready {
            self.explain_place(now, queue, part, sequence, message, &mut causes);
        }
        Ok(Outcome::Explained(Explanation { part, causes }))
    }

    fn explain_state(
        &self,
        now: Now,
        queue: &Queue,
        part: Part,
        message: &Message,
        causes: &mut Vec<Cause>,
    ) {
        causes.push(match message.standing.state {
            State::Ready => return,
            State::Scheduled { due } => Cause::Scheduled { due },
            State::Delayed { due } => Cause::Delayed { due },
            State::Deferred => Cause::Deferred,
            State::Locked(lock) => {
                // A lock in a session lasts as long as the session is held.
                let session = queue.sessions.get(queue.lane(part, message));
                let until = match session.and_then(|session| session.hold) {
                    Some((_, until)) => until,
                    None => lock.until,
                };
                Cause::Locked(self.holder(now, lock.member, until))
            }
        });
    }

    /// What stands before a message that is ready.
    fn explain_place(
        &self,
        now: Now,
        queue: &Queue,
        part: Part,
        sequence: SequenceNumber,
        message: &Message,
        causes: &mut Vec<Cause>,
    ) {
        let lane = queue.lane(part, message);
        let at = At { queue: queue.id, part, sequence };
        if self.is_suspect(at, &message.standing) {
            causes.push(Cause::Suspect { crashes: message.standing.crashes.into() });
        }
        if let Some(session) = queue.sessions.get(lane) {
            causes.extend(self.session_holder(now, session).map(Cause::SessionHeld));
            let waits_for = session.delayed.first().filter(|first| **first < sequence.0);
            causes.extend(
                waits_for.map(|first| Cause::SessionWaits { sequence: SequenceNumber(*first) }),
            );
        }
        let before = queue.shelf(part).messages.range(0).take_while(|(n, _)| *n < sequence.0);
        let before = before.take(limits::EXPLAIN_MESSAGES_MAX);
        let is_before =
            |m: &Message| m.standing.state == State::Ready && queue.lane(part, m) == lane;
        let messages = before.filter(|(_, m)| is_before(m)).count() as u64;
        if messages > 0 {
            causes.push(Cause::Behind { messages });
        }
    }

    pub(super) fn describe_session(
        &self,
        now: Now,
        name: &QueueName,
        id: &SessionId,
    ) -> Result<Outcome, Refusal> {
        let queue = self.queue_named(name)?;
        if !queue.settings.sessions {
            return Err(Refusal::SessionNotSupported(queue.name.clone()));
        }
        let session = queue.sessions.find(id).and_then(|lane| queue.sessions.get(lane));
        let info = session.map(|session| SessionInfo {
            id: session.id.clone(),
            messages: session.messages.into(),
            hold: self.session_holder(now, session),
            waits_for: session.delayed.first().copied().map(SequenceNumber),
            state: session.state,
            place: self.contents.place(session.state).unwrap_or_default(),
        });
        Ok(Outcome::SessionInfo(info.map(Box::new)))
    }

    fn session_holder(&self, now: Now, session: &Session) -> Option<Holder> {
        let (hold, until) = session.hold.filter(|(_, until)| *until > now.boot)?;
        Some(self.holder(now, hold.member, until))
    }

    fn holder(&self, now: Now, slot: MemberSlot, until: BootTime) -> Holder {
        let member = self.members.get(&slot).map(|member| member.id);
        Holder { member, remaining_ms: now.boot.ms_until(until) }
    }
}
