//! Schedules: creating, steering, and what is due.

use std::collections::BTreeMap;

use crate::calendar::Rule;
use crate::change::Change;
use crate::command::NewContent;
use crate::content::ContentId;
use crate::error::Refusal;
use crate::limits;
use crate::message::{Message, NewMessage, Standing, State};
use crate::name::{At, Part, QueueId, ScheduleName};
use crate::outcome::Outcome;
use crate::schedule::{ScheduleRecord, ScheduleSettings, SteerSchedule};
use crate::time::{Now, WallTime};

use super::{Effects, Ledger, Timer};

/// All schedules, under numbers that only live in memory.
#[derive(Debug, Default)]
pub(super) struct Schedules {
    pub(super) by_index: BTreeMap<u32, Schedule>,
    pub(super) names: BTreeMap<ScheduleName, u32>,
    last: u32,
}

#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) record: ScheduleRecord,
    /// As it was read; `None` for a rule that this program cannot read any more.
    rule: Option<Rule>,
}

impl Ledger {
    pub(super) fn create_schedule(
        &mut self,
        now: Now,
        name: &ScheduleName,
        settings: &ScheduleSettings,
        content: NewContent,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        if self.schedules.names.contains_key(name) {
            return Ok(Outcome::ScheduleCreated { existed: true });
        }
        let rule = settings.check()?;
        let queue = self.queue_named(&settings.queue)?;
        if content.bytes > queue.settings.message_bytes_max {
            let bytes_max = queue.settings.message_bytes_max.into();
            let what = "a message, properties included,";
            return Err(Refusal::TooLarge { what, bytes: content.bytes.into(), bytes_max });
        }
        if queue.settings.sessions && settings.session.is_none() {
            return Err(Refusal::SessionRequired(queue.name.clone()));
        }
        if self.schedules.names.len() >= limits::SCHEDULES_MAX {
            return Err(Refusal::TooMany { what: "schedules", max: limits::SCHEDULES_MAX as u64 });
        }
        if self.disk_full {
            return Err(Refusal::DiskFull);
        }
        let content = self.add_content(now, content, fx);
        let record = ScheduleRecord {
            name: name.clone(),
            settings: settings.clone(),
            content,
            created_at: now.wall,
            next: rule.next(now.wall, now.wall),
            last: None,
            sent: 0,
            skipped: 0,
        };
        self.emit(now, Change::Schedule { record: Box::new(record) }, fx);
        Ok(Outcome::ScheduleCreated { existed: false })
    }

    pub(super) fn steer_schedule(
        &mut self,
        now: Now,
        name: &ScheduleName,
        how: SteerSchedule,
        fx: &mut Effects,
    ) -> Result<Outcome, Refusal> {
        let not_found = || Refusal::ScheduleNotFound(name.clone());
        let index = self.schedules.names.get(name).copied().ok_or_else(not_found)?;
        let schedule = &self.schedules.by_index[&index];
        let mut record = schedule.record.clone();
        match how {
            SteerSchedule::Pause => record.next = None,
            SteerSchedule::Resume if record.next.is_some() => return Ok(Outcome::Done),
            SteerSchedule::Resume => {
                let rule = schedule.rule.as_ref();
                record.next = rule.and_then(|rule| rule.next(record.created_at, now.wall));
            }
            SteerSchedule::RunNow => {
                let queue = self.queue_of_schedule(&record)?;
                record.sent += 1;
                self.emit(now, Change::Schedule { record: Box::new(record.clone()) }, fx);
                self.send_slot(now, queue, &record, now.wall, fx);
                return Ok(Outcome::Done);
            }
            SteerSchedule::Delete => {
                self.emit(now, Change::ScheduleGone { name: name.clone() }, fx);
                return Ok(Outcome::Done);
            }
        }
        self.emit(now, Change::Schedule { record: Box::new(record) }, fx);
        Ok(Outcome::Done)
    }

    pub(super) fn list_schedules(&self, from: Option<&ScheduleName>, max: u32) -> Outcome {
        use std::ops::Bound::{Included, Unbounded};
        let from = from.map_or(Unbounded, Included);
        let names = self.schedules.names.range::<ScheduleName, _>((from, Unbounded));
        let infos = names.take(max as usize).map(|(_, index)| {
            let schedule = &self.schedules.by_index[index];
            (&schedule.record).into()
        });
        Outcome::Schedules(infos.collect())
    }

    /// Its queue, if that takes its message.
    fn queue_of_schedule(&self, record: &ScheduleRecord) -> Result<QueueId, Refusal> {
        let queue = self.queue_named(&record.settings.queue)?;
        let message = NewMessage {
            content_bytes: self.contents.len(record.content) as u32,
            session: record.settings.session.clone(),
            ..NewMessage::default()
        };
        self.check_send(queue, &[message])?;
        Ok(queue.id)
    }

    /// A slot is due: it sends its message in the step that says which one is next.
    pub(super) fn schedule_fired(&mut self, now: Now, index: u32, fx: &mut Effects) {
        let Some(schedule) = self.schedules.by_index.get(&index) else { return };
        let Some(rule) = &schedule.rule else { return };
        let Some(due) = schedule.record.due(rule, now.wall) else {
            return self.arm_schedule(index);
        };
        let mut record = schedule.record.clone();
        record.next = due.next;
        record.skipped += due.skipped;
        let queue = self.queue_of_schedule(&record);
        match queue {
            Ok(_) => {
                record.sent += due.slots.len() as u64;
                record.last = due.slots.last().copied().or(record.last);
            }
            Err(_) => record.skipped += due.slots.len() as u64,
        }
        #[cfg(not(planted_bug = "slot_not_advanced"))]
        self.emit(now, Change::Schedule { record: Box::new(record.clone()) }, fx);
        #[cfg(planted_bug = "slot_not_advanced")]
        self.set(now, &Change::Schedule { record: Box::new(record.clone()) }, fx);
        if let Ok(queue) = queue {
            for slot in due.slots {
                self.send_slot(now, queue, &record, slot, fx);
            }
        }
    }

    /// As a message that was scheduled for that time would come.
    fn send_slot(
        &mut self,
        now: Now,
        queue: QueueId,
        record: &ScheduleRecord,
        slot: WallTime,
        fx: &mut Effects,
    ) {
        let Some(found) = self.queues.get(&queue) else { return };
        let sequence = found.next_sequence();
        let ttl_ms = found.settings.ttl_ms;
        let message = Message {
            content: record.content,
            enqueued_at: slot,
            expires_at: ttl_ms.map_or(WallTime::NEVER, |ms| slot.plus_ms(ms)),
            origin: sequence,
            session: 0,
            source: QueueId(0),
            standing: Standing::new(State::Ready),
        };
        let at = At { queue, part: Part::Main, sequence };
        let session = record.settings.session.clone();
        self.emit(now, Change::Message { at, message, session, arrived: true }, fx);
        self.touch_queue(now, queue);
        self.forward(now, at, fx);
    }

    pub(super) fn set_schedule(&mut self, record: &ScheduleRecord) {
        let known = self.schedules.names.get(&record.name).copied();
        let index = known.unwrap_or(self.schedules.last + 1);
        self.schedules.last = self.schedules.last.max(index);
        self.unarm_schedule(index);
        match self.schedules.by_index.get_mut(&index) {
            Some(schedule) => schedule.record = record.clone(),
            None => {
                let rule = record.settings.check().ok();
                self.schedules.names.insert(record.name.clone(), index);
                let schedule = Schedule { record: record.clone(), rule };
                self.schedules.by_index.insert(index, schedule);
                if self.live {
                    self.contents.hold(record.content);
                }
            }
        }
        self.arm_schedule(index);
    }

    pub(super) fn set_schedule_gone(&mut self, name: &ScheduleName, fx: &mut Effects) {
        let Some(index) = self.schedules.names.remove(name) else { return };
        self.unarm_schedule(index);
        let Some(schedule) = self.schedules.by_index.remove(&index) else { return };
        if self.live {
            self.contents.let_go(schedule.record.content, &mut fx.dropped);
        }
    }

    fn due_of(&self, index: u32) -> Option<WallTime> {
        self.schedules.by_index.get(&index)?.record.next
    }

    fn arm_schedule(&mut self, index: u32) {
        if let Some(due) = self.due_of(index).filter(|_| self.live) {
            self.timers.wall.insert((due, Timer::Schedule(index)));
        }
    }

    fn unarm_schedule(&mut self, index: u32) {
        if let Some(due) = self.due_of(index) {
            self.timers.wall.remove(&(due, Timer::Schedule(index)));
        }
    }

    /// The replay is over.
    pub(super) fn start_schedules(&mut self) {
        let all = self.schedules.by_index.iter();
        let all: Vec<(u32, ContentId)> =
            all.map(|(index, schedule)| (*index, schedule.record.content)).collect();
        for (index, content) in all {
            self.contents.hold(content);
            self.arm_schedule(index);
        }
    }
}
