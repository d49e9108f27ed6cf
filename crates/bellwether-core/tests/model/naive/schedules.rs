//! Schedules that are due every so often.

use bellwether_core::command::NewContent;
use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::message::NewMessage;
use bellwether_core::name::ScheduleName;
use bellwether_core::outcome::Outcome;
use bellwether_core::schedule::{Missed, ScheduleInfo, ScheduleSettings, SteerSchedule};
use bellwether_core::time::WallTime;

use super::Naive;

pub struct Schedule {
    /// In the order they were created.
    pub number: u32,
    pub name: ScheduleName,
    pub settings: ScheduleSettings,
    pub bytes: u32,
    pub created_at: WallTime,
    pub next: Option<WallTime>,
    pub last: Option<WallTime>,
    pub sent: u64,
    pub skipped: u64,
}

impl Schedule {
    /// Only rules of whole seconds are drawn.
    fn every_ms(&self) -> u64 {
        let seconds = self.settings.rule.strip_prefix("every ").unwrap();
        seconds.strip_suffix('s').unwrap().parse::<u64>().unwrap() * 1_000
    }

    /// The first slot after a time.
    fn after(&self, at: WallTime) -> WallTime {
        let mut slot = self.created_at;
        while slot <= at {
            slot = slot.plus_ms(self.every_ms());
        }
        slot
    }

    pub fn info(&self) -> ScheduleInfo {
        ScheduleInfo {
            name: self.name.clone(),
            settings: self.settings.clone(),
            created_at: self.created_at,
            next: self.next,
            last: self.last,
            sent: self.sent,
            skipped: self.skipped,
        }
    }
}

impl Naive {
    pub fn create_schedule(
        &mut self,
        name: &ScheduleName,
        settings: &ScheduleSettings,
        content: NewContent,
    ) -> Result<Outcome, Refusal> {
        if self.schedules.iter().any(|schedule| schedule.name == *name) {
            return Ok(Outcome::ScheduleCreated { existed: true });
        }
        settings.check()?;
        let queue = &self.queues[self.queue_named(&settings.queue)?];
        if content.bytes > queue.settings.message_bytes_max {
            let bytes_max = queue.settings.message_bytes_max.into();
            let what = "a message, properties included,";
            return Err(Refusal::TooLarge { what, bytes: content.bytes.into(), bytes_max });
        }
        if queue.settings.sessions && settings.session.is_none() {
            return Err(Refusal::SessionRequired(queue.name.clone()));
        }
        self.schedules_ever += 1;
        let mut schedule = Schedule {
            number: self.schedules_ever,
            name: name.clone(),
            settings: settings.clone(),
            bytes: content.bytes,
            created_at: self.now.wall,
            next: None,
            last: None,
            sent: 0,
            skipped: 0,
        };
        schedule.next = Some(schedule.after(self.now.wall));
        self.schedules.push(schedule);
        Ok(Outcome::ScheduleCreated { existed: false })
    }

    fn schedule_named(&self, name: &ScheduleName) -> Result<usize, Refusal> {
        let found = self.schedules.iter().position(|schedule| schedule.name == *name);
        found.ok_or_else(|| Refusal::ScheduleNotFound(name.clone()))
    }

    pub fn steer_schedule(
        &mut self,
        name: &ScheduleName,
        how: SteerSchedule,
    ) -> Result<Outcome, Refusal> {
        let s = self.schedule_named(name)?;
        let now = self.now.wall;
        match how {
            SteerSchedule::Pause => self.schedules[s].next = None,
            SteerSchedule::Resume => {
                let next = self.schedules[s].next.unwrap_or_else(|| self.schedules[s].after(now));
                self.schedules[s].next = Some(next);
            }
            SteerSchedule::RunNow => {
                let q = self.takes_slot(s)?;
                self.schedules[s].sent += 1;
                self.send_slot(s, q, now);
            }
            SteerSchedule::Delete => drop(self.schedules.remove(s)),
        }
        Ok(Outcome::Done)
    }

    pub fn list_schedules(&self, from: Option<&ScheduleName>, max: u32) -> Outcome {
        let mut infos: Vec<ScheduleInfo> = self.schedules.iter().map(Schedule::info).collect();
        infos.retain(|info| from.is_none_or(|from| info.name >= *from));
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos.truncate(max as usize);
        Outcome::Schedules(infos)
    }

    /// The queue that takes its message, or why it does not.
    fn takes_slot(&self, s: usize) -> Result<usize, Refusal> {
        let q = self.queue_named(&self.schedules[s].settings.queue)?;
        self.check_send(q, [self.slot_message(s)].iter())?;
        Ok(q)
    }

    fn slot_message(&self, s: usize) -> NewMessage {
        let schedule = &self.schedules[s];
        let session = schedule.settings.session.clone();
        NewMessage { content_bytes: schedule.bytes, session, ..NewMessage::default() }
    }

    fn send_slot(&mut self, s: usize, q: usize, slot: WallTime) {
        let new = self.slot_message(s);
        let sequence = self.enqueue(q, &new);
        let ttl_ms = self.queues[q].settings.ttl_ms;
        self.queues[q].used_at = self.now.boot;
        let message = self.queues[q].messages.last_mut().unwrap();
        message.enqueued_at = slot;
        message.expires_at = ttl_ms.map_or(WallTime::NEVER, |ms| slot.plus_ms(ms));
        message.of_schedule = Some(self.schedules[s].number);
        self.forward(q, sequence);
    }

    /// Its next slot has come.
    pub fn slot_is_due(&mut self, number: u32) {
        let s = self.schedules.iter().position(|schedule| schedule.number == number).unwrap();
        let schedule = &self.schedules[s];
        let now = self.now.wall;
        let first = schedule.next.unwrap();
        let mut due = vec![first];
        while schedule.after(*due.last().unwrap()) <= now {
            due.push(schedule.after(*due.last().unwrap()));
        }
        let is_missed = due.len() > 1 || first.plus_ms(limits::SLOT_LATE_MS_MAX) < now;
        let next = schedule.after(now);
        let mut skipped = 0;
        if is_missed {
            match schedule.settings.missed {
                Missed::Skip => (due, skipped) = (Vec::new(), 1),
                Missed::Latest => {
                    skipped = u64::from(due.len() > 1);
                    due = due.split_off(due.len() - 1);
                }
                Missed::All { max } => {
                    skipped = u64::from(due.len() > max as usize);
                    due.truncate(max as usize);
                }
            }
        }
        let queue = self.takes_slot(s);
        let schedule = &mut self.schedules[s];
        schedule.next = Some(next);
        schedule.skipped += skipped;
        match queue {
            Err(_) => schedule.skipped += due.len() as u64,
            Ok(q) => {
                schedule.sent += due.len() as u64;
                schedule.last = due.last().copied().or(schedule.last);
                for slot in due {
                    self.send_slot(s, q, slot);
                }
            }
        }
    }

    /// Bytes that schedules keep beside what is in the queues: all messages of one are one content.
    pub fn schedule_bytes(&self) -> i64 {
        let kept: i64 = self.schedules.iter().map(|schedule| i64::from(schedule.bytes)).sum();
        let mut bytes = kept;
        let mut seen: Vec<u32> = self.schedules.iter().map(|schedule| schedule.number).collect();
        for message in self.queues.iter().flat_map(|queue| &queue.messages) {
            let Some(number) = message.of_schedule else { continue };
            if seen.contains(&number) {
                bytes -= i64::from(message.bytes);
            } else {
                seen.push(number);
            }
        }
        bytes
    }
}
