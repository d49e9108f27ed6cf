//! Opening and snapshots: the ledger from changes, and back into changes.

use crate::change::Change;
use crate::content::ContentId;
use crate::limits;
use crate::message::{Message, State};
use crate::name::{At, Incarnation, MemberSlot, Part, QueueId, SequenceNumber};
use crate::time::Now;

use super::{Effects, Ledger, Timer};

/// How far a snapshot has got.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotCursor {
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Opening,
    Member(MemberSlot),
    Lease(u32),
    Queue(QueueId),
    Seen(QueueId, usize),
    Message(QueueId, Part, u64),
    Contents(u64),
    Done,
}

impl SnapshotCursor {
    /// At the beginning.
    pub fn new() -> Self {
        Self { stage: Stage::Opening }
    }

    /// Whether everything was written.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }
}

impl Default for SnapshotCursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Ends the replay and begins a new life: derives what is not journaled, and gives everybody
    /// who held something a full duration from now (house §6.21).
    pub fn start(&mut self, now: Now, fx: &mut Effects) {
        assert!(!self.live, "a ledger starts once");
        self.live = true;
        let ids: Vec<QueueId> = self.queues.keys().copied().collect();
        for id in ids {
            for part in [Part::Main, Part::Dead] {
                let numbers: Vec<u64> =
                    self.queues[&id].shelf(part).messages.range(0).map(|(n, _)| n).collect();
                for number in numbers {
                    let at = At { queue: id, part, sequence: SequenceNumber(number) };
                    self.start_message(at);
                }
            }
            self.start_queue(now, id);
        }
        self.contents.forget_unreferenced();
        self.start_members(now, fx);
        let incarnation = Incarnation(self.incarnation.0 + 1);
        self.emit(now, Change::Opened { incarnation }, fx);
    }

    fn start_message(&mut self, at: At) {
        let Some(message) = self.message(at).copied() else { return };
        self.messages += 1;
        self.contents.hold(message.content);
        self.contents.hold(message.standing.overlay);
        self.index(at, &message);
        if message.standing.state == State::Ready {
            self.show(at);
        }
    }

    fn start_queue(&mut self, now: Now, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let lanes: Vec<_> = queue
            .sessions
            .after(None)
            .map(|session| (queue.sessions.find(&session.id), session.state, session.hold))
            .collect();
        for (lane, state, hold) in lanes {
            let Some(lane) = lane else { continue };
            self.contents.hold(state);
            queue.size_bytes += self.contents.len(state);
            if let Some((_, until)) = hold {
                self.boot_timers.insert((until, Timer::Hold(id, lane)));
            }
            queue.refresh_session(lane);
        }
        if queue.settings.forward_to.is_some() {
            self.forwarding.insert(id);
        }
        let oldest = queue.seen.from(0).next().map(|(at, _)| *at);
        if let (Some(at), Some(window)) = (oldest, queue.settings.duplicate_window_ms) {
            self.wall_timers.insert((at.plus_ms(window), Timer::Seen(id)));
        }
        self.arm_queue(now, id);
    }

    fn start_members(&mut self, now: Now, fx: &mut Effects) {
        let leases: Vec<_> =
            self.lease_from(0).map(|(_, name, lease)| (name.clone(), lease.clone())).collect();
        for (name, lease) in leases {
            self.follow_lease(&name, &lease);
            self.arm_lease(now, &name);
        }
        let slots: Vec<MemberSlot> = self.members.keys().copied().collect();
        for slot in slots {
            let member = &self.members[&slot];
            if member.gone_at.is_some() {
                let at = now.boot.plus_ms(limits::MEMBER_MEMORY_MS);
                self.boot_timers.insert((at, Timer::Member(slot)));
            } else if member.ttl_ms == limits::LEASE_MS_INFINITE {
                // It lived in the process that had the store open, and that one has ended.
                self.emit(now, Change::MemberGone { slot, forgotten: false }, fx);
            } else {
                let at = now.boot.plus_ms(member.ttl_ms);
                self.boot_timers.insert((at, Timer::Member(slot)));
            }
        }
    }

    /// The next slice of a snapshot: about `max` changes, handed to `write`. The ledger may move
    /// on between slices; the frames written since the snapshot began are replayed over it.
    pub fn snapshot(
        &self,
        cursor: &mut SnapshotCursor,
        max: usize,
        write: &mut dyn FnMut(&Change),
    ) {
        let mut written = 0;
        while written < max && !cursor.is_done() {
            let (count, next) = self.snapshot_stage(cursor.stage, max - written, write);
            written += count.max(1);
            cursor.stage = next;
        }
    }

    fn snapshot_stage(
        &self,
        stage: Stage,
        max: usize,
        write: &mut dyn FnMut(&Change),
    ) -> (usize, Stage) {
        let mut count = 0;
        match stage {
            Stage::Opening => {
                write(&Change::Opened { incarnation: self.incarnation });
                (1, Stage::Member(MemberSlot(0)))
            }
            Stage::Member(from) => {
                for (slot, member) in self.members.range(from..) {
                    if count >= max {
                        return (count, Stage::Member(*slot));
                    }
                    count += self.write_member(*slot, member, write);
                }
                (count, Stage::Lease(0))
            }
            Stage::Lease(from) => {
                for (index, name, lease) in self.lease_from(from) {
                    if count >= max {
                        return (count, Stage::Lease(index));
                    }
                    write(&Change::Lease { name: name.clone(), lease: Box::new(lease.clone()) });
                    count += 1;
                }
                (count, Stage::Queue(QueueId(0)))
            }
            Stage::Queue(from) => match self.queues.range(from..).next() {
                None => (0, Stage::Contents(0)),
                Some((id, queue)) => {
                    write(&Change::Queue {
                        id: *id,
                        name: queue.name.clone(),
                        settings: Box::new(queue.settings.clone()),
                        created_at: queue.created_at,
                    });
                    write(&Change::QueueTotals {
                        id: *id,
                        as_of: self.frame,
                        next: queue.next_sequence(),
                        totals: queue.totals,
                    });
                    for session in queue.sessions.after(None) {
                        write(&Change::Session {
                            queue: *id,
                            session: session.id.clone(),
                            number: session.number,
                            hold: session.hold.map(|(hold, _)| hold),
                            state: session.state,
                        });
                        count += 1;
                    }
                    (count + 2, Stage::Seen(*id, 0))
                }
            },
            Stage::Seen(id, from) => {
                let Some(queue) = self.queues.get(&id) else { return (0, after(id)) };
                for (at, id_hash) in queue.seen.from(from) {
                    if count >= max {
                        return (count, Stage::Seen(id, from + count));
                    }
                    write(&Change::Seen { queue: id, id_hash: *id_hash, at: *at });
                    count += 1;
                }
                (count, Stage::Message(id, Part::Main, 0))
            }
            Stage::Message(id, part, from) => {
                let Some(queue) = self.queues.get(&id) else { return (0, after(id)) };
                for (number, message) in queue.shelf(part).messages.range(from) {
                    if count >= max {
                        return (count, Stage::Message(id, part, number));
                    }
                    let at = At { queue: id, part, sequence: SequenceNumber(number) };
                    self.write_message(at, message, write);
                    count += 1;
                }
                let next = match part {
                    Part::Main => Stage::Message(id, Part::Dead, 0),
                    Part::Dead => after(id),
                };
                (count, next)
            }
            Stage::Contents(from) => {
                for (id, place) in self.contents.range(from) {
                    if count >= max {
                        return (count, Stage::Contents(id.0));
                    }
                    write(&Change::ContentAt { id, place });
                    count += 1;
                }
                (count, Stage::Done)
            }
            Stage::Done => (0, Stage::Done),
        }
    }

    fn write_message(&self, at: At, message: &Message, write: &mut dyn FnMut(&Change)) {
        let session = self.session_of(at);
        write(&Change::Message { at, message: *message, session, arrived: false });
    }

    fn write_member(
        &self,
        slot: MemberSlot,
        member: &super::members::Member,
        write: &mut dyn FnMut(&Change),
    ) -> usize {
        write(&Change::Member {
            slot,
            id: member.id,
            metadata: member.metadata.clone(),
            ttl_ms: member.ttl_ms,
            joined_at: member.joined_at,
        });
        if member.gone_at.is_some() {
            write(&Change::MemberGone { slot, forgotten: false });
        }
        for (number, outcome) in &member.kept {
            write(&Change::Kept {
                member: slot,
                number: *number,
                answered_below: crate::name::RequestNumber(0),
                outcome: outcome.clone(),
            });
        }
        1 + member.kept.len()
    }

    /// Whether a content is still referred to and lies there: then it is worth carrying forward.
    pub fn is_live_at(&self, id: ContentId, place: crate::content::Place) -> bool {
        self.contents.place(id) == Some(place)
    }
}

/// The stage after a queue.
fn after(id: QueueId) -> Stage {
    Stage::Queue(QueueId(id.0 + 1))
}
