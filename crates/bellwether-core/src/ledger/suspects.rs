//! Suspects: messages whose receiver crashed, and which may be why.
//!
//! ```text
//!   lost by a crash ─► waits apart ─► handed out alone ─► completed: it was innocent
//!                        │   ▲              └─► lost again, alone ─► counted ─► dead letter
//!                        ▼   │
//!        a receiver that is busy and waits is kept free for it
//! ```
//!
//! 1. A suspect is handed out only to a member that has nothing else unsettled, of any queue, and
//!    while it has it the member is handed nothing else. So what crashes with it is its own doing.
//! 2. It waits apart from the others, before them, and holds up nobody who cannot take it; in a
//!    session it keeps its place, and what is behind it waits.
//! 3. Lest it waits for ever beside busy members, one of those who wait for its queue is kept free:
//!    handed nothing more until it has settled all it has, and then the suspect. In a session that
//!    is whoever holds it. Who has nothing unsettled may take it sooner.
//! 4. Who receives and deletes cannot crash with a message, and is not held up by any of this. Who
//!    asks by number gets what it asks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::ReceiveMode;
use crate::message::{Message, Standing, State};
use crate::name::{At, MemberSlot, Part, QueueId, SequenceNumber, Ticket};
use crate::ready::LaneId;
use crate::time::Now;

use super::receive::Take;
use super::{Effects, Ledger, Waits};

/// See the module. Nothing of it is journaled: it is derived from the messages and from who waits.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Those that wait outside of sessions.
    waiting: BTreeSet<(QueueId, SequenceNumber)>,
    /// Who has one.
    held: BTreeSet<(MemberSlot, At)>,
    /// Who is kept free, and for which lane.
    kept_free: BTreeMap<MemberSlot, (QueueId, LaneId)>,
}

/// What a receiver may have.
pub(super) enum Turn {
    /// Nothing now.
    Nothing,
    /// This suspect, and nothing else.
    Suspect(SequenceNumber),
    /// What is in the lane.
    Lane,
}

impl Suspects {
    /// Nobody is suspected anywhere: what every receive asks first.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty() && self.kept_free.is_empty()
    }

    /// Whether some wait in a queue.
    pub(super) fn wait_in(&self, queue: QueueId) -> bool {
        self.first(queue).is_some()
    }

    fn first(&self, queue: QueueId) -> Option<SequenceNumber> {
        let range = (queue, SequenceNumber(0))..=(queue, SequenceNumber(u64::MAX));
        self.waiting.range(range).next().map(|(_, sequence)| *sequence)
    }

    fn has_one(&self, member: MemberSlot) -> bool {
        let nowhere =
            |queue, part, sequence| At { queue, part, sequence: SequenceNumber(sequence) };
        let first = nowhere(QueueId(0), Part::Main, 0);
        self.held.range((member, first)..).next().is_some_and(|(holder, _)| *holder == member)
    }

    fn keeps_somebody_free(&self, queue: QueueId) -> bool {
        self.kept_free.values().any(|lane| *lane == (queue, 0))
    }

    /// The member is not kept free any more. For which lane it was, if it was.
    pub(super) fn let_go(&mut self, member: MemberSlot) -> Option<(QueueId, LaneId)> {
        self.kept_free.remove(&member)
    }

    /// For whom a lane keeps whom free.
    pub(super) fn kept_free_for(&self, queue: QueueId, lane: Option<LaneId>) -> Vec<MemberSlot> {
        let is_for = |(of, at): &(QueueId, LaneId)| *of == queue && lane.is_none_or(|l| l == *at);
        let kept = self.kept_free.iter().filter(|(_, lane)| is_for(lane));
        kept.map(|(member, _)| *member).collect()
    }
}

impl Ledger {
    /// Whether a message of the queue itself is a suspect.
    pub(super) fn is_suspect(&self, at: At, standing: &Standing) -> bool {
        at.part == Part::Main
            && standing.crashes > 0
            && self
                .queues
                .get(&at.queue)
                .is_some_and(|queue| queue.settings.failures.crashes_max > 0)
    }

    /// A ready message is shown: true if it waits apart from the others, as a suspect.
    pub(super) fn show_suspect(&mut self, at: At, lane: LaneId, message: &Message) -> bool {
        let waits_apart = lane == 0 && self.is_suspect(at, &message.standing);
        if waits_apart {
            self.suspects.waiting.insert((at.queue, at.sequence));
        }
        waits_apart
    }

    /// What the rules say to one who asks for messages.
    pub(super) fn turn(
        &mut self,
        now: Now,
        id: QueueId,
        part: Part,
        take: &Take,
        fx: &mut Effects,
    ) -> Turn {
        if self.suspects.is_idle() {
            return Turn::Lane;
        }
        let member = take.member;
        let deletes = take.mode == ReceiveMode::ReceiveAndDelete;
        let is_busy = self.unsettled.of(member) > 0 && !cfg!(planted_bug = "suspect_in_company");
        self.let_go_if_over(member);
        if !deletes {
            let is_for_another = |lane: &(QueueId, LaneId)| *lane != (id, take.lane);
            let kept_for = self.suspects.kept_free.get(&member);
            let is_kept = kept_for.is_some_and(|lane| is_busy || is_for_another(lane));
            if is_kept || self.suspects.has_one(member) {
                return Turn::Nothing;
            }
        }
        if part == Part::Dead || take.lane != 0 {
            return Turn::Lane;
        }
        while let Some(sequence) = self.suspects.first(id) {
            let at = At { queue: id, part, sequence };
            let is_expired = self.message(at).is_some_and(|m| m.expires_at <= now.wall);
            if is_expired {
                self.expire(now, at, fx);
            } else if deletes || !is_busy {
                return Turn::Suspect(sequence);
            } else if take.waits && !self.suspects.keeps_somebody_free(id) {
                self.suspects.kept_free.insert(member, (id, 0));
                return Turn::Nothing;
            } else {
                break;
            }
        }
        Turn::Lane
    }

    /// A suspect is the next in a session's lane: whether it can be handed out now.
    pub(super) fn suspect_in_session(&mut self, id: QueueId, take: &Take, taken: usize) -> bool {
        let is_free = self.unsettled.of(take.member) == 0;
        if taken == 0 && (is_free || take.mode == ReceiveMode::ReceiveAndDelete) {
            return true;
        }
        if taken == 0 && take.waits {
            self.suspects.kept_free.insert(take.member, (id, take.lane));
        }
        false
    }

    /// A message stands otherwise, is new or is gone (`None`): keeps in step what is derived here.
    pub(super) fn track(
        &mut self,
        at: At,
        lane: LaneId,
        old: Option<&Standing>,
        new: Option<&Standing>,
    ) {
        if let Some(standing) = old.filter(|standing| standing.crashes > 0) {
            match standing.state {
                State::Ready if at.part == Part::Main => self.suspect_left(at, lane),
                State::Locked(lock) => _ = self.suspects.held.remove(&(lock.member, at)),
                _ => {}
            }
        }
        if let Some(standing) = new.filter(|standing| self.is_suspect(at, standing))
            && let State::Locked(lock) = standing.state
            && !lock.deferred
        {
            self.suspects.held.insert((lock.member, at));
        }
        let holder = |standing: Option<&Standing>| match standing.map(|s| s.state) {
            Some(State::Locked(lock)) => Some(lock.member),
            _ => None,
        };
        if let Some(member) = holder(old)
            && holder(new) != Some(member)
            && (!self.suspects.is_idle() || old.is_some_and(|standing| standing.crashes > 0))
            && self.unsettled.of(member) == 0
        {
            self.stir_waits_of(member);
        }
    }

    /// A suspect does not wait any more.
    fn suspect_left(&mut self, at: At, lane: LaneId) {
        self.suspects.waiting.remove(&(at.queue, at.sequence));
        if lane != 0 || !self.suspects.wait_in(at.queue) {
            self.let_go_for(at.queue, Some(lane));
        }
    }

    /// Nobody is kept free for this lane of the queue any more, or for any of it.
    pub(super) fn let_go_for(&mut self, queue: QueueId, lane: Option<LaneId>) {
        for member in self.suspects.kept_free_for(queue, lane) {
            if let Some((_, lane)) = self.suspects.let_go(member) {
                self.stirred.insert((queue, Part::Main, lane));
            }
            self.stir_waits_of(member);
        }
    }

    /// In a session another message may have come before the suspect that a member is kept free for.
    fn let_go_if_over(&mut self, member: MemberSlot) {
        let Some((id, lane)) = self.suspects.kept_free.get(&member).copied() else { return };
        let Some(queue) = self.queues.get_mut(&id).filter(|_| lane != 0) else { return };
        let next = queue.first_ready(lane).filter(|next| {
            queue.sessions.get(lane).is_some_and(|session| !session.is_blocked_before(*next))
        });
        let message = next.and_then(|next| queue.main.messages.get(next));
        if message.is_none_or(|message| message.standing.crashes == 0) {
            self.suspects.let_go(member);
            self.stirred.insert((id, Part::Main, lane));
            self.stir_waits_of(member);
        }
    }

    /// A demand was withdrawn: whoever was kept free by it is so no more, unless another of its
    /// demands waits there, too.
    pub(super) fn demand_left(&mut self, member: MemberSlot, queue: QueueId, lane: LaneId) {
        if self.suspects.kept_free.get(&member) != Some(&(queue, lane)) {
            return;
        }
        let others = self.members.get(&member).into_iter().flat_map(|member| &member.waits);
        let waits_there = |ticket: &Ticket| {
            matches!(self.waiting.get(ticket), Some(Waits::Messages(q, Part::Main, l))
                if (*q, *l) == (queue, lane))
        };
        if !others.into_iter().any(waits_there) {
            self.suspects.let_go(member);
            self.stirred.insert((queue, Part::Main, lane));
            self.stir_waits_of(member);
        }
    }

    /// Whatever a member waits for is looked at again.
    fn stir_waits_of(&mut self, member: MemberSlot) {
        let waits = self.members.get(&member).into_iter().flat_map(|member| &member.waits);
        for ticket in waits {
            if let Some(Waits::Messages(queue, part, lane)) = self.waiting.get(ticket) {
                self.stirred.insert((*queue, *part, *lane));
            }
        }
    }
}
