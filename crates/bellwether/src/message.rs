//! What is sent and received.
//!
//! ```
//! use std::time::Duration;
//! use bellwether::message::Message;
//!
//! let order = Message::new("three apples")
//!     .id("order-17")
//!     .session("customer-4")
//!     .property("urgent", true)
//!     .ttl(Duration::from_hours(1));
//! assert_eq!(order.text(), Some("three apples"));
//! assert_eq!(order.id.as_deref(), Some("order-17"));
//! assert_eq!(order.properties["urgent"], true.into());
//! ```
//!
//! A field is read as `message.id` and set as `.id("…")`. Of a message on its way in, the rules
//! read `id`, `session`, `priority`, `key`, `ttl` and `scheduled_at`; everything else is carried and
//! never looked at.
//!
//! What is kept of it is its *content* ([`encode`]), which is written once and never
//! changed. What a settlement changes lies beside it as an [`Overlay`].

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_core::error::Refusal;
use bellwether_core::limits;
use bellwether_core::name::Key;
use bellwether_core::rank::Rank;
use bellwether_core::time::WallTime;
use bytes::Bytes;
use siphasher::sip128::SipHasher13;

mod content;
mod overlay;
#[cfg(test)]
mod tests;
mod trace;
mod value;

pub use bellwether_core::codec::BadBytes;
pub(crate) use content::{check_message, decode_into};
pub use content::{decode, encode};
pub use overlay::Overlay;
pub(crate) use overlay::{check_overlay, merge_overlays};
pub use trace::TraceContext;
pub use value::Value;

/// A message as its sender writes it and its receiver reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The sender's name for it. A queue that detects duplicates takes each id once.
    pub id: Option<String>,
    /// The ordered group it belongs to.
    pub session: Option<String>,
    /// From 0 to 9, and 9 is received first; 4 if `None`.
    pub priority: Option<u8>,
    /// Whose it is, for fairness: keys take turns, however many messages each has.
    pub key: Option<String>,
    /// What it is about.
    pub subject: Option<String>,
    /// The id of what it belongs to or answers.
    pub correlation_id: Option<String>,
    /// Whom it is meant for.
    pub to: Option<String>,
    /// The queue an answer goes to.
    pub reply_to: Option<String>,
    /// The session an answer goes to.
    pub reply_to_session: Option<String>,
    /// What the body is, as a media type.
    pub content_type: Option<String>,
    /// The sender's own words about it.
    pub properties: BTreeMap<String, Value>,
    /// How long after it was enqueued it expires; as long as the queue allows if `None`. Not zero.
    pub ttl: Option<Duration>,
    /// Not to be received before.
    pub scheduled_at: Option<WallTime>,
    /// How the body is to be read.
    pub body_kind: BodyKind,
    body: Bytes,
}

/// How a body is to be read: the kind of its AMQP section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// Bytes, as they are.
    #[default]
    Data,
    /// One value, as AMQP encodes it.
    Value,
    /// Lists of values, as AMQP encodes them.
    Sequence,
}

impl Message {
    /// When its turn comes, as the rules read it.
    pub(crate) fn rank(&self) -> Result<Rank, Refusal> {
        Ok(Rank {
            priority: self.priority.unwrap_or(limits::PRIORITY_USUAL),
            key: self.key.as_deref().map(Key::new).transpose()?,
        })
    }

    /// A message with this body and nothing else.
    pub fn new(body: impl Into<Self>) -> Self {
        body.into()
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, without the rest.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// The body as text, if it is [`BodyKind::Data`] and UTF-8.
    pub fn text(&self) -> Option<&str> {
        // The bytes of an encoded AMQP value may happen to be UTF-8; they are still no text.
        (self.body_kind == BodyKind::Data).then(|| std::str::from_utf8(&self.body).ok())?
    }

    /// Sets [`Message::id`].
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets [`Message::session`].
    #[must_use]
    pub fn session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Sets [`Message::priority`].
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Sets [`Message::key`].
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets [`Message::subject`].
    #[must_use]
    pub fn subject(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Sets [`Message::correlation_id`].
    #[must_use]
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        Self { correlation_id: Some(id.into()), ..self }
    }

    /// Sets [`Message::to`].
    #[must_use]
    pub fn to(self, to: impl Into<String>) -> Self {
        Self { to: Some(to.into()), ..self }
    }

    /// Sets [`Message::reply_to`].
    #[must_use]
    pub fn reply_to(self, queue: impl Into<String>) -> Self {
        Self { reply_to: Some(queue.into()), ..self }
    }

    /// Sets [`Message::reply_to_session`].
    #[must_use]
    pub fn reply_to_session(self, session: impl Into<String>) -> Self {
        Self { reply_to_session: Some(session.into()), ..self }
    }

    /// Sets [`Message::content_type`].
    #[must_use]
    pub fn content_type(self, content_type: impl Into<String>) -> Self {
        Self { content_type: Some(content_type.into()), ..self }
    }

    /// Adds to [`Message::properties`], or replaces the property of that name.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// Sets [`Message::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Sets [`Message::scheduled_at`].
    #[must_use]
    pub fn scheduled_at(self, due: WallTime) -> Self {
        Self { scheduled_at: Some(due), ..self }
    }

    /// Sets [`Message::body_kind`].
    #[must_use]
    pub fn body_kind(self, body_kind: BodyKind) -> Self {
        Self { body_kind, ..self }
    }

    /// Changes the properties as the overlay says. Its reason and description belong to the dead
    /// letter, not to what was sent, and stay with the overlay.
    pub fn apply(&mut self, overlay: &Overlay) {
        for (key, value) in &overlay.properties {
            match value {
                Some(value) => {
                    self.properties.insert(key.clone(), value.clone());
                }
                None => {
                    self.properties.remove(key);
                }
            }
        }
    }
}

impl From<Bytes> for Message {
    fn from(body: Bytes) -> Self {
        Self { body, ..Self::default() }
    }
}

impl From<Vec<u8>> for Message {
    fn from(body: Vec<u8>) -> Self {
        Bytes::from(body).into()
    }
}

impl From<String> for Message {
    fn from(body: String) -> Self {
        Bytes::from(body).into()
    }
}

impl From<&String> for Message {
    fn from(body: &String) -> Self {
        body.as_bytes().into()
    }
}

impl From<&str> for Message {
    fn from(body: &str) -> Self {
        body.as_bytes().into()
    }
}

impl From<&[u8]> for Message {
    fn from(body: &[u8]) -> Self {
        Bytes::copy_from_slice(body).into()
    }
}

impl<const N: usize> From<&[u8; N]> for Message {
    fn from(body: &[u8; N]) -> Self {
        body.as_slice().into()
    }
}

/// The hash of a message id, by which a queue knows duplicates; zero, which means no id, only for
/// the empty one.
///
/// The key is the store's own: whoever does not know it cannot make two ids collide and so have
/// somebody else's message dropped as a duplicate. Hashes are journaled: for one key they are the
/// same for ever.
pub fn id_hash(key: (u64, u64), id: &str) -> u128 {
    if id.is_empty() {
        return 0;
    }
    bytes_hash(key, id.as_bytes())
}

/// The same hash of any bytes, also of none; never zero.
pub fn bytes_hash(key: (u64, u64), bytes: &[u8]) -> u128 {
    SipHasher13::new_with_keys(key.0, key.1).hash(bytes).as_u128().max(1)
}
