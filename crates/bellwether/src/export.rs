//! A message with its past: out of one store and into another, and nothing is lost on the way.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
//! use bellwether::{Bellwether, Exported, SequenceNumber};
//!
//! let (old, new) = (Bellwether::open("memory:").await?, Bellwether::open("memory:").await?);
//! let from = old.create_queue("orders", Default::default()).await?;
//! from.send("two coffees").await?;
//! from.receive().one().await?.expect("it was just sent").defer().await?;
//!
//! let messages = from.peek(SequenceNumber(0), 100).await?;
//! let exported: Vec<_> = messages.iter().filter_map(|m| Exported::of(m).ok()).collect();
//! let to = new.create_queue("orders", Default::default()).await?;
//! let numbers = to.import(exported).await?;
//! let deferred = to.receive_deferred(numbers).await?;
//! assert_eq!(deferred[0].text(), Some("two coffees"));
//! # Ok(()) }
//! ```

use bellwether_core::command::{Command, Imported, NewContent, Resting};
use bellwether_core::message::{Reason, State};
use bellwether_core::name::{SequenceNumber, SessionId};
use bellwether_core::time::WallTime;
use bytes::Bytes;

use crate::delivery::Received;
use crate::error::Error;
use crate::message::{self, Message, Overlay};
use crate::queue::{ID_HASH_KEY, Queue, numbers};

/// A message with its past: when it came, how it stands, how often it was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What a receiver would see; its time-to-live and due time are those below.
    pub message: Message,
    /// When it entered its queue.
    pub enqueued_at: WallTime,
    /// When it expires, if it does.
    pub expires_at: Option<WallTime>,
    /// How it stands. One that somebody had locked goes on as ready, or as deferred if it was.
    pub state: Resting,
    /// Deliveries that ended and count.
    pub deliveries: u32,
    /// Of these, given back by a handler.
    pub failures: u16,
    /// Of these, lost because the lock ran out.
    pub crashes: u16,
    /// Hand-outs that were given back unused.
    pub releases: u16,
    /// Why it is a dead letter; [`Reason::None`] if it is none.
    pub reason: Reason,
    /// What its receiver said of that, in a word or two, and in a sentence.
    pub said: (Option<String>, Option<String>),
}

impl Exported {
    /// The message with its past, or why it cannot be read.
    pub fn of(received: &Received) -> Result<Self, &str> {
        let mut message = received.message()?.clone();
        (message.ttl, message.scheduled_at) = (None, None);
        let record = &received.view().message;
        let standing = record.standing;
        let said = (standing.reason == Reason::Application)
            .then(|| (received.dead_letter_reason(), received.dead_letter_description()));
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (word, sentence) = said.unwrap_or_default();
        Ok(Self {
            message,
            enqueued_at: record.enqueued_at,
            expires_at: received.expires_at(),
            state: match standing.state {
                State::Scheduled { due } => Resting::Scheduled { due },
                State::Delayed { due } => Resting::Delayed { due },
                State::Deferred => Resting::Deferred,
                State::Locked(lock) if lock.deferred => Resting::Deferred,
                State::Ready | State::Locked(_) => Resting::Ready,
            },
            deliveries: standing.deliveries,
            failures: standing.failures,
            crashes: standing.crashes,
            releases: standing.releases,
            reason: standing.reason,
            said: (owned(word), owned(sentence)),
        })
    }
}

impl Queue {
    /// Puts messages in with their past, all or none, and returns their numbers, which are this
    /// queue's. A paused queue takes them too, and no duplicate is dropped.
    pub async fn import(
        &self,
        messages: impl IntoIterator<Item = Exported>,
    ) -> Result<Vec<SequenceNumber>, Error> {
        let (mut imports, mut contents) = (Vec::new(), Vec::new());
        for exported in messages {
            imports.push(prepare(exported, &mut contents)?);
        }
        if imports.is_empty() {
            return Ok(Vec::new());
        }
        let command = Command::Import { to: self.path.clone(), messages: imports };
        let reply = self.ask_with(command, contents.into()).await?;
        Ok(numbers(reply).iter().collect())
    }
}

fn prepare(exported: Exported, contents: &mut Vec<Bytes>) -> Result<Imported, Error> {
    let mut put = |content: Bytes| {
        let new = NewContent { index: contents.len() as u32, bytes: content.len() as u32 };
        contents.push(content);
        new
    };
    let Exported { message, said: (reason, description), .. } = exported;
    let content = put(message::encode(&message));
    let overlay = Overlay { reason, description, ..Overlay::default() };
    Ok(Imported {
        content,
        overlay: (!overlay.is_empty()).then(|| put(overlay.encode())),
        id_hash: message.id.as_deref().map_or(0, |id| message::id_hash(ID_HASH_KEY, id)),
        session: message.session.as_deref().map(SessionId::new).transpose()?,
        rank: message.rank()?,
        enqueued_at: exported.enqueued_at,
        expires_at: exported.expires_at.unwrap_or(WallTime::NEVER),
        state: exported.state,
        deliveries: exported.deliveries,
        failures: exported.failures,
        crashes: exported.crashes,
        releases: exported.releases,
        reason: exported.reason,
    })
}
