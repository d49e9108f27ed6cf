//! Items: how a job follows its messages.
//!
//! ```text
//!   message ── content ──► link ──► job, index
//! ```
//!
//! A message keeps its content wherever it moves, and no other message has it: so the content is the
//! way from a message to its item. Links are derived, never journaled.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, Departure};
use crate::command::NewContent;
use crate::content::ContentId;
use crate::error::Refusal;
use crate::job::{Failure, ItemState, Items, Job, JobRecord};
use crate::limits;
use crate::message::{Message, Reason, State};
use crate::name::{At, JobId, JobName, LockToken, Part, QueuePath};
use crate::outcome::Outcome;
use crate::table::Table;
use crate::time::Now;

use super::{Effects, Ledger, Timer};

/// From a message to its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) job: JobId,
    pub(super) index: u32,
    /// Where the message is; `None` before it has come.
    pub(super) at: Option<At>,
}

/// All jobs.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) by_id: BTreeMap<JobId, Job>,
    pub(super) names: BTreeMap<JobName, JobId>,
    pub(super) last: JobId,
    /// By content.
    pub(super) links: Table<Link>,
    /// Jobs that have ended and whose gather message has no queue to go to.
    pub(super) owed: BTreeSet<JobId>,
    /// Jobs with items to look after, and from which index on: those that have ended have messages
    /// to be taken out, others may have lost some.
    sweeping: BTreeMap<JobId, u32>,
    /// What is left of jobs that are forgotten, to be let go of some at a time.
    remains: Vec<Items>,
    /// Records of items of all jobs.
    entries: u64,
}

impl Jobs {
    /// What they take up in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.by_id.len() as u64 * limits::JOB_MEMORY_BYTES
            + self.entries * limits::ITEM_MEMORY_BYTES
    }

    /// Whether there is something to be done that nobody asked for.
    pub(super) fn has_chores(&self) -> bool {
        !self.sweeping.is_empty() || !self.remains.is_empty()
    }

    /// A queue is gone: whose messages went with it is looked for.
    pub(super) fn queue_gone(&mut self) {
        let open = self.by_id.values().filter(|job| job.record.ended.is_none());
        let with_messages = open.filter(|job| job.items.pending(0).next().is_some());
        self.sweeping.extend(with_messages.map(|job| (job.id, 0)));
    }

    fn is_pending(&self, link: &Link) -> bool {
        let item = self.by_id.get(&link.job).and_then(|job| job.items.get(link.index));
        matches!(item, Some(ItemState::Pending { .. }))
    }

    fn is_open(&self, id: JobId) -> bool {
        self.by_id.get(&id).is_some_and(|job| job.record.ended.is_none())
    }
}

impl Ledger {
    pub(super) fn set_job(&mut self, id: JobId, record: &JobRecord, fx: &mut Effects) {
        self.jobs.last = self.jobs.last.max(id);
        let old = self.jobs.by_id.get(&id).map(|job| (job.due(), job.record.gather));
        self.jobs.names.insert(record.name.clone(), id);
        let job = self.jobs.by_id.entry(id).or_insert_with(|| Job::new(id, record.clone()));
        job.record = record.clone();
        if !self.live {
            return;
        }
        let due = job.due();
        match old {
            None => drop(self.contents.hold(record.gather)),
            Some((_, gather)) if gather != record.gather => {
                self.contents.hold(record.gather);
                self.contents.let_go(gather, &mut fx.dropped);
            }
            Some(_) => {}
        }
        if let Some((Some(old), _)) = old {
            self.timers.wall.remove(&(old, Timer::Job(id)));
        }
        if let Some(due) = due {
            self.timers.wall.insert((due, Timer::Job(id)));
        }
        self.follow_end(id);
    }

    /// What follows from a job having ended.
    fn follow_end(&mut self, id: JobId) {
        let Some(job) = self.jobs.by_id.get(&id) else { return };
        let record = &job.record;
        let owes = record.ended.is_some() && record.settings.gather_to.is_some();
        if owes && !record.gathered {
            self.jobs.owed.insert(id);
        } else {
            self.jobs.owed.remove(&id);
        }
        if record.ended.is_some() && job.items.pending(0).next().is_some() {
            self.jobs.sweeping.insert(id, 0);
        }
    }

    pub(super) fn set_job_gone(&mut self, id: JobId, fx: &mut Effects) {
        self.jobs.last = self.jobs.last.max(id);
        if self.live {
            self.tell_forgotten(id, fx);
        }
        let Some(job) = self.jobs.by_id.remove(&id) else { return };
        if self.jobs.names.get(&job.record.name) == Some(&id) {
            self.jobs.names.remove(&job.record.name);
        }
        if !self.live {
            return;
        }
        if let Some(due) = job.due() {
            self.timers.wall.remove(&(due, Timer::Job(id)));
        }
        self.jobs.sweeping.remove(&id);
        self.jobs.owed.remove(&id);
        self.jobs.entries -= job.items.entries();
        self.contents.let_go(job.record.gather, &mut fx.dropped);
        self.jobs.remains.push(job.items);
    }

    pub(super) fn set_items(
        &mut self,
        id: JobId,
        first: u32,
        count: u32,
        state: ItemState,
        fx: &mut Effects,
    ) {
        let Some(job) = self.jobs.by_id.get_mut(&id) else { return };
        // No dispatch has more: bytes that say so are none of ours.
        let count = count.min(limits::BATCH_MESSAGES_MAX as u32);
        let count = count.min(limits::JOB_ITEMS_MAX.saturating_sub(first));
        for nth in 0..count {
            let (index, state) = (first + nth, state.nth(nth));
            if !self.live {
                job.items.set(index, state);
                continue;
            }
            let old = job.items.get(index);
            let before = job.items.entries();
            job.items.set(index, state);
            self.jobs.entries += job.items.entries();
            self.jobs.entries -= before;
            if let ItemState::Done { result } = state {
                self.contents.hold(result);
            }
            if let Some(ItemState::Done { result }) = old {
                self.contents.let_go(result, &mut fx.dropped);
            }
            if let ItemState::Pending { content } = state {
                let at = self.jobs.links.get(content.0).and_then(|link| link.at);
                self.jobs.links.insert(content.0, Link { job: id, index, at });
            }
        }
    }

    /// The replay is over: the ways from messages to items, before the messages come.
    pub(super) fn start_jobs(&mut self) {
        for (id, job) in &self.jobs.by_id {
            let items = &job.items;
            self.jobs.entries += items.entries();
            self.contents.hold(job.record.gather);
            for (_, result) in items.results(0) {
                self.contents.hold(result);
            }
            let failed = items.failures(0).map(|(index, content, _)| (index, content));
            for (index, content) in items.pending(0).chain(failed) {
                let link = Link { job: *id, index, at: None };
                if content.0 != 0 {
                    self.jobs.links.insert(content.0, link);
                }
            }
            if let Some(due) = job.due() {
                self.timers.wall.insert((due, Timer::Job(*id)));
            }
        }
    }

    /// The messages have come: what is still to be done about jobs.
    pub(super) fn end_start_of_jobs(&mut self) {
        let ids: Vec<JobId> = self.jobs.by_id.keys().copied().collect();
        for id in ids {
            self.follow_end(id);
        }
        // A queue may have gone just before the end of the last life.
        self.jobs.queue_gone();
        let lost = self.jobs.links.range(0).filter(|(_, link)| link.at.is_none());
        let lost: Vec<u64> = lost.map(|(content, _)| content).collect();
        for content in lost {
            self.jobs.links.remove(content);
        }
    }

    /// A message is there: if it is an item's, this is where.
    pub(super) fn link_message(&mut self, at: At, content: ContentId) {
        if let Some(link) = self.jobs.links.get_mut(content.0) {
            link.at = Some(at);
        }
    }

    /// A message is gone from there. One that moved is somewhere else already.
    pub(super) fn unlink_message(&mut self, at: At, content: ContentId) {
        self.jobs.links.remove_if(content.0, |link| link.at == Some(at));
    }

    /// The item a message stands for.
    fn item_at(&self, at: At) -> Option<Link> {
        if self.jobs.links.is_empty() {
            return None;
        }
        let content = self.message(at)?.content;
        self.jobs.links.get(content.0).copied().filter(|link| link.at == Some(at))
    }

    /// A message leaves for good, and its item with it, in one step.
    pub(super) fn depart(&mut self, now: Now, at: At, why: Departure, fx: &mut Effects) {
        let link = self.item_at(at);
        self.emit(now, Change::Gone { at, why }, fx);
        let Some(link) = link.filter(|link| self.jobs.is_pending(link)) else { return };
        if cfg!(planted_bug = "expired_item_hangs") && why == Departure::Expired {
            return;
        }
        let content = ContentId(0);
        let state = match why {
            Departure::Completed => ItemState::Done { result: content },
            Departure::Expired => ItemState::Failed { content, why: Failure::Expired },
            _ => ItemState::Failed { content, why: Failure::Removed },
        };
        self.settle_item(now, link, state, fx);
    }

    /// A message became a dead letter, here or elsewhere.
    pub(super) fn item_dead_lettered(
        &mut self,
        now: Now,
        content: ContentId,
        reason: Reason,
        fx: &mut Effects,
    ) {
        let Some(link) = self.jobs.links.get(content.0).copied() else { return };
        if self.jobs.is_pending(&link) {
            let why = Failure::DeadLettered { reason };
            self.settle_item(now, link, ItemState::Failed { content, why }, fx);
        }
    }

    /// A dead letter is sent again: its item is open again, if its job is.
    pub(super) fn item_redriven(&mut self, now: Now, at: At, fx: &mut Effects) {
        let Some(link) = self.item_at(at) else { return };
        let Some(content) = self.message(at).map(|message| message.content) else { return };
        if self.jobs.is_open(link.job) && !self.jobs.is_pending(&link) {
            self.settle_item(now, link, ItemState::Pending { content }, fx);
        }
    }

    fn settle_item(&mut self, now: Now, link: Link, state: ItemState, fx: &mut Effects) {
        if !self.jobs.is_open(link.job) {
            return;
        }
        let Link { job, index: first, .. } = link;
        self.emit(now, Change::Items { job, first, count: 1, state }, fx);
        self.judge(now, job, fx);
    }

    /// Whether a message was to do something for a job that has ended: nobody needs it any more.
    pub(super) fn is_unwanted(&self, at: At) -> bool {
        let link = self.item_at(at).filter(|link| self.jobs.is_pending(link));
        at.part == Part::Main && link.is_some_and(|link| !self.jobs.is_open(link.job))
    }

    pub(super) fn complete_item(
        &mut self,
        now: Now,
        from: &QueuePath,
        token: LockToken,
        result: Option<NewContent>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let id = self.queue_id(&from.queue)?;
        if let Some(new) = result
            && new.bytes > limits::RESULT_BYTES_MAX
        {
            return Err(Refusal::TooLarge {
                what: "the result of an item",
                bytes: new.bytes.into(),
                bytes_max: limits::RESULT_BYTES_MAX.into(),
            });
        }
        self.touch_queue(now, id);
        let (at, _) = self.locked(now, id, from.part, token)?;
        let link = self.item_at(at).filter(|link| self.jobs.is_open(link.job));
        let Some(link) = link else {
            // Its job has ended without it, or it never had one: there is nobody to give it to.
            self.emit(now, Change::Gone { at, why: Departure::Completed }, fx);
            return Ok(Outcome::Count(0));
        };
        if self.disk_full && result.is_some() {
            return Err(Refusal::DiskFull);
        }
        self.emit(now, Change::Gone { at, why: Departure::Completed }, fx);
        let result = result.map(|new| self.add_content(now, new, fx)).unwrap_or_default();
        self.settle_item(now, link, ItemState::Done { result }, fx);
        Ok(Outcome::Count(1))
    }

    /// Looks after items, a bounded amount at a time: messages nobody needs any more go, and items
    /// whose message went with its queue fail.
    pub(super) fn sweep_jobs(&mut self, now: Now, fx: &mut Effects) {
        let mut left = limits::TICK_WORK_MAX;
        while let Some((id, from)) = self.jobs.sweeping.first_key_value().map(|(id, at)| (*id, *at))
        {
            let Some(job) = self.jobs.by_id.get(&id) else {
                self.jobs.sweeping.remove(&id);
                continue;
            };
            let some: Vec<(u32, ContentId)> = job.items.pending(from).take(left).collect();
            match some.last() {
                Some((last, _)) if some.len() == left => {
                    self.jobs.sweeping.insert(id, last + 1);
                }
                _ => drop(self.jobs.sweeping.remove(&id)),
            }
            left -= some.len();
            for (index, content) in some {
                self.sweep_item(now, id, index, content, fx);
            }
            if left == 0 {
                return;
            }
        }
        self.let_go_of_remains(left, fx);
    }

    fn sweep_item(
        &mut self,
        now: Now,
        job: JobId,
        index: u32,
        content: ContentId,
        fx: &mut Effects,
    ) {
        let at = self.jobs.links.get(content.0).and_then(|link| link.at);
        let message = at.and_then(|at| Some((at, *self.message(at)?)));
        let is_open = self.jobs.is_open(job);
        match message {
            None if is_open => {
                let why = Failure::QueueGone;
                let state = ItemState::Failed { content: ContentId(0), why };
                self.settle_item(now, Link { job, index, at: None }, state, fx);
            }
            Some((at, Message { standing, .. })) if !is_open && at.part == Part::Main => {
                // Whoever has it locked may end it; it is not handed out again.
                if !matches!(standing.state, State::Locked(_)) {
                    self.emit(now, Change::Gone { at, why: Departure::Purged }, fx);
                }
            }
            _ => {}
        }
    }

    fn let_go_of_remains(&mut self, max: usize, fx: &mut Effects) {
        for _ in 0..max {
            let Some(items) = self.jobs.remains.last_mut() else { return };
            match items.take_result() {
                Some(result) => drop(self.contents.let_go(result, &mut fx.dropped)),
                None => drop(self.jobs.remains.pop()),
            }
        }
    }
}
