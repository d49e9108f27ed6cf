//! Jobs and their items.

use std::collections::BTreeMap;

use bellwether_core::command::{NewContent, Request};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::Refusal;
use bellwether_core::job::{
    EndJob, Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo, JobSettings,
    OnFailure, Which,
};
use bellwether_core::message::{NewMessage, Reason, State};
use bellwether_core::name::{
    JobName, LockToken, Part, QueueName, QueuePath, SequenceNumber, SessionId, Ticket,
};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::WallTime;

use super::queues::Message;
use super::{ForWhat, Naive};

pub struct Job {
    pub id: u32,
    pub name: JobName,
    pub settings: JobSettings,
    pub gather_bytes: Option<u32>,
    pub created_at: WallTime,
    pub size: Option<u32>,
    pub items: BTreeMap<u32, Item>,
    pub ended: Option<Ended>,
    pub gathered: bool,
    /// Its messages are to be looked after.
    pub to_sweep: bool,
}

#[derive(Clone, Copy)]
pub struct Item {
    /// Contents are one if there are any.
    pub state: ItemState,
    pub result_bytes: u32,
}

const SOME: ContentId = ContentId(1);
const NONE: ContentId = ContentId(0);

impl Job {
    fn count(&self, is: impl Fn(&ItemState) -> bool) -> u32 {
        self.items.values().filter(|item| is(&item.state)).count() as u32
    }

    pub fn info(&self) -> JobInfo {
        JobInfo {
            name: self.name.clone(),
            settings: self.settings.clone(),
            created_at: self.created_at,
            items: self.size,
            dispatched: self.items.len() as u32,
            next: (0..).find(|index| !self.items.contains_key(index)).unwrap(),
            done: self.count(|state| matches!(state, ItemState::Done { .. })),
            failed: self.count(|state| matches!(state, ItemState::Failed { .. })),
            ended: self.ended,
            gathered: self.gathered,
        }
    }

    pub fn has_pending(&self) -> bool {
        self.count(is_pending) > 0
    }

    /// When time does something to it.
    pub fn due(&self) -> Option<WallTime> {
        match self.ended {
            Some(ended) => Some(ended.at.plus_ms(self.settings.retention_ms)),
            None => self.settings.deadline_ms.map(|ms| self.created_at.plus_ms(ms)),
        }
    }
}

fn is_pending(state: &ItemState) -> bool {
    matches!(state, ItemState::Pending { .. })
}

fn wrong(what: &'static str) -> Refusal {
    Refusal::InvalidValue { what, why: String::new() }
}

impl Naive {
    pub fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    fn job_mut(&mut self, id: u32) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    fn job_named(&self, name: &JobName) -> Result<&Job, Refusal> {
        let job = self.jobs.iter().find(|job| job.name == *name);
        job.ok_or_else(|| Refusal::JobNotFound(name.clone()))
    }

    pub fn create_job(
        &mut self,
        name: &JobName,
        settings: &JobSettings,
        size: Option<u32>,
        gather: Option<NewContent>,
    ) -> Result<Outcome, Refusal> {
        if self.job_named(name).is_ok() {
            return Ok(Outcome::JobCreated { existed: true });
        }
        settings.check()?;
        if settings.gather_to.is_some() != gather.is_some() {
            return Err(wrong("gather"));
        }
        self.queue_named(&settings.queue)?;
        if let Some(queue) = &settings.gather_to {
            let bytes_max = self.queues[self.queue_named(queue)?].settings.message_bytes_max;
            let bytes = gather.unwrap().bytes;
            if bytes > bytes_max {
                let (bytes, bytes_max) = (bytes.into(), bytes_max.into());
                let what = "a message, properties included,";
                return Err(Refusal::TooLarge { what, bytes, bytes_max });
            }
        }
        self.jobs_ever += 1;
        let id = self.jobs_ever;
        self.jobs.push(Job {
            id,
            name: name.clone(),
            settings: settings.clone(),
            gather_bytes: gather.map(|new| new.bytes),
            created_at: self.now.wall,
            size,
            items: BTreeMap::new(),
            ended: None,
            gathered: false,
            to_sweep: false,
        });
        self.judge(id);
        Ok(Outcome::JobCreated { existed: false })
    }

    pub fn dispatch(
        &mut self,
        name: &JobName,
        first: u32,
        messages: &[NewMessage],
        size: Option<u32>,
    ) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        if messages.is_empty() && size.is_none() {
            return Err(wrong("items"));
        }
        if job.size.is_some() && size.is_some() && job.size != size {
            return Err(wrong("items"));
        }
        let named = (first..).take(messages.len());
        let known = job.items.keys().copied();
        let highest = known.chain(named.clone()).max();
        if let (Some(size), Some(highest)) = (job.size.or(size), highest)
            && highest >= size
        {
            return Err(wrong("items"));
        }
        let new = named.zip(messages).filter(|(index, _)| !job.items.contains_key(index));
        let new: Vec<(u32, NewMessage)> = new.map(|(index, new)| (index, new.clone())).collect();
        if job.ended.is_some() {
            let is_known = new.is_empty() && (size.is_none() || job.size == size);
            let ended = Err(Refusal::JobEnded(name.clone()));
            return if is_known { Ok(Outcome::Dispatched { sent: 0 }) } else { ended };
        }
        let id = job.id;
        if !new.is_empty() {
            let queue = job.settings.queue.clone();
            let q = self.queue_named(&queue)?;
            self.check_send(q, new.iter().map(|(_, new)| new))?;
            self.say_size(id, size);
            self.queues[q].used_at = self.now.boot;
            let mut ready = Vec::new();
            for (index, new) in &new {
                let sequence = self.enqueue(q, new);
                let message = self.queues[q].messages.last_mut().unwrap();
                message.item = Some((id, *index));
                if message.state == State::Ready {
                    ready.push(sequence);
                }
                let state = ItemState::Pending { content: SOME };
                self.set_item(id, *index, state, 0);
            }
            for sequence in ready {
                if self.queues[q].find(false, sequence).is_some() {
                    self.forward(q, sequence);
                }
            }
        }
        self.say_size(id, size);
        self.judge(id);
        Ok(Outcome::Dispatched { sent: new.len() as u32 })
    }

    fn say_size(&mut self, id: u32, size: Option<u32>) {
        let job = self.job_mut(id).unwrap();
        job.size = job.size.or(size);
    }

    fn set_item(&mut self, job: u32, index: u32, state: ItemState, result_bytes: u32) {
        self.job_mut(job).unwrap().items.insert(index, Item { state, result_bytes });
    }

    /// What a message did not live to see done has failed, or is done.
    pub fn item_left(&mut self, message: &Message, state: ItemState) {
        let Some((job, index)) = message.item else { return };
        let Some(record) = self.job(job) else { return };
        if record.ended.is_none() && is_pending(&record.items[&index].state) {
            self.set_item(job, index, state, 0);
            self.judge(job);
        }
    }

    pub fn item_done(&mut self, message: &Message) {
        self.item_left(message, ItemState::Done { result: NONE });
    }

    pub fn item_gone(&mut self, message: &Message, why: Failure) {
        self.item_left(message, ItemState::Failed { content: NONE, why });
    }

    pub fn item_dead_lettered(&mut self, message: &Message, reason: Reason) {
        let why = Failure::DeadLettered { reason };
        self.item_left(message, ItemState::Failed { content: SOME, why });
    }

    pub fn item_redriven(&mut self, message: &Message) {
        let Some((job, index)) = message.item else { return };
        if self.job(job).is_some_and(|job| job.ended.is_none()) {
            self.set_item(job, index, ItemState::Pending { content: SOME }, 0);
        }
    }

    /// Whether nobody needs the message any more.
    pub fn is_unwanted(&self, message: &Message) -> bool {
        let Some((job, index)) = message.item else { return false };
        let Some(job) = self.job(job) else { return false };
        !message.dead && job.ended.is_some() && is_pending(&job.items[&index].state)
    }

    pub fn complete_item(
        &mut self,
        from: &QueuePath,
        token: LockToken,
        result: Option<NewContent>,
    ) -> Result<Outcome, Refusal> {
        let q = self.queue_named(&from.queue)?;
        self.queues[q].used_at = self.now.boot;
        let m = self.locked(q, from.part == Part::Dead, token)?;
        let message = self.queues[q].messages.remove(m);
        self.queues[q].totals.completed += 1;
        self.forget_sessions(q);
        let Some((job, index)) = message.item else { return Ok(Outcome::Count(0)) };
        if self.job(job).is_none_or(|job| job.ended.is_some()) {
            return Ok(Outcome::Count(0));
        }
        let kept = if result.is_some() { SOME } else { NONE };
        let bytes = result.map_or(0, |new| new.bytes);
        self.set_item(job, index, ItemState::Done { result: kept }, bytes);
        self.judge(job);
        Ok(Outcome::Count(1))
    }

    fn judge(&mut self, id: u32) {
        let Some(job) = self.job(id).filter(|job| job.ended.is_none()) else { return };
        let info = job.info();
        let is_settled = job.size == Some(info.done + info.failed);
        let how = match job.settings.on_failure {
            OnFailure::Fail if info.failed > 0 => Ending::Failed,
            _ if !is_settled => return,
            _ if info.failed == 0 => Ending::Completed,
            OnFailure::Gaps => Ending::Gaps,
            OnFailure::Wait | OnFailure::Fail => return,
        };
        self.end(id, how);
    }

    fn end(&mut self, id: u32, how: Ending) {
        let at = self.now.wall;
        let job = self.job_mut(id).unwrap();
        job.ended = Some(Ended { how, at });
        job.to_sweep = job.has_pending();
        self.gather(id);
        let info = self.job(id).unwrap().info();
        let waits = self.waits.iter().filter(|wait| wait.for_what == ForWhat::Job(id));
        let waiting: Vec<Ticket> = waits.map(|wait| wait.ticket).collect();
        for ticket in waiting {
            self.answer_wait(ticket, Ok(Outcome::Job(Box::new(info.clone()))));
        }
    }

    fn gather(&mut self, id: u32) {
        let job = self.job(id).unwrap();
        let Some(queue) = job.settings.gather_to.clone() else { return };
        let Ok(q) = self.queue_named(&queue) else { return };
        let session = SessionId::new(job.name.as_str()).ok();
        let content_bytes = job.gather_bytes.unwrap();
        self.job_mut(id).unwrap().gathered = true;
        let new = NewMessage { content_bytes, session, ..NewMessage::default() };
        let sequence = self.enqueue(q, &new);
        self.queues[q].used_at = self.now.boot;
        self.queues[q].messages.last_mut().unwrap().gathers = Some(id);
        self.forward(q, sequence);
    }

    /// A queue was created.
    pub fn gather_what_is_owed(&mut self, queue: &QueueName) {
        let owed = self.jobs.iter().filter(|job| {
            job.ended.is_some() && !job.gathered && job.settings.gather_to.as_ref() == Some(queue)
        });
        let owed: Vec<u32> = owed.map(|job| job.id).collect();
        for id in owed {
            self.gather(id);
        }
    }

    pub fn end_job(&mut self, name: &JobName, how: EndJob) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        let id = job.id;
        match (how, job.ended) {
            (EndJob::Forget, None) => return Err(Refusal::JobOpen(name.clone())),
            (EndJob::Forget, Some(_)) => self.forget_job(id),
            (_, Some(_)) => return Err(Refusal::JobEnded(name.clone())),
            (EndJob::Cancel, None) => self.end(id, Ending::Cancelled),
            (EndJob::AcceptGaps, None) => {
                self.job_mut(id).unwrap().settings.on_failure = OnFailure::Gaps;
                self.judge(id);
            }
        }
        Ok(Outcome::Done)
    }

    fn forget_job(&mut self, id: u32) {
        let index = self.jobs.iter().position(|job| job.id == id).unwrap();
        let job = self.jobs.remove(index);
        // Let go of at the next tick.
        self.remains_bytes +=
            job.items.values().map(|item| u64::from(item.result_bytes)).sum::<u64>();
    }

    /// Its deadline has passed, or its retention.
    pub fn job_is_due(&mut self, id: u32) {
        if self.job(id).unwrap().ended.is_some() {
            self.forget_job(id);
        } else {
            self.end(id, Ending::Overdue);
        }
    }

    pub fn queue_was_removed(&mut self) {
        for job in self.jobs.iter_mut().filter(|job| job.ended.is_none()) {
            job.to_sweep |= job.has_pending();
        }
    }

    pub fn sweep(&mut self) {
        while let Some(job) = self.jobs.iter_mut().find(|job| job.to_sweep) {
            job.to_sweep = false;
            let pending = job.items.iter().filter(|(_, item)| is_pending(&item.state));
            let (id, pending): (u32, Vec<u32>) =
                (job.id, pending.map(|(index, _)| *index).collect());
            for index in pending {
                self.sweep_item(id, index);
            }
        }
        self.remains_bytes = 0;
    }

    fn sweep_item(&mut self, id: u32, index: u32) {
        let is_open = self.job(id).unwrap().ended.is_none();
        match self.message_of(id, index) {
            None if is_open => {
                let why = Failure::QueueGone;
                self.set_item(id, index, ItemState::Failed { content: NONE, why }, 0);
                self.judge(id);
            }
            Some((q, m)) if !is_open => {
                let message = &self.queues[q].messages[m];
                if !message.dead && !matches!(message.state, State::Locked(_)) {
                    self.queues[q].messages.remove(m);
                    self.queues[q].totals.purged += 1;
                    self.forget_sessions(q);
                }
            }
            _ => {}
        }
    }

    fn message_of(&self, id: u32, index: u32) -> Option<(usize, usize)> {
        self.queues.iter().enumerate().find_map(|(q, queue)| {
            let m = queue.messages.iter().position(|m| m.item == Some((id, index)))?;
            Some((q, m))
        })
    }

    pub fn await_job(
        &mut self,
        ticket: Ticket,
        request: &Request,
        name: &JobName,
        wait_ms: u64,
    ) -> Result<Option<Outcome>, Refusal> {
        let job = self.job_named(name)?;
        if job.ended.is_some() || wait_ms == 0 {
            return Ok(Some(Outcome::Job(Box::new(job.info()))));
        }
        let id = job.id;
        self.wait(ticket, request, wait_ms, ForWhat::Job(id));
        Ok(None)
    }

    pub fn list_jobs(&self, after: Option<&JobName>, max: u32) -> Outcome {
        let mut infos: Vec<JobInfo> = self.jobs.iter().map(Job::info).collect();
        infos.retain(|info| after.is_none_or(|after| info.name > *after));
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos.truncate(max as usize);
        Outcome::Jobs(infos)
    }

    pub fn list_items(
        &self,
        name: &JobName,
        from: u32,
        max: u32,
        which: Which,
    ) -> Result<Outcome, Refusal> {
        let job = self.job_named(name)?;
        let is_wanted = |state: &ItemState| match which {
            Which::All => true,
            Which::Pending => is_pending(state),
            Which::Done => matches!(state, ItemState::Done { .. }),
            Which::Failed => matches!(state, ItemState::Failed { .. }),
        };
        let wanted = job.items.range(from..).filter(|(_, item)| is_wanted(&item.state));
        let infos = wanted.take(max as usize).map(|(index, item)| {
            let message = self.message_of(job.id, *index).map(|(q, m)| {
                let (queue, message) = (&self.queues[q], &self.queues[q].messages[m]);
                ItemMessage {
                    queue: queue.name.clone(),
                    part: if message.dead { Part::Dead } else { Part::Main },
                    sequence: SequenceNumber(message.sequence),
                    is_locked: matches!(message.state, State::Locked(_)),
                    deliveries: message.deliveries,
                }
            });
            ItemInfo { index: *index, state: item.state, place: Place::default(), message }
        });
        Ok(Outcome::Items(infos.collect()))
    }

    /// Bytes that jobs keep beside what is in the queues; a gather message that was sent is one
    /// content with that of its job.
    pub fn job_bytes(&self) -> i64 {
        let mut bytes = self.remains_bytes.cast_signed();
        for job in &self.jobs {
            let results = job.items.values().map(|item| i64::from(item.result_bytes));
            bytes += results.sum::<i64>() + i64::from(job.gather_bytes.unwrap_or(0));
        }
        let all = self.queues.iter().flat_map(|queue| &queue.messages);
        for message in all.filter(|m| m.gathers.is_some_and(|id| self.job(id).is_some())) {
            bytes -= i64::from(message.bytes);
        }
        bytes
    }
}
