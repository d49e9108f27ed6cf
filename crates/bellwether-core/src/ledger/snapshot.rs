//! Opening and snapshots: the ledger from changes, and back into changes.

use crate::change::{Change, KeptOutcome};
use crate::content::{ContentId, Place};
use crate::job::{ItemState, runs};
use crate::limits;
use crate::message::State;
use crate::name::{
    At, Incarnation, JobId, MemberSlot, Part, QueueId, RequestNumber, SequenceNumber, Term,
};
use crate::outcome::Outcome;
use crate::queue::Queue;
use crate::ready::LaneId;
use crate::time::{BootTime, Now};

use super::members::Member;
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
    Kept(MemberSlot, RequestNumber),
    Lease(u32, u32),
    Queue(QueueId),
    Session(QueueId, LaneId),
    Seen(QueueId, u64),
    Message(QueueId, Part, u64),
    Job(JobId),
    ItemsDone(JobId, u32),
    Results(JobId, u32),
    ItemsPending(JobId, u32),
    ItemsFailed(JobId, u32),
    Schedule(u32),
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
    /// who held something a full duration from now.
    pub fn start(&mut self, now: Now, fx: &mut Effects) {
        assert!(!self.live, "a ledger starts once");
        self.live = true;
        self.clock = now;
        self.start_jobs();
        self.start_schedules();
        let ids: Vec<QueueId> = self.queues.keys().copied().collect();
        for id in ids {
            for part in [Part::Main, Part::Dead] {
                let numbers: Vec<u64> =
                    self.queues[&id].shelf(part).messages.range(0).map(|(n, _)| n).collect();
                for number in numbers {
                    let at = At { queue: id, part, sequence: SequenceNumber(number) };
                    self.start_message(now, at);
                }
            }
            self.start_queue(now, id);
        }
        self.end_start_of_jobs();
        self.contents.forget_unreferenced();
        self.start_members(now, fx);
        // Nobody waits yet.
        self.stirred.clear();
        let incarnation = Incarnation(self.incarnation.0 + 1);
        self.emit(now, Change::Opened { incarnation }, fx);
    }

    fn start_message(&mut self, now: Now, at: At) {
        let Some(queue) = self.queues.get_mut(&at.queue) else { return };
        let Some(message) = queue.shelf_mut(at.part).messages.get_mut(at.sequence.0) else {
            return;
        };
        if let State::Locked(lock) = &mut message.standing.state {
            // Reading the journal may have taken longer than the lock.
            if lock.until != BootTime::NEVER {
                lock.until = now.boot.plus_ms(lock.lock_ms.into());
            }
        }
        let message = *message;
        self.index(at, &message);
        if message.standing.state == State::Ready {
            self.show(at);
        }
    }

    fn start_queue(&mut self, now: Now, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.used_at = now.boot;
        let lanes: Vec<LaneId> = queue.sessions.from(0).map(|(lane, _)| lane).collect();
        for lane in lanes {
            let Some(session) = queue.sessions.get_mut(lane) else { continue };
            queue.size_bytes += self.contents.hold(session.state);
            if let Some((hold, until)) = &mut session.hold {
                *until = now.boot.plus_ms(hold.lock_ms.into());
                self.timers.boot.insert((*until, Timer::Hold(id, session.number, lane)));
            }
            queue.refresh_session(lane);
        }
        if queue.settings.forward_to.is_some() {
            self.forwarding.insert(id);
        }
        self.arm_seen(id);
        self.arm_queue(now, id);
    }

    fn start_members(&mut self, now: Now, fx: &mut Effects) {
        let later_ms = self.replayed_at.map_or(0, |at| at.ms_until(now.boot));
        let leases: Vec<u32> = self.leases.keys().copied().collect();
        for index in leases {
            self.restart_lease(now, later_ms, index);
        }
        let leases: Vec<_> = self
            .lease_from((0, 0))
            .map(|((_, nth), name, lease)| (name.clone(), nth, lease.clone()))
            .collect();
        for (name, nth, lease) in leases {
            self.name_holder(&name, nth, &lease);
            self.follow_lease(&name, &lease);
            self.arm_lease(now, &name, nth);
        }
        let slots: Vec<MemberSlot> = self.members.keys().copied().collect();
        for slot in slots {
            let Some(member) = self.members.get_mut(&slot) else { continue };
            member.seen_at = now.boot;
            member.beaten_at = now.boot;
            if let Some(gone_at) = &mut member.gone_at {
                *gone_at = now.boot;
                let at = now.boot.plus_ms(limits::MEMBER_MEMORY_MS);
                self.timers.boot.insert((at, Timer::Member(slot)));
            } else if member.ttl_ms == limits::LEASE_MS_INFINITE {
                // It lived in the process that had the store open, and that one has ended.
                self.emit(now, Change::MemberGone { slot, forgotten: false }, fx);
            } else {
                let at = now.boot.plus_ms(member.ttl_ms);
                self.timers.boot.insert((at, Timer::Member(slot)));
            }
        }
    }

    /// The next slice of a snapshot: about `max` changes, handed to `write`. The ledger may move
    /// on between slices; the frames written since the snapshot began are replayed over it. A
    /// slice is taken between frames: what counts is counted up to the end of the last one.
    pub fn snapshot(&self, cursor: &mut SnapshotCursor, max: usize, write: &mut dyn FnMut(Change)) {
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
        write: &mut dyn FnMut(Change),
    ) -> (usize, Stage) {
        match stage {
            Stage::Opening => self.write_opening(write),
            Stage::Member(from) => match self.members.range(from..).next() {
                None => (0, Stage::Lease(0, 0)),
                Some((slot, member)) => {
                    (write_member(*slot, member, write), Stage::Kept(*slot, RequestNumber(0)))
                }
            },
            Stage::Kept(slot, from) => {
                let next = Stage::Member(MemberSlot(slot.0 + 1));
                let Some(member) = self.members.get(&slot) else { return (0, next) };
                let kept = member.kept.range(from..).map(|(number, outcome)| {
                    let (outcome, answered_below) = (outcome.clone(), RequestNumber(0));
                    let change =
                        Change::Kept { member: slot, number: *number, answered_below, outcome };
                    (Stage::Kept(slot, *number), change)
                });
                write_some(kept, max, next, write)
            }
            Stage::Lease(from, first) => {
                let leases = self.lease_from((from, first)).map(|((index, slot), name, lease)| {
                    let (name, lease) = (name.clone(), Box::new(lease.clone()));
                    (Stage::Lease(index, slot), Change::Lease { name, slot, lease })
                });
                write_some(leases, max, Stage::Queue(QueueId(0)), write)
            }
            Stage::Queue(from) => match self.queues.range(from..).next() {
                None => (0, Stage::Job(JobId(0))),
                Some((id, queue)) => (self.write_queue(queue, write), Stage::Session(*id, 0)),
            },
            Stage::Session(id, from) => {
                let Some(queue) = self.queues.get(&id) else { return (0, after(id)) };
                let sessions = queue.sessions.from(from).map(|(lane, session)| {
                    let change = Change::Session {
                        queue: id,
                        session: session.id.clone(),
                        number: session.number,
                        hold: session.hold.map(|(hold, _)| hold),
                        state: session.state,
                    };
                    (Stage::Session(id, lane), change)
                });
                write_some(sessions, max, Stage::Seen(id, 0), write)
            }
            Stage::Seen(id, from) => {
                let Some(queue) = self.queues.get(&id) else { return (0, after(id)) };
                let seen = queue.seen.from(from).map(|(position, at, id_hash)| {
                    (Stage::Seen(id, position), Change::Seen { queue: id, id_hash, at })
                });
                write_some(seen, max, Stage::Message(id, Part::Main, 0), write)
            }
            Stage::Message(id, part, from) => {
                let Some(queue) = self.queues.get(&id) else { return (0, after(id)) };
                let messages = queue.shelf(part).messages.range(from);
                #[cfg(planted_bug = "snapshot_forgets_deferred")]
                let messages = messages.filter(|(_, m)| m.standing.state != State::Deferred);
                let messages = messages.map(|(number, message)| {
                    let at = At { queue: id, part, sequence: SequenceNumber(number) };
                    let session = queue.sessions.get(message.session).map(|s| s.id.clone());
                    let change = Change::Message { at, message: *message, session, arrived: false };
                    (Stage::Message(id, part, number), change)
                });
                let next = match part {
                    Part::Main => Stage::Message(id, Part::Dead, 0),
                    Part::Dead => after(id),
                };
                write_some(messages, max, next, write)
            }
            Stage::Job(from) => match self.jobs.by_id.range(from..).next() {
                None => (0, Stage::Schedule(0)),
                Some((id, job)) => {
                    write(Change::Job { id: *id, record: Box::new(job.record.clone()) });
                    (1, Stage::ItemsDone(*id, 0))
                }
            },
            Stage::ItemsDone(id, from)
            | Stage::Results(id, from)
            | Stage::ItemsPending(id, from)
            | Stage::ItemsFailed(id, from) => self.write_items(stage, id, from, max, write),
            Stage::Schedule(from) => {
                let schedules = self.schedules.by_index.range(from..).map(|(index, schedule)| {
                    let record = Box::new(schedule.record.clone());
                    (Stage::Schedule(*index), Change::Schedule { record })
                });
                write_some(schedules, max, Stage::Contents(0), write)
            }
            Stage::Contents(from) => {
                let contents = self
                    .contents
                    .range(from)
                    .map(|(id, place)| (Stage::Contents(id.0), Change::ContentAt { id, place }));
                write_some(contents, max, Stage::Done, write)
            }
            Stage::Done => (0, Stage::Done),
        }
    }

    /// The items of a job, one state after the other.
    fn write_items(
        &self,
        stage: Stage,
        id: JobId,
        from: u32,
        max: usize,
        write: &mut dyn FnMut(Change),
    ) -> (usize, Stage) {
        let after = Stage::Job(JobId(id.0 + 1));
        let Some(job) = self.jobs.by_id.get(&id) else { return (0, after) };
        let items = &job.items;
        let some = |first, count, state| Change::Items { job: id, first, count, state };
        match stage {
            Stage::ItemsDone(..) => {
                let nothing = ItemState::Done { result: ContentId(0) };
                let words = items.done_words(from).flat_map(|(first, bits)| runs(first, bits));
                let done = words.map(|(first, count)| {
                    (Stage::ItemsDone(id, first), some(first, count, nothing))
                });
                write_some(done, max, Stage::Results(id, 0), write)
            }
            Stage::Results(..) => {
                let results = items.results(from);
                #[cfg(planted_bug = "snapshot_forgets_results")]
                let results = results.take(0);
                let results = results.map(|(index, result)| {
                    (Stage::Results(id, index), some(index, 1, ItemState::Done { result }))
                });
                write_some(results, max, Stage::ItemsPending(id, 0), write)
            }
            Stage::ItemsPending(..) => {
                let pending = items.pending(from).map(|(index, content)| {
                    (Stage::ItemsPending(id, index), some(index, 1, ItemState::Pending { content }))
                });
                write_some(pending, max, Stage::ItemsFailed(id, 0), write)
            }
            _ => {
                let failed = items.failures(from).map(|(index, content, why)| {
                    let state = ItemState::Failed { content, why };
                    (Stage::ItemsFailed(id, index), some(index, 1, state))
                });
                write_some(failed, max, after, write)
            }
        }
    }

    /// Which life it is; and the newest numbers given out, so that they are never given out again
    /// even if what bore them has gone: it is named as gone.
    fn write_opening(&self, write: &mut dyn FnMut(Change)) -> (usize, Stage) {
        write(Change::Opened { incarnation: self.incarnation });
        write(Change::QueueGone { id: self.last_queue });
        write(Change::MemberGone { slot: self.last_member, forgotten: true });
        write(Change::ContentAt { id: self.contents.last_id(), place: Place::default() });
        if self.jobs.last.0 != 0 {
            write(Change::JobGone { id: self.jobs.last });
        }
        if self.terms_from.0 != 0 {
            write(Change::TermsFrom { term: self.terms_from });
        }
        (4, Stage::Member(MemberSlot(0)))
    }

    fn write_queue(&self, queue: &Queue, write: &mut dyn FnMut(Change)) -> usize {
        write(Change::Queue {
            id: queue.id,
            name: queue.name.clone(),
            settings: Box::new(queue.settings.clone()),
            created_at: queue.created_at,
        });
        write(Change::QueueTotals {
            id: queue.id,
            as_of: self.written,
            next: queue.next_sequence(),
            totals: queue.totals,
        });
        2
    }

    /// The highest term granted to anybody, or the floor of those to come.
    pub fn highest_term(&self) -> Term {
        self.lease_from((0, 0)).map(|(_, _, lease)| lease.term).fold(self.terms_from, Term::max)
    }

    /// About how many bytes a snapshot has with its contents, for whoever watches it being taken.
    pub fn state_bytes(&self) -> u64 {
        let contents: u64 = self.queues.values().map(|queue| queue.size_bytes).sum();
        contents + self.memory_bytes() / 2
    }

    /// Whether a content is still referred to and lies there: then it is worth carrying forward.
    pub fn is_live_at(&self, id: ContentId, place: Place) -> bool {
        self.contents.place(id) == Some(place)
    }
}

/// Writes up to `max` of the changes, each of which comes with the stage it belongs to. Returns
/// how many, and the stage to go on with: `next` if all are written.
fn write_some(
    changes: impl Iterator<Item = (Stage, Change)>,
    max: usize,
    next: Stage,
    write: &mut dyn FnMut(Change),
) -> (usize, Stage) {
    let mut count = 0;
    for (stage, change) in changes {
        if count >= max {
            return (count, stage);
        }
        write(change);
        count += 1;
    }
    (count, next)
}

fn write_member(slot: MemberSlot, member: &Member, write: &mut dyn FnMut(Change)) -> usize {
    write(Change::Member {
        slot,
        id: member.id,
        metadata: member.metadata.clone(),
        ttl_ms: member.ttl_ms,
        joined_at: member.joined_at,
    });
    if member.gone_at.is_some() {
        write(Change::MemberGone { slot, forgotten: false });
    }
    // Which answers were heard, beside no outcome at all: number zero is never kept.
    write(Change::Kept {
        member: slot,
        number: RequestNumber(0),
        answered_below: member.heard_below.max(RequestNumber(1)),
        outcome: KeptOutcome::Plain(Outcome::Done),
    });
    3
}

/// The stage after a queue.
fn after(id: QueueId) -> Stage {
    Stage::Queue(QueueId(id.0 + 1))
}
