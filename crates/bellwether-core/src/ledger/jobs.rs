//! Jobs: creating, dispatching, ending, looking.

use crate::change::Change;
use crate::command::{NewContent, Request};
use crate::content::ContentId;
use crate::error::Refusal;
use crate::job::{
    EndJob, Ended, Ending, ItemInfo, ItemMessage, ItemState, Job, JobRecord, JobSettings,
    OnFailure, Which,
};
use crate::limits;
use crate::message::{Message, NewMessage, Standing, State};
use crate::name::{At, JobId, JobName, Part, QueueId, QueueName, SessionId, Ticket};
use crate::outcome::{Answer, Barrier, Outcome};
use crate::time::{Now, WallTime};

use super::{Effects, Ledger, Waits, check_count, refuse};

impl Ledger {
    pub(super) fn create_job(
        &mut self,
        now: Now,
        name: &JobName,
        settings: &JobSettings,
        items: Option<u32>,
        gather: Option<NewContent>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        if self.jobs.names.contains_key(name) {
            return Ok(Outcome::JobCreated { existed: true });
        }
        settings.check()?;
        let wrong = |what, why: &str| Err(Refusal::InvalidValue { what, why: why.into() });
        if settings.gather_to.is_some() != gather.is_some() {
            return wrong("gather", "a gather queue and a gather message belong together");
        }
        self.queue_id(&settings.queue)?;
        if let (Some(queue), Some(new)) = (&settings.gather_to, gather) {
            let bytes_max = self.queue_named(queue)?.settings.message_bytes_max;
            if new.bytes > bytes_max {
                let (bytes, bytes_max) = (new.bytes.into(), bytes_max.into());
                let what = "a message, properties included,";
                return Err(Refusal::TooLarge { what, bytes, bytes_max });
            }
        }
        check_size(items)?;
        if self.jobs.names.len() >= limits::JOBS_MAX {
            return Err(Refusal::TooMany { what: "jobs", max: limits::JOBS_MAX as u64 });
        }
        if self.disk_full {
            return Err(Refusal::DiskFull);
        }
        if self.memory_bytes() + limits::JOB_MEMORY_BYTES > self.memory_bytes_max {
            return Err(Refusal::Busy { retry_after_ms: 100 });
        }
        let id = JobId(self.jobs.last.0 + 1);
        let gather = gather.map(|new| self.add_content(now, new, fx)).unwrap_or_default();
        let record = JobRecord {
            name: name.clone(),
            settings: settings.clone(),
            gather,
            created_at: now.wall,
            items,
            ended: None,
            gathered: false,
        };
        self.emit(now, Change::Job { id, record: Box::new(record) }, fx);
        self.judge(now, id, fx);
        Ok(Outcome::JobCreated { existed: false })
    }

    pub(super) fn dispatch(
        &mut self,
        now: Now,
        name: &JobName,
        first: u32,
        messages: &[NewMessage],
        items: Option<u32>,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        let id = job.id;
        check_count("messages in one send", messages.len())?;
        check_size(items)?;
        let end = check_end(first, messages.len())?;
        let wrong = |why: String| Err(Refusal::InvalidValue { what: "items", why });
        if messages.is_empty() && items.is_none() {
            return wrong("a dispatch needs items, or the number of all there are".into());
        }
        if let (Some(said), Some(asked)) = (job.record.items, items)
            && said != asked
        {
            return wrong(format!("the job has {said} items, as was said before; not {asked}"));
        }
        let highest = if messages.is_empty() { job.items.end() } else { end.max(job.items.end()) };
        if let Some(size) = job.record.items.or(items)
            && highest > size
        {
            return wrong(format!("the job has {size} items, so index {} is none", highest - 1));
        }
        let sends_known = cfg!(planted_bug = "known_items_sent_again");
        let is_new = |index: usize| sends_known || job.items.get(first + index as u32).is_none();
        let new: Vec<usize> = (0..messages.len()).filter(|index| is_new(*index)).collect();
        if job.record.ended.is_some() {
            // Whoever asks again for what was asked before hears no harm.
            let is_known = new.is_empty() && items.is_none_or(|_| job.record.items == items);
            let ended = Refusal::JobEnded(name.clone());
            return if is_known { Ok(Outcome::Dispatched { sent: 0 }) } else { Err(ended) };
        }
        if !new.is_empty() {
            self.check_items(&job.record.settings.queue, messages, &new)?;
        }
        let (queue, mut record) = (job.record.settings.queue.clone(), job.record.clone());
        if record.items.is_none() && items.is_some() {
            record.items = items;
            self.emit(now, Change::Job { id, record: Box::new(record) }, fx);
        }
        let mut moving = Vec::new();
        for run in new.chunk_by(|a, b| a + 1 == *b) {
            self.send_items(now, id, &queue, first, messages, run, &mut moving, fx);
        }
        // What moves on may come to rest as a dead letter, and that may end the job.
        for at in moving {
            self.forward(now, at, fx);
        }
        self.judge(now, id, fx);
        Ok(Outcome::Dispatched { sent: new.len() as u32 })
    }

    /// Everything that can be refused is refused before anything is changed.
    fn check_items(
        &self,
        queue: &QueueName,
        messages: &[NewMessage],
        new: &[usize],
    ) -> Result<(), Refusal> {
        let queue = self.queue_named(queue)?;
        if new.len() == messages.len() {
            self.check_send(queue, messages)?;
        } else {
            let wanted: Vec<_> = new.iter().map(|index| messages[*index].clone()).collect();
            self.check_send(queue, &wanted)?;
        }
        let each = limits::MESSAGE_MEMORY_BYTES + limits::ITEM_MEMORY_BYTES;
        if self.memory_bytes() + new.len() as u64 * each > self.memory_bytes_max {
            return Err(Refusal::Busy { retry_after_ms: 100 });
        }
        Ok(())
    }

    /// Sends items that follow one another. The queue's window is not asked about them: the job
    /// knows its items for as long as it is kept, and one that were dropped would never be done.
    #[allow(clippy::too_many_arguments, reason = "one run of items and where it goes")]
    fn send_items(
        &mut self,
        now: Now,
        job: JobId,
        queue: &QueueName,
        first: u32,
        messages: &[NewMessage],
        run: &[usize],
        moving: &mut Vec<At>,
        fx: &mut Effects,
    ) {
        let Some(queue) = self.names.get(queue).copied() else { return };
        let forwards = self.queues[&queue].settings.forward_to.is_some();
        self.touch_queue(now, queue);
        // First the items, then their messages: these find the way to their item when they come.
        let content = ContentId(self.contents.last_id().0 + 1);
        let (first, count) = (first + run[0] as u32, run.len() as u32);
        let state = ItemState::Pending { content };
        self.emit(now, Change::Items { job, first, count, state }, fx);
        for index in run {
            let new = &messages[*index];
            let content = self.contents.next_id();
            let (index, len) = (*index as u32, new.content_bytes);
            self.emit(now, Change::Content { id: content, index, len }, fx);
            let at = self.put_new(now, queue, new, content, fx);
            if forwards && new.due.is_none_or(|due| due <= now.wall) {
                moving.push(at);
            }
        }
    }

    pub(super) fn end_job(
        &mut self,
        now: Now,
        name: &JobName,
        how: EndJob,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        let (id, is_open) = (job.id, job.record.ended.is_none());
        match how {
            EndJob::Cancel if is_open => self.close_job(now, id, Ending::Cancelled, fx),
            EndJob::AcceptGaps if is_open => {
                let mut record = job.record.clone();
                record.settings.on_failure = OnFailure::Gaps;
                self.emit(now, Change::Job { id, record: Box::new(record) }, fx);
                self.judge(now, id, fx);
            }
            EndJob::Forget if is_open => return Err(Refusal::JobOpen(name.clone())),
            EndJob::Forget => self.emit(now, Change::JobGone { id }, fx),
            // It has ended before: how, its record says.
            EndJob::Cancel | EndJob::AcceptGaps => return Err(Refusal::JobEnded(name.clone())),
        }
        Ok(Outcome::Done)
    }

    /// Ends a job if nothing is missing any more.
    pub(super) fn judge(&mut self, now: Now, id: JobId, fx: &mut Effects) {
        if let Some(how) = self.jobs.by_id.get(&id).and_then(Job::verdict) {
            self.close_job(now, id, how, fx);
        }
    }

    /// A job ends: its gather message is sent in the same step, and who waits hears of it.
    pub(super) fn close_job(&mut self, now: Now, id: JobId, how: Ending, fx: &mut Effects) {
        let Some(job) = self.jobs.by_id.get(&id) else { return };
        let mut record = job.record.clone();
        record.ended = Some(Ended { how, at: now.wall });
        self.gather(now, id, record, fx);
        self.tell_ended(id, fx);
    }

    /// Writes a job's end down with its gather message. If there is no queue for it, it is owed until
    /// there is one.
    fn gather(&mut self, now: Now, id: JobId, mut record: JobRecord, fx: &mut Effects) {
        let queue = record.settings.gather_to.as_ref().and_then(|to| self.names.get(to)).copied();
        record.gathered = queue.is_some();
        let (content, name) = (record.gather, record.name.clone());
        self.emit(now, Change::Job { id, record: Box::new(record) }, fx);
        let Some(queue) = queue else { return };
        self.put_gather(now, queue, content, &name, fx);
        #[cfg(planted_bug = "gather_twice")]
        self.put_gather(now, queue, content, &name, fx);
    }

    fn put_gather(
        &mut self,
        now: Now,
        queue: QueueId,
        content: ContentId,
        name: &JobName,
        fx: &mut Effects,
    ) {
        let sequence = self.queues[&queue].next_sequence();
        let ttl_ms = self.queues[&queue].settings.ttl_ms;
        let message = Message {
            content,
            enqueued_at: now.wall,
            expires_at: ttl_ms.map_or(WallTime::NEVER, |ms| now.wall.plus_ms(ms)),
            origin: sequence,
            session: 0,
            source: QueueId(0),
            standing: Standing::new(State::Ready),
        };
        // In a session of its own, so that what gathers a job is one at a time where it matters.
        let session = SessionId::new(name.as_str()).ok();
        let at = At { queue, part: Part::Main, sequence };
        self.emit(now, Change::Message { at, message, session, arrived: true }, fx);
        self.forward(now, at, fx);
    }

    /// A queue is there: gather messages that had nowhere to go are sent.
    pub(super) fn send_owed(&mut self, now: Now, queue: &QueueName, fx: &mut Effects) {
        let is_for = |id: &&JobId| {
            let job = self.jobs.by_id.get(*id);
            job.is_some_and(|job| job.record.settings.gather_to.as_ref() == Some(queue))
        };
        let owed: Vec<JobId> = self.jobs.owed.iter().filter(is_for).copied().collect();
        for id in owed {
            if let Some(record) = self.jobs.by_id.get(&id).map(|job| job.record.clone()) {
                self.gather(now, id, record, fx);
            }
        }
    }

    fn tell_ended(&mut self, id: JobId, fx: &mut Effects) {
        let Some(job) = self.jobs.by_id.get(&id) else { return };
        let info = job.info();
        let waiting: Vec<Ticket> = job.waits.keys().copied().collect();
        for ticket in waiting {
            self.withdraw(ticket);
            let result = Ok(Outcome::Job(Box::new(info.clone())));
            fx.answers.push(Answer { ticket, result, barrier: Barrier::Durable });
        }
    }

    /// The deadline of a job passed, or its retention.
    pub(super) fn job_fired(&mut self, now: Now, id: JobId, fx: &mut Effects) {
        let Some(job) = self.jobs.by_id.get(&id) else { return };
        if job.record.ended.is_some() {
            self.emit(now, Change::JobGone { id }, fx);
        } else {
            self.close_job(now, id, Ending::Overdue, fx);
        }
    }

    pub(super) fn await_job(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: &Request,
        name: &JobName,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        let job = self.job_named(name)?;
        if job.record.ended.is_some() || wait_ms == 0 {
            return Ok(Some(Outcome::Job(Box::new(job.info()))));
        }
        let id = job.id;
        let until = now.boot.plus_ms(wait_ms.min(limits::WAIT_MS_MAX));
        if let Some(job) = self.jobs.by_id.get_mut(&id) {
            job.waits.insert(ticket, (request.member, request.number, until));
        }
        self.wait(ticket, request, until, Waits::Job(id));
        Ok(None)
    }

    /// A job is forgotten while somebody waits for its end.
    pub(super) fn tell_forgotten(&mut self, id: JobId, fx: &mut Effects) {
        let Some(job) = self.jobs.by_id.get(&id) else { return };
        let name = job.record.name.clone();
        let waiting: Vec<Ticket> = job.waits.keys().copied().collect();
        for ticket in waiting {
            self.withdraw(ticket);
            refuse(ticket, Refusal::JobNotFound(name.clone()), fx);
        }
    }

    pub(super) fn list_jobs(&self, after: Option<&JobName>, max: u32) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let names = self.jobs.names.range::<JobName, _>((from, Unbounded)).take(max as usize);
        Outcome::Jobs(names.map(|(_, id)| self.jobs.by_id[id].info()).collect())
    }

    pub(super) fn list_items(
        &self,
        name: &JobName,
        from: u32,
        max: u32,
        which: Which,
    ) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        let max = max.min(limits::RECEIVE_MESSAGES_MAX) as usize;
        let mut bytes = 0;
        let items = job.items.list(from, which).take(max).map(|item| self.item_info(item));
        let items = items.take_while(|info| {
            let is_first = bytes == 0;
            bytes += u64::from(info.place.len).max(1);
            is_first || bytes <= limits::RECEIVE_BYTES_MAX
        });
        Ok(Outcome::Items(items.collect()))
    }

    fn item_info(&self, (index, state): (u32, ItemState)) -> ItemInfo {
        let (result, content) = match state {
            ItemState::Done { result } => (result, ContentId(0)),
            ItemState::Pending { content } | ItemState::Failed { content, .. } => {
                (ContentId(0), content)
            }
        };
        let at = self.jobs.links.get(content.0).and_then(|link| link.at);
        let message = at.and_then(|at| {
            let message = self.message(at)?;
            Some(ItemMessage {
                queue: self.queues[&at.queue].name.clone(),
                part: at.part,
                sequence: at.sequence,
                is_locked: matches!(message.standing.state, State::Locked(_)),
                deliveries: message.standing.deliveries,
            })
        });
        let place = self.contents.place(result).unwrap_or_default();
        ItemInfo { index, state, place, message }
    }

    pub(super) fn job_named(&self, name: &JobName) -> Result<&Job, Refusal> {
        let id = self.jobs.names.get(name).ok_or_else(|| Refusal::JobNotFound(name.clone()))?;
        Ok(&self.jobs.by_id[id])
    }
}

/// A job has so many items at most.
fn check_size(items: Option<u32>) -> Result<(), Refusal> {
    let max = limits::JOB_ITEMS_MAX;
    if items.is_some_and(|items| items > max) {
        return Err(Refusal::TooMany { what: "items of one job", max: max.into() });
    }
    Ok(())
}

/// One more than the last index of a dispatch.
fn check_end(first: u32, count: usize) -> Result<u32, Refusal> {
    let end = first.checked_add(count as u32);
    check_size(Some(end.unwrap_or(u32::MAX)))?;
    Ok(end.unwrap_or(u32::MAX))
}
