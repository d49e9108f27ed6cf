//! Fanning out and gathering, in one call that may be repeated.

use bellwether_core::error::Refusal;
use bellwether_core::job::{ItemState, JobInfo, Which};
use bellwether_core::limits;
use bytes::Bytes;

use super::{Failure, Item, Job};
use crate::error::Error;
use crate::message::Message;

/// Items of one dispatch: enough to share a flush, few enough that others get their turn.
const BATCH_ITEMS: usize = 1_000;
/// And their bytes: far below what one command may carry.
const BATCH_BYTES: usize = 1 << 20;
/// How long to wait for room in a queue or a store that is full.
const ROOM_MS: u64 = 100;

/// Items on their way out: [`Fan::dispatch`] sends them, [`Fan::gather`] also waits for what comes
/// of them.
///
/// Either may be dropped at any moment and called again, here or in another process, with the same
/// items: it goes on behind those that were sent.
#[derive(Debug)]
#[must_use = "nothing is sent before `dispatch` or `gather` is awaited"]
pub struct Fan<I> {
    job: Job,
    items: I,
}

impl<I> Fan<I>
where
    I: Iterator,
    I::Item: Into<Message>,
{
    pub(super) fn new(job: Job, items: I) -> Self {
        Self { job, items }
    }

    /// Creates the job, unless it is there, and sends all items that were not sent yet. A full queue
    /// is waited for.
    pub async fn dispatch(self) -> Result<JobInfo, Error> {
        let Self { job, items } = self;
        job.create(None).await?;
        let mut next = job.show().await?.next;
        let mut items = items.map(Into::into).skip(next as usize).peekable();
        loop {
            let (mut batch, mut bytes): (Vec<Message>, usize) = (Vec::new(), 0);
            while batch.len() < BATCH_ITEMS
                && let Some(item) = items
                    .next_if(|item| batch.is_empty() || bytes + item.body().len() <= BATCH_BYTES)
            {
                bytes += item.body().len();
                batch.push(item);
            }
            let first = next;
            next += batch.len() as u32;
            let all = items.peek().is_none().then_some(next);
            send(&job, first, &batch, all).await?;
            if all.is_some() {
                return job.show().await;
            }
        }
    }

    /// The same, then waits for the job's end and reads what came of the items, in their order.
    pub async fn gather(self) -> Result<Gathered, Error> {
        let job = self.job.clone();
        match self.dispatch().await {
            // It ended before all was sent: how, is what came of it.
            Ok(_) | Err(Error::Refused(Refusal::JobEnded(_))) => {}
            Err(error) => return Err(error),
        }
        let info = job.ended().await?;
        let mut items = Vec::new();
        let mut from = 0;
        loop {
            let some = job.items(from, limits::RECEIVE_MESSAGES_MAX, Which::All).await?;
            let Some(last) = some.last() else { break };
            from = last.info.index + 1;
            items.extend(some);
        }
        Ok(Gathered { info, items })
    }
}

/// Sends one batch, as soon as there is room for it.
async fn send(job: &Job, first: u32, batch: &[Message], all: Option<u32>) -> Result<(), Error> {
    loop {
        match job.dispatch_all(first, batch.to_vec(), all).await {
            Err(Error::Refused(refusal)) if refusal.retry() => {
                let clock = &job.inner.clock;
                clock.sleep_until(clock.boot().plus_ms(ROOM_MS)).await;
            }
            sent => return sent.map(drop),
        }
    }
}

/// What came of a job.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The job at its end.
    pub info: JobInfo,
    /// Its items by index.
    pub items: Vec<Item>,
}

/// An item that a job ended without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {index} was not done: {}", self.why())]
pub struct Missing {
    /// Which.
    pub index: u32,
    /// What became of it; `None` if the job ended before it was done.
    pub failure: Option<Failure>,
}

impl Missing {
    fn why(&self) -> String {
        match self.failure {
            None => "the job ended before".into(),
            Some(Failure::DeadLettered { reason }) => {
                format!("it is a dead letter ({})", reason.as_str().unwrap_or("its worker said so"))
            }
            Some(Failure::Expired) => "its message expired".into(),
            Some(Failure::Removed) => "its message was removed".into(),
            Some(Failure::QueueGone) => "its queue was deleted".into(),
        }
    }
}

impl Gathered {
    /// The results in the order of the items, if all of them are done; empty where the worker gave
    /// none. Otherwise the first that is not.
    pub fn into_results(self) -> Result<Vec<Bytes>, Missing> {
        let expected = self.info.items.unwrap_or(self.info.next);
        let mut results = Vec::with_capacity(expected as usize);
        for item in self.items {
            let index = results.len() as u32;
            if item.info.index != index {
                return Err(Missing { index, failure: None });
            }
            match item.info.state {
                ItemState::Done { .. } => results.push(item.result.unwrap_or_default()),
                ItemState::Pending { .. } => return Err(Missing { index, failure: None }),
                ItemState::Failed { why, .. } => {
                    return Err(Missing { index, failure: Some(why) });
                }
            }
        }
        let index = results.len() as u32;
        if index < expected { Err(Missing { index, failure: None }) } else { Ok(results) }
    }
}
