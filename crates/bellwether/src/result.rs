//! Results, and requests that wait for one.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bellwether::{Bellwether, Message};
//! # use std::time::Duration;
//! # let bw = Bellwether::open("memory:").await?;
//! let sums = bw.create_queue("sums", Default::default()).await?;
//! let worker = tokio::spawn({
//!     let sums = sums.clone();
//!     async move {
//!         let work = sums.receive().wait(Duration::from_secs(10)).one().await?.expect("a request");
//!         work.reply("42").await
//!     }
//! });
//! let reply = sums.request("6 times 7").timeout(Duration::from_secs(10)).await?;
//! assert_eq!(reply.text(), Some("42"));
//! # worker.await??;
//! # Ok(()) }
//! ```
//!
//! 1. The result is written in the step that completes the request: who reads it reads all of it,
//!    and a handler that dies before it has written nothing.
//! 2. It is kept under the request's message id, in the queue the request was sent to, until its ttl
//!    has passed: whoever waited too short asks later.
//! 3. A request whose message leaves without an answer (dead letter, expired, purged) is over too,
//!    and says so. One that is completed without an answer succeeded with nothing to tell.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bellwether_core::command::Command;
use bellwether_core::name::{NoteKey, QueueName};
use bellwether_core::note::{NoteState, Report};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::WallTime;
use bytes::Bytes;

use crate::delivery::Delivery;
use crate::engine::Reply;
use crate::error::Error;
use crate::handle::unreachable_outcome;
use crate::message::{self, Message};
use crate::queue::{Queue, ms};
use crate::transaction::Transaction;

/// How long a requester waits if it does not say.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long a result is kept if nobody says: long enough to come back for it.
pub(crate) const KEEP: Duration = Duration::from_hours(1);

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// How it stands.
    pub state: ResultState,
    /// When it was asked.
    pub created_at: WallTime,
    /// When it was last written.
    pub updated_at: WallTime,
    /// When it is forgotten.
    pub expires_at: WallTime,
    /// What came of it, or why it failed, if anything was said.
    pub message: Option<Message>,
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultState {
    /// Nobody has begun.
    Pending,
    /// Somebody is at it.
    Running {
        /// How far, if it was said.
        percent: Option<u32>,
    },
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
    /// Its message left without an answer.
    Gone,
}

impl ResultState {
    /// Whether nothing more is to be waited for.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running { .. })
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// Nobody answered in time. The answer may still come, and is kept under this id.
    #[error(
        "no answer to request {id:?} within {timeout:?}; it may still come: ask for it by its id"
    )]
    TimedOut {
        /// The request's message id.
        id: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// Whoever handled it says that it failed.
    #[error("request {id:?} failed: {}", .why.text().unwrap_or("it does not say why"))]
    Failed {
        /// The request's message id.
        id: String,
        /// What was said about it.
        why: Box<Message>,
    },
    /// Its message left without an answer: it became a dead letter, expired or was purged.
    #[error("request {id:?} left its queue without an answer; look at the dead letters")]
    Gone {
        /// The request's message id.
        id: String,
    },
    /// The store said no, or failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Queue {
    /// Begins a request: a message whose answer is waited for. Await it for the answer, or
    /// [`Request::send`] it and ask for the answer later.
    pub fn request(&self, message: impl Into<Message>) -> Request {
        let mut message = message.into();
        let random = || format!("{:032x}", crate::chance::random_u128());
        message.id.get_or_insert_with(random);
        Request { queue: self.clone(), message, timeout: TIMEOUT, keep: KEEP }
    }

    /// What became of the request with this message id; waits until it is over, so long at most.
    /// `None` if none is kept: it was never asked, or is forgotten.
    pub async fn result(&self, id: &str, wait: Duration) -> Result<Option<RequestResult>, Error> {
        let (queue, key) = (self.name().clone(), NoteKey::new(id)?);
        let reply = self.ask(Command::GetResult { queue, key, wait_ms: ms(wait) }).await?;
        read_result(self.name(), reply)
    }
}

/// The result in the answer to [`Command::GetResult`].
pub fn read_result(queue: &QueueName, reply: Reply) -> Result<Option<RequestResult>, Error> {
    let Outcome::Result(info) = reply.outcome else { unreachable_outcome(&reply.outcome) };
    let Some(info) = info else { return Ok(None) };
    let unreadable =
        |what: String| Error::Unreadable { queue: queue.to_string(), sequence: 0, what };
    let message = match reply.contents.into_iter().next() {
        None => None,
        Some(content) => {
            let read = content.map(message::decode);
            Some(read.map_err(unreadable)?.map_err(|bad| unreadable(bad.to_string()))?)
        }
    };
    let state = match info.state {
        NoteState::Pending => ResultState::Pending,
        NoteState::Running { percent } => ResultState::Running { percent },
        NoteState::Succeeded => ResultState::Succeeded,
        NoteState::Failed => ResultState::Failed,
        NoteState::Gone => ResultState::Gone,
        NoteState::Held(_) | NoteState::Done => unreachable!("a result is no claim"),
    };
    let (created_at, updated_at) = (info.created_at, info.updated_at);
    Ok(Some(RequestResult { state, created_at, updated_at, expires_at: info.expires_at, message }))
}

/// A request being put together; see [`Queue::request`].
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before it is awaited or sent"]
pub struct Request {
    queue: Queue,
    message: Message,
    timeout: Duration,
    keep: Duration,
}

impl Request {
    /// Waits so long for the answer; a minute if not said.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The result is kept so long after it was last written; an hour if not said.
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Sends it, and does not wait for the answer. Returns its message id, under which
    /// [`Queue::result`] finds the answer. The same id again asks nothing again.
    pub async fn send(&self) -> Result<String, Error> {
        let transaction = Transaction::new(std::sync::Arc::clone(&self.queue.inner));
        transaction.request(&self.queue, self.message.clone(), self.keep).commit().await?;
        Ok(self.message.id.clone().unwrap_or_default())
    }

    async fn answer(self) -> Result<Message, RequestError> {
        let id = self.send().await?;
        let result = self.queue.result(&id, self.timeout).await?;
        let (state, message) = match result {
            Some(RequestResult { state, message, .. }) => (state, message.unwrap_or_default()),
            None => (ResultState::Gone, Message::default()),
        };
        match state {
            ResultState::Succeeded => Ok(message),
            ResultState::Failed => Err(RequestError::Failed { id, why: Box::new(message) }),
            ResultState::Gone => Err(RequestError::Gone { id }),
            ResultState::Pending | ResultState::Running { .. } => {
                Err(RequestError::TimedOut { id, timeout: self.timeout })
            }
        }
    }
}

impl IntoFuture for Request {
    type Output = Result<Message, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer())
    }
}

impl Delivery {
    /// The work is done: the message goes, and in the same step this becomes its result, for
    /// whoever asked ([`Queue::request`]). If the message names a queue for answers
    /// ([`Message::reply_to`]), the answer is sent there as well.
    pub async fn reply(self, answer: impl Into<Message>) -> Result<(), Error> {
        let transaction = self.begin();
        transaction.reply(self, answer).commit().await?;
        Ok(())
    }

    /// The work cannot be done: the message goes, and in the same step whoever asked is told why.
    pub async fn reply_failure(self, why: impl Into<Message>) -> Result<(), Error> {
        let transaction = self.begin();
        transaction.reply_failure(self, why).commit().await?;
        Ok(())
    }

    /// Tells whoever asked that somebody is at it, and how far.
    pub async fn progress(&self, percent: Option<u32>) -> Result<(), Error> {
        let id = self.id.as_deref().unwrap_or_default();
        let report = Report::Running { percent };
        self.begin().report(self.queue(), id, report, None, None).commit().await?;
        Ok(())
    }

    fn begin(&self) -> Transaction {
        Transaction::new(std::sync::Arc::clone(&self.queue().inner))
    }
}

/// The content of an answer: a message as any.
pub(crate) fn answer_content(answer: &Message) -> Bytes {
    message::encode(answer)
}
