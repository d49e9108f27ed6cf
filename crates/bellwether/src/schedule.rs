//! Schedules: recurring rules that send messages.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use std::time::Duration;
//! use bellwether::{Bellwether, VirtualClock};
//!
//! let clock = VirtualClock::new();
//! let bw = Bellwether::open_with_clock("memory:", clock.clone()).await?;
//! let reports = bw.create_queue("reports", Default::default()).await?;
//! let nightly = bw.schedule("nightly")?;
//! nightly.create("every 6h", "UTC", "reports", "make the report").await?;
//!
//! clock.advance(Duration::from_hours(6));
//! let delivery = reports.receive().wait(Duration::from_secs(60)).one().await?.expect("it was due");
//! assert_eq!(delivery.text(), Some("make the report"));
//! delivery.complete().await?;
//! # Ok(()) }
//! ```
//!
//! The store sends the messages, whoever has it open: nobody needs to lead for it. Each slot sends
//! one message or none, over crashes and restarts; the message was enqueued at its slot
//! ([`Received::enqueued_at`](crate::Received::enqueued_at)). What the rules mean is said at
//! [`bellwether_core::calendar`].

use std::sync::Arc;

use bellwether_core::command::{Command, NewContent};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
use bellwether_core::name::{QueueName, ScheduleName};
use bellwether_core::outcome::Outcome;
pub use bellwether_core::schedule::{Missed, ScheduleInfo, ScheduleSettings, SteerSchedule};
use bytes::Bytes;

use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::message::{self, Message};
use crate::queue::prepare;

/// A handle to one schedule. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schedule {
    inner: Arc<Inner>,
    name: ScheduleName,
    fence: Option<Fence>,
    missed: Missed,
}

impl Schedule {
    pub(crate) fn new(inner: Arc<Inner>, name: ScheduleName, fence: Option<Fence>) -> Self {
        Self { inner, name, fence, missed: Missed::Latest }
    }

    /// The schedule's name.
    pub fn name(&self) -> &ScheduleName {
        &self.name
    }

    /// What becomes of slots that nobody was there for; the latest of them is caught up with if
    /// nothing is said. Counts when the schedule is created.
    #[must_use]
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Creates the schedule, or finds it: one that is there stays as it is. True if it was created.
    pub async fn create(
        &self,
        rule: &str,
        zone: &str,
        queue: &str,
        message: impl Into<Message>,
    ) -> Result<bool, Error> {
        let mut message = message.into();
        let name = || Some(self.name.to_string());
        message.id = message.id.or_else(name);
        if message.scheduled_at.is_some() || message.ttl.is_some() {
            let why = "a schedule says when; its queue says how long its messages live".into();
            return Err(Refusal::InvalidValue { what: "messages", why }.into());
        }
        let (new, _) = prepare(&message)?;
        let settings = ScheduleSettings {
            rule: rule.into(),
            zone: zone.into(),
            queue: QueueName::new(queue)?,
            session: new.session,
            missed: self.missed,
        };
        let content = message::encode(&message);
        let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let command = Command::CreateSchedule {
            schedule: self.name.clone(),
            settings: Box::new(settings),
            content: NewContent { index: 0, bytes },
        };
        match self.ask(command, Few::One(content)).await? {
            Outcome::ScheduleCreated { existed } => Ok(!existed),
            other => unreachable_outcome(&other),
        }
    }

    async fn ask(&self, command: Command, contents: Few<Bytes>) -> Result<Outcome, Error> {
        Ok(self.inner.ask_under(self.fence.as_ref(), command, contents).await?.outcome)
    }

    /// How the schedule stands.
    pub async fn show(&self) -> Result<ScheduleInfo, Error> {
        let command = Command::ListSchedules { from: Some(self.name.clone()), max: 1 };
        match self.ask(command, Few::default()).await? {
            Outcome::Schedules(mut found) => match found.pop() {
                Some(info) if info.name == self.name => Ok(info),
                _ => Err(Refusal::ScheduleNotFound(self.name.clone()).into()),
            },
            other => unreachable_outcome(&other),
        }
    }

    /// It sends nothing until it is resumed.
    pub async fn pause(&self) -> Result<(), Error> {
        self.steer(SteerSchedule::Pause).await
    }

    /// It goes on with the next slot from now.
    pub async fn resume(&self) -> Result<(), Error> {
        self.steer(SteerSchedule::Resume).await
    }

    /// It sends one message now, beside its slots.
    pub async fn run_now(&self) -> Result<(), Error> {
        self.steer(SteerSchedule::RunNow).await
    }

    /// It is gone.
    pub async fn delete(&self) -> Result<(), Error> {
        self.steer(SteerSchedule::Delete).await
    }

    async fn steer(&self, how: SteerSchedule) -> Result<(), Error> {
        let command = Command::SteerSchedule { schedule: self.name.clone(), how };
        self.ask(command, Few::default()).await.map(drop)
    }
}
