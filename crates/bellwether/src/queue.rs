//! A queue, as its users hold it.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::command::{Command, Receive as ReceiveCommand, ReceiveMode};
use bellwether_core::fence::Fence;
use bellwether_core::few::Few;
use bellwether_core::limits;
use bellwether_core::message::NewMessage;
use bellwether_core::name::{Part, QueueName, QueuePath, SequenceNumber, SessionId, SessionToken};
use bellwether_core::outcome::{
    Explanation, OutageInfo, Outcome, QueueInfo, Sequences, SessionInfo,
};
use bellwether_core::settings::SettingsPatch;
use bellwether_core::time::WallTime;
use bytes::Bytes;

use crate::delivery::{Delivery, Received, read_views};
use crate::engine::Reply;
use crate::engine::pending::Pending;
use crate::error::Error;
use crate::handle::{Inner, unreachable_outcome};
use crate::message::{self, Message};
use crate::pump::Pump;
use crate::session::{self, AcceptSession};

/// Whoever can send to a queue can repeat an id, so the hash needs no secret; it must only be the
/// same in every life of a store.
pub(crate) const ID_HASH_KEY: (u64, u64) = (0x6265_6c6c_7765_7468, 0x6572_2d69_642d_3031);

/// A handle to one queue, or to its dead letters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) inner: Arc<Inner>,
    pub(crate) path: QueuePath,
    /// What it is asked under.
    pub(crate) fence: Option<Fence>,
}

impl Queue {
    pub(crate) fn new(inner: Arc<Inner>, name: QueueName) -> Self {
        Self { inner, path: QueuePath::main(name), fence: None }
    }

    /// The queue's name.
    pub fn name(&self) -> &QueueName {
        &self.path.queue
    }

    /// The queue's dead letters: received and settled like a queue, but nothing is sent there.
    #[must_use]
    pub fn dead_letters(&self) -> Self {
        Self { path: QueuePath::dead(self.name().clone()), ..self.clone() }
    }

    /// The same queue, of which everything is asked under this fence: it is refused with
    /// [`Refusal::Fenced`](crate::Refusal::Fenced) unless that term is held, on the store's own
    /// clock, in the moment in which it is decided. So a leader that was deposed without knowing it
    /// sends, settles and receives nothing more, however late what it asked arrives.
    ///
    /// Deliveries, sessions and pumps that come from this handle carry the fence as well. Only what is
    /// given back by dropping it does not: whoever is deposed shall not keep it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
    /// # use bellwether::{Bellwether, Error, Refusal};
    /// # use std::time::Duration;
    /// # let bw = Bellwether::open("memory:").await?;
    /// # bw.create_queue("orders", Default::default()).await?;
    /// let lease = bw.lease("import")?;
    /// let grant = lease.acquire(Duration::from_secs(30)).await?;
    /// let orders = bw.queue("orders")?.with_fence(&lease.fence(&grant));
    /// orders.send("while it leads").await?;
    ///
    /// lease.release(grant.id).await?;
    /// let late = orders.send("too late").await;
    /// assert!(matches!(late, Err(Error::Refused(Refusal::Fenced { .. }))));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_fence(&self, fence: &Fence) -> Self {
        Self { fence: Some(fence.clone()), ..self.clone() }
    }

    /// Asks under the fence, if there is one.
    pub(crate) fn ask(&self, command: Command) -> Pending<'_> {
        self.ask_with(command, Few::default())
    }

    pub(crate) fn ask_with(&self, command: Command, contents: Few<Bytes>) -> Pending<'_> {
        self.inner.ask_under(self.fence.as_ref(), command, contents)
    }

    /// Sends one message. When this returns the message is flushed to disk: it will be delivered,
    /// or become a dead letter with its reason, or expire as it was told to.
    ///
    /// Dropping the future before it is ready leaves open whether the message was sent.
    pub async fn send(&self, message: impl Into<Message>) -> Result<SequenceNumber, Error> {
        let (new, content) = prepare(&message.into())?;
        let reply = self.send_prepared(Few::One(new), Few::One(content)).await?;
        Ok(numbers(reply).iter().next().expect("one number for one message"))
    }

    /// Sends messages, all or none, and returns their numbers; zero for a duplicate that was
    /// dropped.
    pub async fn send_batch(
        &self,
        messages: impl IntoIterator<Item = impl Into<Message>>,
    ) -> Result<Vec<SequenceNumber>, Error> {
        let mut news = Vec::new();
        let mut contents = Vec::new();
        for message in messages {
            let (new, content) = prepare(&message.into())?;
            news.push(new);
            contents.push(content);
        }
        Ok(numbers(self.send_prepared(news.into(), contents.into()).await?).iter().collect())
    }

    fn send_prepared(&self, messages: Few<NewMessage>, contents: Few<Bytes>) -> Pending<'_> {
        self.ask_with(Command::Send { queue: self.name().clone(), messages }, contents)
    }

    /// Takes back scheduled messages, all or none; returns how many.
    pub async fn cancel(
        &self,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Result<u64, Error> {
        let sequences = sequences.into_iter().collect();
        self.count(Command::Cancel { queue: self.name().clone(), sequences }).await
    }

    /// Starts a receive; see [`Receive`].
    pub fn receive(&self) -> Receive {
        Receive {
            queue: self.clone(),
            session: None,
            max: 1,
            mode: ReceiveMode::PeekLock,
            wait: Duration::ZERO,
            lock: None,
        }
    }

    /// Starts a pump: a handler that is called for message after message; see [`Pump`].
    pub fn pump(&self) -> Pump {
        Pump::new(self.clone())
    }

    /// Receives messages that were set aside by [`Delivery::defer`], by number, all or none.
    pub async fn receive_deferred(
        &self,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Result<Vec<Delivery>, Error> {
        let command = Command::ReceiveDeferred {
            from: self.path.clone(),
            session: None,
            sequences: sequences.into_iter().collect(),
            mode: ReceiveMode::PeekLock,
        };
        let reply = self.ask(command).await?;
        Ok(self.deliveries(reply))
    }

    /// The deliveries in the answer to a receive that was asked by [`Bellwether::call`]; one that
    /// cannot be read is tried again later, or set aside, and is not among them.
    ///
    /// [`Bellwether::call`]: crate::Bellwether::call
    pub fn deliveries(&self, reply: Reply) -> Vec<Delivery> {
        messages(reply).filter_map(|received| Delivery::new(self.clone(), received)).collect()
    }

    /// Looks at messages from a number on without touching them: active, locked, deferred and
    /// scheduled ones.
    pub async fn peek(&self, from: SequenceNumber, max: u32) -> Result<Vec<Received>, Error> {
        let command = Command::Peek { from: self.path.clone(), sequence: from, max, session: None };
        let reply = self.ask(command).await?;
        Ok(messages(reply).collect())
    }

    /// Looks at one session's messages, as [`Queue::peek`].
    pub async fn peek_session(
        &self,
        session: &str,
        from: SequenceNumber,
        max: u32,
    ) -> Result<Vec<Received>, Error> {
        let session = Some(SessionId::new(session)?);
        let command = Command::Peek { from: self.path.clone(), sequence: from, max, session };
        let reply = self.ask(command).await?;
        Ok(messages(reply).collect())
    }

    /// Why a message of this queue or of its dead letters is not being delivered.
    pub async fn explain(&self, sequence: SequenceNumber) -> Result<Explanation, Error> {
        let command = Command::Explain { queue: self.name().clone(), sequence };
        match self.ask(command).await?.outcome {
            Outcome::Explained(explanation) => Ok(explanation),
            other => unreachable_outcome(&other),
        }
    }

    /// Sends dead letters again: back to this queue, or to another. Returns how many.
    pub async fn redrive(&self, to: Option<&Queue>, max: u32) -> Result<u64, Error> {
        let to = to.map(|queue| queue.name().clone());
        let (queue, sequences) = (self.name().clone(), Vec::new());
        self.count(Command::Redrive { queue, to, sequences, max }).await
    }

    /// Sends these dead letters again, all or none.
    pub async fn redrive_some(
        &self,
        to: Option<&Queue>,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Result<u64, Error> {
        let to = to.map(|queue| queue.name().clone());
        let sequences: Vec<_> = sequences.into_iter().collect();
        let max = u32::try_from(sequences.len()).unwrap_or(u32::MAX);
        if max == 0 {
            return Ok(0);
        }
        self.count(Command::Redrive { queue: self.name().clone(), to, sequences, max }).await
    }

    /// Removes messages nobody has locked; returns how many. Only those enqueued before `before`
    /// if it is given.
    pub async fn purge(&self, before: Option<WallTime>) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let max = limits::BATCH_MESSAGES_MAX as u32;
            let command = Command::Purge { from: self.path.clone(), before, max };
            let count = self.count(command).await?;
            purged += count;
            if count < u64::from(max) {
                return Ok(purged);
            }
        }
    }

    /// Removes messages by number, but for those that somebody has locked or that are gone;
    /// returns how many.
    pub async fn remove(
        &self,
        sequences: impl IntoIterator<Item = SequenceNumber>,
    ) -> Result<u64, Error> {
        let sequences = sequences.into_iter().collect();
        self.count(Command::Remove { from: self.path.clone(), sequences }).await
    }

    /// Settings and counters.
    pub async fn info(&self) -> Result<QueueInfo, Error> {
        let command = Command::DescribeQueue { queue: self.name().clone() };
        match self.ask(command).await?.outcome {
            Outcome::Queue(info) => Ok(*info),
            other => unreachable_outcome(&other),
        }
    }

    /// The outage the queue is in, having paused itself because its messages failed in a row; `None`
    /// if it is in none.
    pub async fn outage(&self) -> Result<Option<OutageInfo>, Error> {
        self.ask_outage(Command::DescribeOutage { queue: self.name().clone() }).await
    }

    /// Says that whatever was away is back: the queue hands out as ever. Tells the outage it was in.
    pub async fn end_outage(&self) -> Result<Option<OutageInfo>, Error> {
        self.ask_outage(Command::EndOutage { queue: self.name().clone() }).await
    }

    async fn ask_outage(&self, command: Command) -> Result<Option<OutageInfo>, Error> {
        match self.ask(command).await?.outcome {
            Outcome::Outage(outage) => Ok(outage),
            other => unreachable_outcome(&other),
        }
    }

    /// Changes settings.
    pub async fn update(&self, patch: SettingsPatch) -> Result<QueueInfo, Error> {
        let command = Command::UpdateQueue { queue: self.name().clone(), patch: Box::new(patch) };
        match self.ask(command).await?.outcome {
            Outcome::Queue(info) => Ok(*info),
            other => unreachable_outcome(&other),
        }
    }

    /// Deletes the queue with all its messages and dead letters.
    pub async fn delete(&self) -> Result<(), Error> {
        self.ask(Command::DeleteQueue { queue: self.name().clone() }).await?;
        Ok(())
    }

    /// Takes hold of a session: the named one, or the next free one with messages.
    pub fn accept_session(&self) -> AcceptSession {
        AcceptSession::new(self.clone())
    }

    /// Names of sessions that have messages or state.
    pub async fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let command =
            Command::ListSessions { queue: self.name().clone(), after: None, max: u32::MAX };
        match self.ask(command).await?.outcome {
            Outcome::Sessions(sessions) => Ok(sessions),
            other => unreachable_outcome(&other),
        }
    }

    /// Who holds a session, what is in it, and the state that was left in it; `None` if there is
    /// no such session. Takes hold of nothing.
    pub async fn session(
        &self,
        session: &str,
    ) -> Result<Option<(SessionInfo, Option<Bytes>)>, Error> {
        let (queue, session) = (self.name().clone(), SessionId::new(session)?);
        let reply = self.ask(Command::DescribeSession { queue, session }).await?;
        let Outcome::SessionInfo(info) = reply.outcome else { unreachable_outcome(&reply.outcome) };
        let state = reply.contents.into_iter().next().transpose();
        let state = state.map_err(|what| session::unreadable(self, what))?;
        Ok(info.map(|info| (*info, state)))
    }

    async fn count(&self, command: Command) -> Result<u64, Error> {
        match self.ask(command).await?.outcome {
            Outcome::Count(count) => Ok(count),
            other => unreachable_outcome(&other),
        }
    }

    /// Whether this is the dead-letter half.
    pub fn is_dead_letters(&self) -> bool {
        self.path.part == Part::Dead
    }
}

/// A receive being put together.
///
/// Dropping the future of [`Receive::one`] or [`Receive::many`] is safe at any moment: a wait is
/// withdrawn, and messages handed out in that very moment are given back uncounted.
#[derive(Clone, Debug)]
pub struct Receive {
    queue: Queue,
    session: Option<SessionToken>,
    max: u32,
    mode: ReceiveMode,
    wait: Duration,
    lock: Option<Duration>,
}

impl Receive {
    pub(crate) fn session(mut self, token: SessionToken) -> Self {
        self.session = Some(token);
        self
    }

    /// At most so many messages; one if not said.
    #[must_use]
    pub fn max(mut self, max: u32) -> Self {
        self.max = max;
        self
    }

    /// Waits so long for the first message; not at all if not said.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Locks for so long instead of the queue's lock duration.
    #[must_use]
    pub fn lock(mut self, lock: Duration) -> Self {
        self.lock = Some(lock);
        self
    }

    /// The next message, locked, if there is one.
    pub async fn one(self) -> Result<Option<Delivery>, Error> {
        let receive = self.max(1);
        let reply = receive.queue.ask(receive.command()).await?;
        Ok(messages(reply).next().and_then(|received| Delivery::new(receive.queue, received)))
    }

    /// The next messages, locked; none if the wait ended.
    pub async fn many(self) -> Result<Vec<Delivery>, Error> {
        let reply = self.queue.ask(self.command()).await?;
        Ok(self.queue.deliveries(reply))
    }

    /// The next messages, removed the moment they are given out: lost if they are not handled.
    pub async fn and_delete(mut self) -> Result<Vec<Received>, Error> {
        self.mode = ReceiveMode::ReceiveAndDelete;
        let reply = self.queue.ask(self.command()).await?;
        Ok(messages(reply).collect())
    }

    fn command(&self) -> Command {
        Command::Receive(ReceiveCommand {
            from: self.queue.path.clone(),
            session: self.session.clone(),
            max: self.max,
            mode: self.mode,
            wait_ms: ms(self.wait),
            lock_ms: self.lock.map(|lock| u32::try_from(lock.as_millis()).unwrap_or(u32::MAX)),
        })
    }
}

/// What the rules need to know of a message, and what is kept of it: the two halves of a send that
/// is asked by [`Bellwether::call`](crate::Bellwether::call).
pub fn prepare(message: &Message) -> Result<(NewMessage, Bytes), Error> {
    let content = message::encode(message);
    let new = NewMessage {
        content_bytes: u32::try_from(content.len()).unwrap_or(u32::MAX),
        id_hash: message.id.as_deref().map_or(0, |id| message::id_hash(ID_HASH_KEY, id)),
        session: message.session.as_deref().map(SessionId::new).transpose()?,
        ttl_ms: message.ttl.map(ms),
        due: message.scheduled_at,
    };
    Ok((new, content))
}

pub(crate) fn numbers(reply: Reply) -> Sequences {
    match reply.outcome {
        Outcome::Sent(sequences) => sequences,
        other => unreachable_outcome(&other),
    }
}

/// The messages in the answer to a receive or a peek.
pub fn messages(reply: Reply) -> impl Iterator<Item = Received> {
    match reply.outcome {
        Outcome::Received(views) | Outcome::Peeked(views) => read_views(views, reply.contents),
        other => unreachable_outcome(&other),
    }
}

/// Whole milliseconds, rounded up: a wait is never shorter than asked for.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
