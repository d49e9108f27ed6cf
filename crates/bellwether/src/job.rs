//! Jobs: work fanned out as messages and gathered again.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::Bellwether;
//! use tokio_util::sync::CancellationToken;
//!
//! let bw = Bellwether::open("memory:").await?;
//! let squares = bw.create_queue("squares", Default::default()).await?;
//!
//! // Any number of pumps, here or elsewhere, share the items.
//! let stop = CancellationToken::new();
//! let pump = squares.pump().run(
//!     |mut work| async move {
//!         let number: u64 = work.text().and_then(|text| text.parse().ok()).unwrap_or(0);
//!         work.set_result((number * number).to_string());
//!     },
//!     stop.clone(),
//! );
//!
//! // One fans out and gathers. Called again under the same name it goes on where it was.
//! let job = bw.job("squares of today")?.over("squares");
//! let gathering = async {
//!     let gathered = job.map((1..=3).map(|number: u64| number.to_string())).gather().await?;
//!     stop.cancel();
//!     Ok::<_, bellwether::Error>(gathered.into_results())
//! };
//! let (pumped, results) = tokio::join!(pump, gathering);
//! assert_eq!(results?.unwrap(), ["1", "4", "9"]);
//! pumped
//! # }
//! ```
//!
//! 1. All that is known of a job is in the store: whoever fans out may die at any step, and the next
//!    one calls the same again.
//! 2. An item is a message with the id `job/index`. Dispatched again, it is not sent again.
//! 3. Workers need nobody who leads: they complete items, and the last one ends the job.

mod fan;

pub use fan::{Fan, Gathered, Missing};

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Command, NewContent};
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
pub use bellwether_core::job::{
    EndJob, Ended, Ending, Failure, ItemInfo, ItemMessage, ItemState, JobInfo, JobSettings,
    OnFailure, Which,
};
use bellwether_core::limits;
use bellwether_core::name::{JobName, QueueName};
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use crate::engine::Reply;
use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::message::{self, Message};
use crate::queue::{ms, prepare};

/// A handle to one job. Cheap to clone.
///
/// What [`over`](Job::over) and the others say counts when the job is created; a job that is there
/// already stays as it is.
#[derive(Clone, Debug)]
pub struct Job {
    inner: Arc<Inner>,
    name: JobName,
    fence: Option<Fence>,
    queue: Option<String>,
    gather: Option<(String, Message)>,
    on_failure: OnFailure,
    deadline_ms: Option<u64>,
    retention_ms: u64,
}

/// One item of a job, with its result.
#[derive(Clone, Debug)]
pub struct Item {
    /// What the store says of it.
    pub info: ItemInfo,
    /// What came of it, if its worker said so.
    pub result: Option<Bytes>,
}

impl Job {
    pub(crate) fn new(inner: Arc<Inner>, name: JobName) -> Self {
        Self {
            inner,
            name,
            fence: None,
            queue: None,
            gather: None,
            on_failure: OnFailure::Wait,
            deadline_ms: None,
            retention_ms: limits::JOB_RETENTION_MS_DEFAULT,
        }
    }

    /// The job's name.
    pub fn name(&self) -> &JobName {
        &self.name
    }

    /// Its items go to this queue.
    #[must_use]
    pub fn over(self, queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..self }
    }

    /// One message is sent there when the job has ended, in whatever way: with the job's name as
    /// correlation id and session, in the step that ends it, and so exactly once.
    #[must_use]
    pub fn gather_in(self, queue: impl Into<String>, message: impl Into<Message>) -> Self {
        Self { gather: Some((queue.into(), message.into())), ..self }
    }

    /// What a failed item means; the job waits for somebody to decide if nothing is said.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// The job ends so long after its creation, whatever is missing.
    #[must_use]
    pub fn deadline(self, after: Duration) -> Self {
        Self { deadline_ms: Some(ms(after)), ..self }
    }

    /// The job is forgotten so long after its end; a day if nothing is said.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        Self { retention_ms: ms(retention), ..self }
    }

    /// The same job, of which everything is asked under this fence: see
    /// [`Queue::with_fence`](crate::Queue::with_fence). A leader that was deposed dispatches nothing
    /// more.
    #[must_use]
    pub fn with_fence(self, fence: &Fence) -> Self {
        Self { fence: Some(fence.clone()), ..self }
    }

    async fn ask(&self, command: Command, contents: Few<Bytes>) -> Result<Reply, Error> {
        self.inner.ask_under(self.fence.as_ref(), command, contents).await
    }

    fn settings(&self) -> Result<JobSettings, Error> {
        let Some(queue) = &self.queue else {
            let why = "say which queue the items go to, with `over`".into();
            return Err(Refusal::InvalidValue { what: "items", why }.into());
        };
        let gather_to = self.gather.as_ref().map(|(queue, _)| QueueName::new(queue)).transpose()?;
        Ok(JobSettings {
            queue: QueueName::new(queue)?,
            gather_to,
            on_failure: self.on_failure,
            deadline_ms: self.deadline_ms,
            retention_ms: self.retention_ms,
        })
    }

    /// Creates the job, or finds it. With `items` it is known how many there are; without, more may
    /// come until it is said. True if it was created.
    pub async fn create(&self, items: Option<u32>) -> Result<bool, Error> {
        let settings = Box::new(self.settings()?);
        let gather = self.gather.as_ref().map(|(_, message)| self.gather_content(message));
        let contents: Few<Bytes> = gather.into_iter().collect();
        let gather =
            contents.first().map(|content| NewContent { index: 0, bytes: content.len() as u32 });
        let command = Command::CreateJob { job: self.name.clone(), settings, items, gather };
        match self.ask(command, contents).await?.outcome {
            Outcome::JobCreated { existed } => Ok(!existed),
            other => unreachable_outcome(&other),
        }
    }

    fn gather_content(&self, message: &Message) -> Bytes {
        let mut message = message.clone();
        let name = || Some(self.name.to_string());
        message.id = message.id.or_else(name);
        message.correlation_id = message.correlation_id.or_else(name);
        message::encode(&message)
    }

    /// Sends items from index `first` on, all or none, and returns how many were sent: those the job
    /// knows already are left alone. Their id and correlation id are the job's business.
    pub async fn dispatch(
        &self,
        first: u32,
        messages: impl IntoIterator<Item = impl Into<Message>>,
    ) -> Result<u32, Error> {
        let messages = messages.into_iter().map(Into::into).collect();
        self.dispatch_all(first, messages, None).await
    }

    /// There are so many items and no more will come.
    pub async fn seal(&self, items: u32) -> Result<(), Error> {
        self.dispatch_all(0, Vec::new(), Some(items)).await.map(drop)
    }

    async fn dispatch_all(
        &self,
        first: u32,
        messages: Vec<Message>,
        items: Option<u32>,
    ) -> Result<u32, Error> {
        let (mut news, mut contents) = (Vec::new(), Vec::new());
        for (index, mut message) in (first..).zip(messages) {
            message.id = Some(item_id(&self.name, index));
            message.correlation_id = Some(self.name.to_string());
            let (new, content) = prepare(&message)?;
            news.push(new);
            contents.push(content);
        }
        let messages = news.into();
        let command = Command::Dispatch { job: self.name.clone(), first, messages, items };
        match self.ask(command, contents.into()).await?.outcome {
            Outcome::Dispatched { sent } => Ok(sent),
            other => unreachable_outcome(&other),
        }
    }

    /// How the job stands.
    pub async fn show(&self) -> Result<JobInfo, Error> {
        self.wait(Duration::ZERO).await
    }

    /// Waits for the job's end, but no longer than this; then says how it stands.
    pub async fn wait(&self, longest: Duration) -> Result<JobInfo, Error> {
        let command = Command::AwaitJob { job: self.name.clone(), wait_ms: ms(longest) };
        match self.ask(command, Few::default()).await?.outcome {
            Outcome::Job(info) => Ok(*info),
            other => unreachable_outcome(&other),
        }
    }

    /// Waits for the job's end, however long.
    pub async fn ended(&self) -> Result<JobInfo, Error> {
        loop {
            let info = self.wait(Duration::from_millis(limits::WAIT_MS_MAX)).await?;
            if info.ended.is_some() {
                return Ok(info);
            }
        }
    }

    /// Items from an index on, by index, with their results. Fewer than `max` may come if their
    /// results are large; none come only if there are none.
    pub async fn items(&self, from: u32, max: u32, which: Which) -> Result<Vec<Item>, Error> {
        let command = Command::ListItems { job: self.name.clone(), from, max, which };
        read_items(self.ask(command, Few::default()).await?)
    }

    /// Ends the job now. Items nobody works on are taken out of their queue.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.end(EndJob::Cancel).await
    }

    /// From now on failed items are gaps: a job that only waits for a decision about them ends.
    pub async fn accept_gaps(&self) -> Result<(), Error> {
        self.end(EndJob::AcceptGaps).await
    }

    /// Forgets a job that has ended, with its results, before its retention is over.
    pub async fn forget(&self) -> Result<(), Error> {
        self.end(EndJob::Forget).await
    }

    async fn end(&self, how: EndJob) -> Result<(), Error> {
        let command = Command::EndJob { job: self.name.clone(), how };
        self.ask(command, Few::default()).await.map(drop)
    }

    /// Fans these out as the job's items; see [`Fan`].
    pub fn map<I>(&self, items: I) -> Fan<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<Message>,
    {
        Fan::new(self.clone(), items.into_iter())
    }
}

/// The items in the answer to a [`Command::ListItems`].
pub fn read_items(reply: Reply) -> Result<Vec<Item>, Error> {
    let Outcome::Items(infos) = reply.outcome else { unreachable_outcome(&reply.outcome) };
    let mut results = reply.contents.into_iter();
    infos
        .into_iter()
        .map(|info| {
            let has_result = matches!(info.state, ItemState::Done { result } if result.0 != 0);
            let missing = || Err("it is missing".to_owned());
            let result = has_result.then(|| results.next().unwrap_or_else(missing)).transpose();
            let result = result.map_err(|why| {
                Error::Failed(format!("the result of item {} cannot be read: {why}", info.index))
            })?;
            Ok(Item { info, result })
        })
        .collect()
}

/// What an item's message is called.
pub fn item_id(job: &JobName, index: u32) -> String {
    format!("{job}/{index}")
}

/// Of which job a message is an item, and which.
pub(crate) fn item_of(message: &Message) -> Option<(&str, u32)> {
    let job = message.correlation_id.as_deref()?;
    let index = message.id.as_deref()?.strip_prefix(job)?.strip_prefix('/')?;
    Some((job, index.parse().ok()?))
}
