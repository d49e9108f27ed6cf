//! The ledger: all queues, messages, sessions, leases and members.
//!
//! ```text
//!   apply(now, Request) ──► decide ──► Change ──► set      (one way in: live and replayed alike)
//!                              │          └────► journal   (the engine's business)
//!                              └──► Answer, with the barrier it must wait for
//! ```
//!
//! 1. State is only ever changed by `Ledger::set`, from a [`Change`]; what is not journaled
//!    (demands, heartbeats, timers, lanes) is derived or may be lost.
//! 2. A message becomes visible to receivers only when the frame that made it ready is durable
//!    ([`Ledger::durable`]): nobody acts on what a power cut could undo.
//! 3. Time enters as an argument and as [`Command::Tick`]. Replaying decides nothing.
//! 4. A refused request changed nothing.

mod decide;
mod explain;
mod fences;
mod import;
mod items;
mod jobs;
mod keep;
mod lease_timers;
mod leases;
mod members;
mod queues;
mod receive;
mod renewing;
mod schedules;
mod send;
mod sessions;
mod set;
mod settle;
mod slots;
mod snapshot;
mod stats;
mod steering;
mod tick;
mod timers;
mod unsettled;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::change::Change;
use crate::command::{Command, Request};
use crate::content::{ContentId, Place};
use crate::contents::Contents;
use crate::error::Refusal;
use crate::limits;
use crate::message::{Message, State};
use crate::name::{
    At, Incarnation, JobId, LeaseName, MemberId, MemberSlot, Part, QueueId, QueueName, Term, Ticket,
};
use crate::outcome::{Answer, Barrier, Outcome};
use crate::queue::Queue;
use crate::ready::LaneId;
use crate::time::{BootTime, Now};

use fences::Fences;
use items::Jobs;
use schedules::Schedules;
pub use snapshot::SnapshotCursor;
use timers::{Timer, Timers};
use unsettled::Unsettled;

/// What a step brought about, in order.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// To be journaled.
    pub changes: Vec<Change>,
    /// To be answered, each after its barrier.
    pub answers: Vec<Answer>,
    /// Contents nobody refers to any more; answers above may still show them.
    pub dropped: Vec<ContentId>,
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    incarnation: Incarnation,
    /// False while replaying: then only the tables are set, and [`Ledger::start`] derives the rest.
    live: bool,
    /// The frame that is being filled.
    frame: u64,
    /// The newest frame that has a change in it.
    written: u64,
    /// The newest time anybody told.
    clock: Now,
    /// The time of the first replayed change.
    replayed_at: Option<BootTime>,
    /// Number of the newest hold of any session in this life.
    holds: u32,
    memory_bytes_max: u64,
    /// Of one member.
    unsettled_max: u32,
    /// Of one queue.
    sessions_max: u32,
    /// The journal has no room for more messages.
    disk_full: bool,

    queues: BTreeMap<QueueId, Queue>,
    names: BTreeMap<QueueName, QueueId>,
    /// Queues whose answers do not wait for a flush: few, and asked for with every answer.
    relaxed: BTreeSet<QueueName>,
    last_queue: QueueId,
    contents: Contents,
    members: BTreeMap<MemberSlot, members::Member>,
    member_ids: BTreeMap<MemberId, MemberSlot>,
    last_member: MemberSlot,
    leases: BTreeMap<u32, leases::Entry>,
    lease_names: BTreeMap<LeaseName, u32>,
    last_lease: u32,
    /// No new term is below this one.
    terms_from: Term,
    jobs: Jobs,
    schedules: Schedules,

    /// Ready, but not yet visible: the frame that made them so, in order.
    fresh: VecDeque<(u64, At)>,
    /// Lanes in which something that held the rest back has gone.
    stirred: BTreeSet<(QueueId, Part, LaneId)>,
    /// Leases with another member, maybe, at the head of their line.
    stirred_lines: BTreeSet<u32>,
    /// Queues whose messages move on because forwarding was switched on.
    forwarding: BTreeSet<QueueId>,
    /// Who waits for what.
    waiting: BTreeMap<Ticket, Waits>,
    fences: Fences,
    timers: Timers,
    unsettled: Unsettled,
    /// All messages of all queues.
    messages: u64,
    /// All remembered message ids of all queues.
    seen: u64,
}

/// What a waiting request waits for.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Messages(QueueId, Part, LaneId),
    Session(QueueId),
    Lease(u32),
    Watch(u32),
    Turn(u32),
    Job(JobId),
}

impl Ledger {
    /// An empty ledger, to be replayed into and then started.
    pub fn new(memory_bytes_max: u64) -> Self {
        Self {
            incarnation: Incarnation(0),
            live: false,
            frame: 0,
            written: 0,
            clock: Now::default(),
            replayed_at: None,
            holds: 0,
            memory_bytes_max,
            unsettled_max: limits::UNSETTLED_PER_MEMBER_MAX,
            sessions_max: limits::SESSIONS_PER_QUEUE_MAX,
            disk_full: false,
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            relaxed: BTreeSet::new(),
            last_queue: QueueId(0),
            contents: Contents::default(),
            members: BTreeMap::new(),
            member_ids: BTreeMap::new(),
            last_member: MemberSlot(0),
            leases: BTreeMap::new(),
            lease_names: BTreeMap::new(),
            last_lease: 0,
            terms_from: Term(0),
            jobs: Jobs::default(),
            schedules: Schedules::default(),
            fresh: VecDeque::new(),
            stirred: BTreeSet::new(),
            stirred_lines: BTreeSet::new(),
            forwarding: BTreeSet::new(),
            waiting: BTreeMap::new(),
            fences: Fences::default(),
            timers: Timers::default(),
            unsettled: Unsettled::default(),
            messages: 0,
            seen: 0,
        }
    }

    /// Names the frame that the following changes will be written in. Frames only grow.
    pub fn begin_frame(&mut self, frame: u64) {
        debug_assert!(frame >= self.frame, "frames only grow");
        self.frame = frame;
    }

    /// What was decided for frame `from` did not fit and is written in frames up to `to`: it is
    /// visible when that one is durable.
    pub fn put_off(&mut self, from: u64, to: u64) {
        if self.written == from {
            self.written = to;
        }
        let fresh = self.fresh.iter_mut().rev().map(|(frame, _)| frame);
        fresh.take_while(|frame| **frame == from).for_each(|frame| *frame = to);
    }

    /// The same with other limits: deliveries that a member may have unsettled, sessions of a queue.
    #[must_use]
    pub fn limited(mut self, unsettled_max: u32, sessions_max: u32) -> Self {
        (self.unsettled_max, self.sessions_max) = (unsettled_max, sessions_max);
        self
    }

    /// Tells the rules whether the journal has room for more messages.
    pub fn set_disk_full(&mut self, full: bool) {
        self.disk_full = full;
    }

    /// One request. Its answer, and those of others it lets go on, are in `fx`; a request that
    /// waits is answered by a later step, or withdrawn.
    pub fn apply(&mut self, now: Now, ticket: Ticket, request: &Request, fx: &mut Effects) {
        self.clock = now;
        let result = match self.recall(now, request, fx) {
            Ok(None) => self
                .check_fence(now, request.fence.as_ref())
                .and_then(|()| self.decide(now, ticket, request, fx)),
            recalled => recalled,
        };
        match result {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                if request.number.0 != 0
                    && let Some(kept) = self.worth_keeping(&request.command, &outcome)
                {
                    self.keep(
                        now,
                        request.member,
                        request.number,
                        request.answered_below,
                        kept,
                        fx,
                    );
                }
                let barrier = self.barrier(&request.command, &outcome);
                fx.answers.push(Answer { ticket, result: Ok(outcome), barrier });
            }
            Err(refusal) => refuse(ticket, refusal, fx),
        }
        self.serve_stirred(now, fx);
    }

    /// What must have happened before the answer may leave.
    fn barrier(&self, command: &Command, outcome: &Outcome) -> Barrier {
        let relaxed = |queue: &QueueName| self.relaxed.contains(queue);
        match (command, outcome) {
            (Command::Receive(receive), _)
                if receive.mode == crate::command::ReceiveMode::PeekLock =>
            {
                Barrier::Appended
            }
            (_, Outcome::Renewed { .. } | Outcome::Beat(_)) => Barrier::Appended,
            (Command::Send { queue, .. }, _) if relaxed(queue) => Barrier::Appended,
            (
                Command::Settle { from, .. }
                | Command::Receive(crate::command::Receive { from, .. }),
                _,
            ) if relaxed(&from.queue) => Barrier::Appended,
            #[cfg(planted_bug = "answer_before_flush")]
            (Command::Send { .. }, _) => Barrier::Appended,
            _ => Barrier::Durable,
        }
    }

    /// Everything up to `frame` is durable: what it made ready becomes visible, and those who
    /// wait for it are served.
    pub fn durable(&mut self, now: Now, frame: u64, fx: &mut Effects) {
        self.clock = now;
        let mut touched: BTreeSet<(QueueId, Part, LaneId)> = BTreeSet::new();
        while let Some((stamp, at)) = self.fresh.front().copied() {
            if stamp > frame {
                break;
            }
            self.fresh.pop_front();
            if let Some(lane) = self.show(at) {
                touched.insert((at.queue, at.part, lane));
            }
        }
        #[cfg(not(planted_bug = "lose_wake_up"))]
        for (queue, part, lane) in touched {
            self.serve(now, queue, part, lane, fx);
        }
        #[cfg(planted_bug = "lose_wake_up")]
        let _ = touched;
        self.serve_stirred(now, fx);
    }

    /// Whether something is hidden until [`Ledger::durable`] shows it.
    pub fn awaits_flush(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Serves lanes that have come free without anything becoming ready.
    fn serve_stirred(&mut self, now: Now, fx: &mut Effects) {
        if self.stirred.is_empty() && self.stirred_lines.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.stirred_lines) {
            self.tell_next(index, fx);
        }
        // What these stir again is served by the next step.
        for (queue, part, lane) in std::mem::take(&mut self.stirred) {
            self.serve(now, queue, part, lane, fx);
        }
    }

    /// Puts a ready message into its lane, which it returns.
    fn show(&mut self, at: At) -> Option<LaneId> {
        let queue = self.queues.get_mut(&at.queue)?;
        let message = queue.shelf(at.part).messages.get(at.sequence.0)?;
        if message.standing.state != State::Ready {
            return None;
        }
        let lane = queue.lane(at.part, message);
        queue.shelf_mut(at.part).ready.insert(lane, at.sequence.0);
        if let Some(session) = queue.sessions.get_mut(lane) {
            session.unseen.remove(&at.sequence.0);
            queue.refresh_session(lane);
        }
        Some(lane)
    }

    /// A waiting request is no longer wanted. False if it was not waiting (any more).
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some(waits) = self.waiting.remove(&ticket) else { return false };
        self.fences.remove(ticket);
        let until = match waits {
            Waits::Messages(queue, part, lane) => self
                .queues
                .get_mut(&queue)
                .and_then(|q| q.shelf_mut(part).demands.remove(&(lane, ticket)))
                .map(|demand| (demand.member, demand.number, demand.until)),
            Waits::Session(queue) => self
                .queues
                .get_mut(&queue)
                .and_then(|q| q.accepts.remove(&ticket))
                .map(|accept| (accept.member, accept.number, accept.until)),
            Waits::Lease(lease) | Waits::Watch(lease) | Waits::Turn(lease) => {
                self.leave_lease(lease, ticket)
            }
            Waits::Job(id) => {
                self.jobs.by_id.get_mut(&id).and_then(|job| job.waits.remove(&ticket))
            }
        };
        if let Waits::Messages(queue, ..) | Waits::Session(queue) = waits {
            // It was in use until now.
            self.touch_queue(self.clock, queue);
        }
        if let Some((member, number, until)) = until {
            self.timers.boot.remove(&(until, Timer::Wait(ticket)));
            if let Some(member) = self.members.get_mut(&member) {
                member.waits.remove(&ticket);
                member.waiting_numbers.remove(&number);
            }
        }
        true
    }

    /// A request waits: until when, and as what.
    fn wait(&mut self, ticket: Ticket, request: &Request, until: BootTime, waits: Waits) {
        self.waiting.insert(ticket, waits);
        if let Some(fence) = &request.fence {
            self.fences.insert(ticket, fence);
        }
        self.timers.boot.insert((until, Timer::Wait(ticket)));
        if let Some(member) = self.members.get_mut(&request.member) {
            member.waits.insert(ticket);
            if request.number.0 != 0 {
                member.waiting_numbers.insert(request.number, ticket);
            }
        }
    }

    /// How long until something becomes due; `None` if nothing ever will.
    pub fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let stirred = !self.stirred.is_empty() || !self.stirred_lines.is_empty();
        if stirred || !self.forwarding.is_empty() || self.jobs.has_chores() {
            return Some(0);
        }
        self.timers.next_ms(now)
    }

    /// A content that was announced by [`Change::Content`] lies there.
    pub fn set_place(&mut self, id: ContentId, place: Place) {
        self.contents.set_place(id, place);
    }

    /// Where a content lies.
    pub fn place(&self, id: ContentId) -> Option<Place> {
        self.contents.place(id)
    }

    /// Bytes of contents still wanted in a unit of the journal.
    pub fn live_bytes(&self, unit: u64) -> u64 {
        self.contents.live_bytes(unit)
    }

    /// Units that have become empty since this was last asked; by changes that may not be durable.
    pub fn take_emptied(&mut self) -> std::vec::Drain<'_, u64> {
        self.contents.take_emptied()
    }

    /// In which life the shard is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// All messages of all queues.
    pub fn message_count(&self) -> u64 {
        self.messages
    }

    /// The overlay a settlement would replace, so that the engine can merge changed properties.
    pub fn overlay(
        &self,
        queue: &QueueName,
        part: Part,
        sequence: crate::name::SequenceNumber,
    ) -> Option<(ContentId, Place)> {
        let queue = self.queues.get(self.names.get(queue)?)?;
        let id = queue.shelf(part).messages.get(sequence.0)?.standing.overlay;
        (id.0 != 0).then(|| self.contents.place(id).map(|place| (id, place))).flatten()
    }

    /// Makes a change and remembers it for the journal.
    fn emit(&mut self, now: Now, change: Change, fx: &mut Effects) {
        self.set(now, &change, fx);
        self.journal(change, fx);
    }

    fn journal(&mut self, change: Change, fx: &mut Effects) {
        self.written = self.frame;
        fx.changes.push(change);
    }

    fn describe_queue(&self, name: &QueueName) -> Result<Outcome, Refusal> {
        Ok(Outcome::Queue(Box::new(self.queue_named(name)?.info())))
    }

    fn queue_named(&self, name: &QueueName) -> Result<&Queue, Refusal> {
        Ok(&self.queues[&self.queue_id(name)?])
    }

    fn queue_named_mut(&mut self, name: &QueueName) -> Result<&mut Queue, Refusal> {
        let id = self.queue_id(name)?;
        Ok(self.queues.get_mut(&id).expect("a queue that has a name is there"))
    }

    fn queue_id(&self, name: &QueueName) -> Result<QueueId, Refusal> {
        self.names.get(name).copied().ok_or_else(|| Refusal::QueueNotFound(name.clone()))
    }

    fn message(&self, at: At) -> Option<&Message> {
        self.queues.get(&at.queue)?.shelf(at.part).messages.get(at.sequence.0)
    }

    /// What the ledger holds in memory, for the budget.
    pub fn memory_bytes(&self) -> u64 {
        self.messages * limits::MESSAGE_MEMORY_BYTES
            + self.seen * limits::SEEN_MEMORY_BYTES
            + self.jobs.memory_bytes()
    }
}

/// Answers that the rules said no.
fn refuse(ticket: Ticket, refusal: Refusal, fx: &mut Effects) {
    fx.answers.push(Answer { ticket, result: Err(refusal), barrier: Barrier::Durable });
}

/// One caller keeps the writer busy for a bounded time only.
fn check_count(what: &'static str, count: usize) -> Result<(), Refusal> {
    let max = limits::BATCH_MESSAGES_MAX;
    if count > max { Err(Refusal::TooMany { what, max: max as u64 }) } else { Ok(()) }
}
