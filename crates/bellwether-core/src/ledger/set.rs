//! The one place where state changes.
//!
//! Live, a change also keeps what is derived from the tables in step: counts, timers, references.
//! While replaying only the tables are set; [`Ledger::start`] derives the rest in one pass. A
//! replayed change may name something that a fuzzy snapshot already shows as gone: it is skipped,
//! because the change that removed it follows.

use crate::change::{Change, Departure};
use crate::content::{ContentId, Place};
use crate::message::{Lock, Message, Standing, State};
use crate::name::{At, DeliveryNumber, QueueId, SessionId};
use crate::queue::Queue;
use crate::ready::LaneId;
use crate::settings::Durability;
use crate::time::{BootTime, Now};

use super::{Effects, Ledger, Timer};

impl Ledger {
    /// Replays one change; `place` is where the bytes lie if it is a content.
    pub fn replay(&mut self, now: Now, change: &Change, place: Option<Place>) {
        debug_assert!(!self.live, "only an engine that opens replays");
        self.replayed_at.get_or_insert(now.boot);
        self.set(now, change, &mut Effects::default());
        if let (Change::Content { id, .. }, Some(place)) = (change, place) {
            self.contents.set(*id, place);
        }
    }

    pub(super) fn set(&mut self, now: Now, change: &Change, fx: &mut Effects) {
        match change {
            Change::Opened { incarnation } => self.incarnation = *incarnation,
            Change::Queue { id, name, settings, created_at } => {
                self.last_queue = self.last_queue.max(*id);
                self.names.insert(name.clone(), *id);
                if settings.durability == Durability::Relaxed {
                    self.relaxed.insert(name.clone());
                } else {
                    self.relaxed.remove(name);
                }
                if let Some(queue) = self.queues.get_mut(id) {
                    queue.settings.clone_from(settings);
                    // Its window may be another one.
                    self.arm_seen(*id);
                } else {
                    let queue =
                        Queue::new(*id, name.clone(), (**settings).clone(), *created_at, now.boot);
                    self.queues.insert(*id, queue);
                }
                self.arm_queue(now, *id);
            }
            Change::QueueGone { id } => {
                self.last_queue = self.last_queue.max(*id);
                self.set_queue_gone(*id, fx);
            }
            Change::QueueTotals { id, as_of, next, totals } => {
                if let Some(queue) = self.queues.get_mut(id) {
                    queue.totals = *totals;
                    queue.totals_as_of = *as_of;
                    queue.last.0 = queue.last.0.max(next.0.saturating_sub(1));
                }
            }
            Change::Content { id, len, .. } => {
                self.contents.set(*id, Place { unit: 0, offset: 0, len: *len });
            }
            Change::ContentAt { id, place } => self.contents.set(*id, *place),
            Change::Message { at, message, session, arrived } => {
                self.set_message(now, *at, *message, session.as_ref(), *arrived);
            }
            Change::Standing { at, standing } => self.set_standing(*at, *standing, fx),
            Change::Gone { at, why } => self.set_gone(*at, *why, fx),
            Change::Duplicate { queue } => {
                let queue = self.queues.get_mut(queue);
                if let Some(queue) = queue.filter(|q| self.live || q.counts_in(self.frame)) {
                    queue.totals.duplicates += 1;
                }
            }
            Change::Seen { queue, id_hash, at } => {
                if let Some(queue) = self.queues.get_mut(queue) {
                    let before = queue.seen.len();
                    queue.seen.insert(*id_hash, *at);
                    self.seen += (queue.seen.len() - before) as u64;
                    let id = queue.id;
                    if before == 0 {
                        self.arm_seen(id);
                    }
                }
            }
            Change::Session { queue, session, number, hold, state } => {
                self.set_session(now, *queue, session, *number, *hold, *state, fx);
            }
            Change::Member { slot, id, metadata, ttl_ms, joined_at } => {
                self.set_member(now, *slot, *id, metadata, *ttl_ms, *joined_at);
            }
            Change::MemberGone { slot, forgotten } => self.set_member_gone(now, *slot, *forgotten),
            Change::Kept { member, number, answered_below, outcome } => {
                if let Some(member) = self.members.get_mut(member) {
                    member.keep(*number, *answered_below, outcome.clone());
                }
            }
            Change::Lease { name, slot, lease } => self.set_lease(name, *slot, lease),
            Change::Job { id, record } => self.set_job(*id, record, fx),
            Change::JobGone { id } => self.set_job_gone(*id, fx),
            Change::Items { job, first, count, state } => {
                self.set_items(*job, *first, *count, *state, fx);
            }
            Change::Schedule { record } => self.set_schedule(record),
            Change::ScheduleGone { name } => self.set_schedule_gone(name, fx),
            // What happened changes nothing of how things are.
            Change::TermEnded { .. } => {}
            Change::TermsFrom { term } => self.terms_from = self.terms_from.max(*term),
        }
    }

    fn set_queue_gone(&mut self, id: QueueId, fx: &mut Effects) {
        let Some(queue) = self.queues.remove(&id) else { return };
        if self.names.get(&queue.name) == Some(&id) {
            self.names.remove(&queue.name);
            self.relaxed.remove(&queue.name);
        }
        self.seen -= queue.seen.len() as u64;
        if !self.live {
            return;
        }
        self.forwarding.remove(&id);
        self.messages -= queue.len();
        self.timers.forget_queue(id);
        for shelf in [&queue.main, &queue.dead] {
            for (_, message) in shelf.messages.range(0) {
                self.contents.let_go(message.content, &mut fx.dropped);
                self.contents.let_go(message.standing.overlay, &mut fx.dropped);
                self.unsettled.change(Some(&message.standing.state), None);
            }
        }
        for session in queue.sessions.after(None) {
            self.contents.let_go(session.state, &mut fx.dropped);
        }
        self.jobs.queue_gone();
    }

    fn set_message(
        &mut self,
        now: Now,
        at: At,
        mut message: Message,
        session: Option<&SessionId>,
        arrived: bool,
    ) {
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        queue.last = queue.last.max(at.sequence);
        message.session = session.map_or(0, |id| queue.sessions.lane(id));
        message.standing.state =
            with_session_lock(queue.lane(at.part, &message), message.standing.state);
        if arrived && (self.live || queue.counts_in(self.frame)) {
            queue.totals.sent += 1;
        }
        if arrived {
            queue.used_at = now.boot;
        }
        let old = queue.shelf_mut(at.part).messages.insert(at.sequence.0, message);
        if self.live {
            assert!(old.is_none(), "message numbers are never reused: {at:?}");
            self.index(at, &message);
            if message.standing.state == State::Ready {
                self.becomes_ready(at, &message);
            }
        }
    }

    /// Ready, but visible only when this frame is durable ([`Ledger::durable`]).
    fn becomes_ready(&mut self, at: At, message: &Message) {
        self.fresh.push_back((self.frame, at));
        if message.session != 0
            && let Some(queue) = self.queues.get_mut(&at.queue)
        {
            queue.hide(at, message);
        }
    }

    fn set_standing(&mut self, at: At, standing: Standing, fx: &mut Effects) {
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        let has_lanes = queue.has_lanes(at.part);
        let Some(message) = queue.shelf_mut(at.part).messages.get_mut(at.sequence.0) else {
            return;
        };
        let old = *message;
        let lane = if has_lanes { old.session } else { 0 };
        let state = with_session_lock(lane, standing.state);
        message.standing = Standing { state, ..standing };
        if !self.live {
            return;
        }
        let new = *message;
        queue.count_standing(&old.standing, &new.standing);
        if standing.overlay != old.standing.overlay {
            queue.size_bytes += self.contents.hold(standing.overlay);
            queue.size_bytes -= self.contents.let_go(old.standing.overlay, &mut fx.dropped);
        }
        self.unsettled.change(Some(&old.standing.state), Some(&new.standing.state));
        self.timers.unset(at, &old.standing.state);
        if queue.leave(at, &old) {
            self.stirred.insert((at.queue, at.part, lane));
        }
        self.timers.set(at, &new);
        queue.enter(at, &new);
        if state == State::Ready && old.standing.state != State::Ready {
            self.becomes_ready(at, &new);
        }
    }

    fn set_gone(&mut self, at: At, why: Departure, fx: &mut Effects) {
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        // A replayed departure counts even if the snapshot already shows the message as gone.
        if self.live || queue.counts_in(self.frame) {
            match why {
                Departure::Completed => queue.totals.completed += 1,
                Departure::Expired => queue.totals.expired += 1,
                Departure::Purged => queue.totals.purged += 1,
                Departure::Cancelled => queue.totals.cancelled += 1,
                Departure::Forwarded => queue.totals.forwarded += 1,
                Departure::DeadLettered => queue.totals.dead_lettered += 1,
                Departure::Moved => {}
            }
        }
        #[cfg(planted_bug = "duplicate_after_consume")]
        if why == Departure::Completed {
            self.seen -= std::mem::take(&mut queue.seen).len() as u64;
        }
        let Some(message) = queue.shelf_mut(at.part).messages.remove(at.sequence.0) else { return };
        if !self.live {
            return;
        }
        if why == Departure::Completed {
            let is_deleted_unseen = !matches!(message.standing.state, State::Locked(_));
            // Received and deleted in one.
            queue.activity.delivered += u64::from(is_deleted_unseen);
            queue.activity.count_completed(message.standing.deliveries + 1);
        }
        self.messages -= 1;
        self.unsettled.change(Some(&message.standing.state), None);
        self.timers.unset(at, &message.standing.state);
        self.timers.unset_expiry(at, &message);
        let mut stirs = queue.leave(at, &message);
        if let Some(session) = queue.sessions.get_mut(message.session) {
            session.messages -= 1;
            stirs |= session.unseen.remove(&at.sequence.0);
            queue.refresh_session(message.session);
        }
        if stirs {
            self.stirred.insert((at.queue, at.part, message.session));
        }
        queue.size_bytes -= self.contents.let_go(message.content, &mut fx.dropped);
        queue.size_bytes -= self.contents.let_go(message.standing.overlay, &mut fx.dropped);
        self.unlink_message(at, message.content);
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one change")]
    fn set_session(
        &mut self,
        now: Now,
        id: QueueId,
        session_id: &SessionId,
        number: DeliveryNumber,
        hold: Option<crate::change::Hold>,
        state: ContentId,
        fx: &mut Effects,
    ) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let lane = queue.sessions.lane(session_id);
        let Some(session) = queue.sessions.get_mut(lane) else { return };
        let old_state = std::mem::replace(&mut session.state, state);
        let old_number = std::mem::replace(&mut session.number, number);
        let old_until = session.hold.map(|(_, until)| until);
        session.hold = hold.map(|hold| {
            let fresh = now.boot.plus_ms(hold.lock_ms.into());
            // A new state does not prolong the hold.
            (hold, old_until.filter(|_| old_number == number).unwrap_or(fresh))
        });
        let until = session.hold.map(|(_, until)| until);
        if !self.live {
            return;
        }
        if let Some(until) = old_until {
            self.timers.boot.remove(&(until, Timer::Hold(id, old_number, lane)));
        }
        if let Some(until) = until {
            self.timers.boot.insert((until, Timer::Hold(id, number, lane)));
        }
        queue.size_bytes += self.contents.len(state);
        queue.size_bytes -= self.contents.len(old_state);
        queue.refresh_session(lane);
        if state != old_state {
            self.contents.hold(state);
            self.contents.let_go(old_state, &mut fx.dropped);
        }
    }

    /// Derives what follows from a message being there.
    pub(super) fn index(&mut self, at: At, message: &Message) {
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        self.messages += 1;
        queue.size_bytes += self.contents.hold(message.content);
        queue.size_bytes += self.contents.hold(message.standing.overlay);
        if let Some(session) = queue.sessions.get_mut(message.session) {
            session.messages += 1;
        }
        self.unsettled.change(None, Some(&message.standing.state));
        self.timers.set(at, message);
        queue.enter(at, message);
        self.link_message(at, message.content);
    }
}

/// A message of a session is locked as long as its session is held, so its own lock has no end.
pub(super) fn with_session_lock(lane: LaneId, state: State) -> State {
    match state {
        State::Locked(lock) if lane != 0 => State::Locked(Lock { until: BootTime::NEVER, ..lock }),
        state => state,
    }
}
