//! Random commands about jobs.

use bellwether_core::command::{Command, NewContent};
use bellwether_core::job::{EndJob, JobSettings, OnFailure, Which};
use bellwether_core::message::NewMessage;
use bellwether_core::name::{JobName, ScheduleName};
use bellwether_core::schedule::{Missed, ScheduleSettings, SteerSchedule};

use super::super::world::World;

const JOBS: &[&str] = &["j", "k", "x"];

impl World {
    fn job(&mut self) -> JobName {
        JobName::new(self.pick(JOBS).unwrap()).unwrap()
    }

    pub fn about_jobs(&mut self) -> Command {
        match self.chance.below(26) {
            20..23 => self.create_schedule(),
            23..25 => {
                use SteerSchedule::{Delete, Pause, Resume, RunNow};
                let how = self.pick(&[Pause, Resume, Resume, RunNow, Delete]).unwrap();
                Command::SteerSchedule { schedule: self.schedule(), how }
            }
            25 => {
                let from = self.maybe(2, Self::schedule);
                Command::ListSchedules { from, max: self.chance.below(4) as u32 }
            }
            0..3 => self.create_job(),
            3..10 => self.dispatch(),
            10..15 => {
                let (from, tokens) = self.tokens();
                let Some(token) = tokens.first().copied() else { return self.dispatch() };
                let bytes = self.chance.below(10) as u32;
                let result = self.maybe(2, |_| NewContent { index: 0, bytes });
                Command::CompleteItem { from, token, result }
            }
            15 => {
                let how = self.pick(&[EndJob::Cancel, EndJob::AcceptGaps, EndJob::Forget]).unwrap();
                Command::EndJob { job: self.job(), how }
            }
            16 | 17 => Command::AwaitJob { job: self.job(), wait_ms: self.wait_ms() },
            18 => {
                let after = self.maybe(2, Self::job);
                Command::ListJobs { after, max: self.chance.below(4) as u32 }
            }
            _ => {
                let which = [Which::All, Which::Pending, Which::Done, Which::Failed];
                Command::ListItems {
                    job: self.job(),
                    from: self.chance.below(4) as u32,
                    max: self.chance.below(6) as u32,
                    which: self.pick(&which).unwrap(),
                }
            }
        }
    }

    fn schedule(&mut self) -> ScheduleName {
        ScheduleName::new(self.pick(&["n", "o"]).unwrap()).unwrap()
    }

    fn create_schedule(&mut self) -> Command {
        let max = 1 + self.chance.below(3) as u32;
        let settings = ScheduleSettings {
            rule: format!("every {}s", 20 + 20 * self.chance.below(3)),
            zone: String::new(),
            queue: self.queue(),
            session: self.maybe(2, Self::session),
            missed: self.pick(&[Missed::Latest, Missed::All { max }, Missed::Skip]).unwrap(),
        };
        let bytes = if self.one_in(40) { 41 } else { self.chance.below(10) as u32 };
        let content = NewContent { index: 0, bytes };
        let settings = Box::new(settings);
        Command::CreateSchedule { schedule: self.schedule(), settings, content }
    }

    fn create_job(&mut self) -> Command {
        let gather_to = self.maybe(2, Self::queue);
        let bytes = if self.one_in(40) { 41 } else { self.chance.below(10) as u32 };
        let has_gather = gather_to.is_some() != self.one_in(20);
        let gather = has_gather.then_some(NewContent { index: 0, bytes });
        let settings = JobSettings {
            queue: self.queue(),
            gather_to,
            on_failure: self.pick(&[OnFailure::Wait, OnFailure::Fail, OnFailure::Gaps]).unwrap(),
            deadline_ms: self.maybe(5, |w| w.chance.below(900)),
            retention_ms: self.chance.below(2_000),
        };
        let items = self.maybe(2, |w| w.chance.below(5) as u32);
        Command::CreateJob { job: self.job(), settings: Box::new(settings), items, gather }
    }

    fn dispatch(&mut self) -> Command {
        let count = self.chance.below(4);
        let messages = (0..count)
            .map(|_| NewMessage {
                content_bytes: if self.one_in(60) { 41 } else { self.chance.below(10) as u32 },
                id_hash: u128::from(self.chance.below(6)),
                session: self.maybe(2, Self::session),
                ttl_ms: self.maybe(6, |w| w.chance.below(500)),
                due: None,
            })
            .collect();
        let items = self.maybe(4, |w| w.chance.below(6) as u32);
        Command::Dispatch { job: self.job(), first: self.chance.below(3) as u32, messages, items }
    }
}
