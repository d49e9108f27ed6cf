//! A message in a receiver's hands, and the ways to settle it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bellwether_core::command::{Command, Disposition, NewContent, Settlement};
use bellwether_core::few::Few;
use bellwether_core::limits;
use bellwether_core::message::{MessageView, Reason, State};
use bellwether_core::name::{LockToken, QueueName, SequenceNumber};
use bellwether_core::outcome::Outcome;
use bellwether_core::time::{BootTime, WallTime};
use bytes::Bytes;

use crate::error::Error;
use crate::handle::unreachable_outcome;
use crate::job;
use crate::message::{self, Message, Overlay, Value};
use crate::queue::{Queue, ms};

/// A message that cannot be read in so many deliveries is set aside.
const UNREADABLE_DELIVERIES: u32 = 3;
/// So many are counted at the same time; beyond, the counts begin anew.
const UNREADABLE_MESSAGES_MAX: usize = 10_000;
/// How long it waits from one to the next.
const UNREADABLE_DELAY_MS: u64 = 1_000;

/// A message as the store shows it: what was sent, and what became of it.
#[derive(Clone, Debug)]
pub struct Received(Box<Parts>);

/// Boxed, because what is received is handed around and a message is large.
#[derive(Clone, Debug)]
struct Parts {
    message: Message,
    /// Why the message is not what was sent, if its bytes cannot be read.
    unreadable: Option<String>,
    view: MessageView,
    /// What was changed on it since it was sent.
    overlay: Option<Box<Overlay>>,
}

/// Puts views and the contents that travelled beside them together again.
pub(crate) fn read_views(
    views: Vec<MessageView>,
    contents: Few<Result<Bytes, String>>,
) -> impl Iterator<Item = Received> {
    let mut contents = contents.into_iter();
    views.into_iter().map(move |view| {
        let mut parts =
            Box::new(Parts { message: Message::default(), unreadable: None, view, overlay: None });
        parts.read(|| contents.next().unwrap_or_else(|| Err("its content is missing".into())));
        Received(parts)
    })
}

impl Parts {
    /// Fills the message in from its contents, one after the other, and from the record.
    fn read(&mut self, mut next: impl FnMut() -> Result<Bytes, String>) {
        let Self { message, unreadable, view, overlay } = self;
        match next().map(|content| message::decode_into(message, content)) {
            Ok(Ok(())) => {}
            Ok(Err(bad)) => {
                *message = Message::default();
                *unreadable = Some(format!("its content is unreadable: {bad}"));
            }
            Err(what) => *unreadable = Some(what),
        }
        let record = &view.message;
        if record.standing.overlay.0 != 0 {
            match next().map(|content| Overlay::decode(&content)) {
                Ok(Ok(found)) => *overlay = Some(Box::new(found)),
                Ok(Err(bad)) => *unreadable = Some(format!("its changes are unreadable: {bad}")),
                Err(what) => *unreadable = Some(what),
            }
        }
        // What the content leaves to the record.
        if let Some(session) = &view.session {
            message.session = Some(session.as_str().to_owned());
        }
        if view.rank.priority != limits::PRIORITY_USUAL {
            message.priority = Some(view.rank.priority);
        }
        if let Some(key) = &view.rank.key {
            message.key = Some(key.as_str().to_owned());
        }
        if record.expires_at != WallTime::NEVER {
            let ms = record.expires_at.0.saturating_sub(record.enqueued_at.0);
            message.ttl = Some(Duration::from_millis(ms));
        }
        if let State::Scheduled { due } = record.standing.state {
            message.scheduled_at = Some(due);
        }
        if let Some(overlay) = overlay {
            message.apply(overlay);
        }
    }
}

impl Received {
    /// The message, or why it cannot be read. What can be read is also reached directly.
    pub fn message(&self) -> Result<&Message, &str> {
        match &self.0.unreadable {
            None => Ok(&self.0.message),
            Some(what) => Err(what),
        }
    }

    /// Its number in its queue.
    pub fn sequence(&self) -> SequenceNumber {
        self.0.view.sequence
    }

    /// When it entered the queue.
    pub fn enqueued_at(&self) -> WallTime {
        self.0.view.message.enqueued_at
    }

    /// When it expires, if it does.
    pub fn expires_at(&self) -> Option<WallTime> {
        Some(self.0.view.message.expires_at).filter(|at| *at != WallTime::NEVER)
    }

    /// Which delivery this is, the current one included: one the first time, zero if it was only
    /// looked at before that.
    pub fn deliveries(&self) -> u32 {
        let held = u32::from(matches!(self.0.view.message.standing.state, State::Locked(_)));
        self.0.view.message.standing.deliveries + held
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.0.view.message.standing.state
    }

    /// Why it is a dead letter, if it is one.
    pub fn dead_letter_reason(&self) -> Option<&str> {
        match self.0.view.message.standing.reason {
            Reason::None => None,
            reason => {
                let said = || self.0.overlay.as_ref()?.reason.as_deref();
                reason.as_str().or_else(said).or(Some(""))
            }
        }
    }

    /// What was said about why it is a dead letter. What was said of an earlier death is not.
    pub fn dead_letter_description(&self) -> Option<&str> {
        let said = self.0.view.message.standing.reason == Reason::Application;
        self.0.overlay.as_ref().filter(|_| said)?.description.as_deref()
    }

    /// The record itself.
    pub fn view(&self) -> &MessageView {
        &self.0.view
    }
}

/// How often messages could not be read. Not how often they were delivered: one that failed for
/// other reasons before has as many tries as any other. Not written down either: a new life of the
/// process is a reason to try anew.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    times: Mutex<BTreeMap<(QueueName, SequenceNumber), u32>>,
}

impl Unreadable {
    /// Counts once more; the last time, and is then forgotten.
    fn count(&self, queue: &QueueName, sequence: SequenceNumber) -> u32 {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() >= UNREADABLE_MESSAGES_MAX {
            times.clear();
        }
        let key = (queue.clone(), sequence);
        let count = times.get(&key).map_or(1, |count| count + 1);
        if count < UNREADABLE_DELIVERIES {
            times.insert(key, count);
        } else {
            times.remove(&key);
        }
        count
    }
}

/// One delivery: a message locked for its receiver until it is settled or the lock runs out.
///
/// Every settling method takes the delivery: it is settled once. A delivery that is dropped
/// without being settled is abandoned, so that a panic in a handler counts as a failure and the
/// message comes back at once; [`Delivery::keep`] leaves the lock to run on.
#[derive(Debug)]
pub struct Delivery {
    queue: Queue,
    received: Received,
    token: LockToken,
    locked_until: BootTime,
    lock_ms: u32,
    /// What its receiver changed; boxed, because few do.
    changes: Option<Box<Overlay>>,
    /// How it ends if nobody ends it; nothing is sent for one that was settled or kept.
    if_dropped: Option<Disposition>,
}

impl Deref for Delivery {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.received.0.message
    }
}

impl Delivery {
    /// `None` for a message that cannot be read: it is tried again later, or set aside where its
    /// bytes are kept.
    pub(crate) fn new(queue: Queue, received: Received) -> Option<Self> {
        let token = received.0.view.token()?;
        let State::Locked(lock) = received.0.view.message.standing.state else { return None };
        let unreadable = received.0.unreadable.clone();
        let locked_until = match lock.until {
            // It is locked as long as its session is held; the hold began before this was answered.
            BootTime::NEVER => queue.inner.clock.boot().plus_ms(lock.lock_ms.into()),
            until => until,
        };
        let delivery = Self {
            queue,
            token,
            locked_until,
            lock_ms: lock.lock_ms,
            received,
            changes: None,
            if_dropped: Some(Disposition::Abandon { delay_ms: None }),
        };
        let Some(what) = unreadable else { return Some(delivery) };
        delivery.set_aside(what);
        None
    }

    /// A disk may be well again in a moment, so the message first comes back a little later; that
    /// alone must not fill the dead letters. But damage must not stop a queue: what stays
    /// unreadable becomes a dead letter that says what is wrong with it. A dead letter waits as it
    /// is.
    fn set_aside(mut self, what: String) {
        self.if_dropped = None;
        if self.queue.is_dead_letters() {
            return;
        }
        let times = self.queue.inner.unreadable.count(self.queue.name(), self.sequence());
        if times < UNREADABLE_DELIVERIES {
            self.if_dropped = Some(Disposition::Abandon { delay_ms: Some(UNREADABLE_DELAY_MS) });
            return;
        }
        let (from, token) = (self.queue.path.clone(), self.token);
        let overlay = Overlay {
            reason: Some("Unreadable".into()),
            description: Some(what),
            ..Overlay::default()
        };
        let content = overlay.encode();
        let overlay = Some(NewContent { index: 0, bytes: content.len() as u32 });
        let disposition = Disposition::DeadLetter;
        let settlements = Few::One(Settlement { token, disposition, overlay });
        self.queue.inner.tell_with(Command::Settle { from, settlements }, Few::One(content));
    }

    /// Where it came from.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The message and what the store says of it.
    pub fn received(&self) -> &Received {
        &self.received
    }

    /// Its number in its queue.
    pub fn sequence(&self) -> SequenceNumber {
        self.received.sequence()
    }

    /// Which delivery of the message this is; one the first time.
    pub fn deliveries(&self) -> u32 {
        self.received.deliveries()
    }

    /// The proof of this delivery.
    pub fn token(&self) -> LockToken {
        self.token
    }

    /// When the lock runs out at the latest, on the boot clock.
    pub fn locked_until(&self) -> BootTime {
        self.locked_until
    }

    /// How long the lock lasts from one renewal to the next.
    pub fn lock_duration(&self) -> Duration {
        Duration::from_millis(self.lock_ms.into())
    }

    /// Changes a property of the message; takes effect when it is abandoned, deferred or
    /// dead-lettered.
    pub fn set_property(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.changes.get_or_insert_default().properties.insert(key.into(), Some(value.into()));
    }

    /// The work is done: the message goes.
    pub fn complete(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.settle(Disposition::Complete)
    }

    /// The work is done, and this came of it: if the message is an item of a job, the result is kept
    /// with the job until that is forgotten. False if no job took it: the message is none of an open
    /// job, or its job has ended without it.
    pub async fn complete_with(mut self, result: impl Into<Bytes>) -> Result<bool, Error> {
        let content: Bytes = result.into();
        let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let result = Some(NewContent { index: 0, bytes });
        let (from, token) = (self.queue.path.clone(), self.token);
        let command = Command::CompleteItem { from, token, result };
        // Until it is known to be settled, dropping it gives it back.
        let outcome = self.queue.ask_with(command, Few::One(content)).await?.outcome;
        self.if_dropped = None;
        match outcome {
            Outcome::Count(kept) => Ok(kept > 0),
            other => unreachable_outcome(&other),
        }
    }

    /// Of which job it is an item, and which.
    pub fn item(&self) -> Option<(&str, u32)> {
        job::item_of(self)
    }

    /// The work failed: the message comes back at once.
    pub fn abandon(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.settle(Disposition::Abandon { delay_ms: None })
    }

    /// The work failed: the message comes back after `delay`.
    pub fn abandon_after(self, delay: Duration) -> impl Future<Output = Result<(), Error>> + Send {
        self.settle(Disposition::Abandon { delay_ms: Some(ms(delay)) })
    }

    /// Nothing was done: the message comes back at once and this delivery does not count.
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
        self.settle(Disposition::Release)
    }

    /// Sets the message aside until it is asked for by its number.
    pub async fn defer(self) -> Result<SequenceNumber, Error> {
        let sequence = self.sequence();
        self.settle(Disposition::Defer).await?;
        Ok(sequence)
    }

    /// The message can never work: it becomes a dead letter with this reason.
    pub async fn dead_letter(
        mut self,
        reason: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<(), Error> {
        self.set_reason(reason.into(), description.into());
        self.settle(Disposition::DeadLetter).await
    }

    pub(crate) fn set_reason(&mut self, reason: String, description: String) {
        let changes = self.changes.get_or_insert_default();
        changes.reason = Some(reason);
        changes.description = Some(description);
    }

    /// The content of what its receiver changed, if it changed anything.
    pub(crate) fn changes(&self) -> Option<Bytes> {
        self.changes.as_ref().map(|changes| changes.encode())
    }

    pub(crate) async fn settle(mut self, disposition: Disposition) -> Result<(), Error> {
        self.if_dropped = None;
        let contents: Few<Bytes> = self.changes().into_iter().collect();
        let overlay =
            contents.first().map(|content| NewContent { index: 0, bytes: content.len() as u32 });
        let settlements = Few::One(Settlement { token: self.token, disposition, overlay });
        let from = self.queue.path.clone();
        let reply = self.queue.ask_with(Command::Settle { from, settlements }, contents).await?;
        match reply.outcome {
            Outcome::Settled { mut refused } => match refused.pop() {
                Some((_, refusal)) => Err(refusal.into()),
                None => Ok(()),
            },
            other => unreachable_outcome(&other),
        }
    }

    /// Starts the lock anew.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let asked_at = self.queue.inner.clock.boot();
        let tokens = vec![self.token];
        let command = Command::RenewLocks { from: self.queue.path.clone(), tokens, lock_ms: None };
        match self.queue.ask(command).await?.outcome {
            Outcome::Renewed { lock_ms, mut refused } => {
                if let Some((_, refusal)) = refused.pop() {
                    Err(refusal.into())
                } else {
                    self.locked_until = asked_at.plus_ms(lock_ms.into());
                    Ok(())
                }
            }
            other => unreachable_outcome(&other),
        }
    }

    /// From here on dropping it ends it so.
    pub(crate) fn if_dropped(mut self, disposition: Disposition) -> Self {
        self.if_dropped = Some(disposition);
        self
    }

    /// What its receiver changed, for whoever settles it by its token.
    pub(crate) fn into_changes(mut self) -> Overlay {
        self.if_dropped = None;
        self.changes.take().map_or_else(Overlay::default, |changes| *changes)
    }

    /// Lets go of the handle and keeps the lock: whoever has the token may settle.
    pub fn keep(mut self) -> LockToken {
        self.if_dropped = None;
        self.token
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(disposition) = self.if_dropped {
            let settlements =
                Few::One(Settlement { token: self.token, disposition, overlay: None });
            let from = self.queue.path.clone();
            self.queue.inner.tell(Command::Settle { from, settlements });
        }
    }
}
