//! A message as JSON.
//!
//! The body is `body` (any JSON value, kept byte for byte), `text` or `base64`; which one it is on
//! the way out depends on the bytes: JSON if the content type says so and they are, text if they
//! are UTF-8, else base64. What was sent is what is received, byte for byte, whichever it is.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::core::message::State as MessageState;
use bellwether::message::{BodyKind as Kind, Message};
use bellwether::{Delivery, Received};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::extract::{holds_json, present};
use super::id;
use super::problem::{Problem, Told};
use super::state::State;
use crate::property::Property;
use crate::time;

/// A message as it is sent. At most one of `body`, `text` and `base64`; none is an empty body.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewMessage {
    /// The sender's name for it. A queue that detects duplicates takes each id once.
    pub(crate) id: Option<String>,
    /// The ordered group it belongs to.
    pub(crate) session: Option<String>,
    /// From 0 to 9, and 9 is received first.
    #[schema(minimum = 0, maximum = 9, default = 4)]
    pub(crate) priority: Option<u8>,
    /// Whose it is, for fairness: keys take turns.
    #[schema(max_length = 128)]
    pub(crate) key: Option<String>,
    /// What it is about.
    pub(crate) subject: Option<String>,
    /// The id of what it belongs to or answers.
    pub(crate) correlation_id: Option<String>,
    /// Whom it is meant for.
    pub(crate) to: Option<String>,
    /// The queue an answer goes to.
    pub(crate) reply_to: Option<String>,
    /// The session an answer goes to.
    pub(crate) reply_to_session: Option<String>,
    /// What the body is; `application/json` for a `body` that does not say.
    pub(crate) content_type: Option<String>,
    /// The sender's own words about it.
    pub(crate) properties: BTreeMap<String, Property>,
    /// How long after it was enqueued it expires; as long as the queue allows if not said.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub(crate) ttl_ms: Option<u64>,
    /// Not to be received before: the message is scheduled.
    #[schema(format = DateTime)]
    pub(crate) scheduled_at: Option<String>,
    /// How the body's bytes are to be read.
    pub(crate) body_kind: BodyKind,
    /// The body, any JSON value.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) body: Option<Box<RawValue>>,
    /// The body, a text.
    pub(crate) text: Option<String>,
    /// The body, bytes as base64.
    #[schema(content_encoding = "base64")]
    pub(crate) base64: Option<String>,
}

/// How a body is to be read: the kind of its AMQP section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyKind {
    /// Bytes, as they are.
    #[default]
    Data,
    /// One value, as AMQP encodes it; shown as base64.
    Value,
    /// Lists of values, as AMQP encodes them; shown as base64.
    Sequence,
}

impl NewMessage {
    pub(crate) fn into_message(self) -> Told<Message> {
        let mut content_type = self.content_type;
        let body = match (self.body, self.text, self.base64) {
            (None, None, None) => Vec::new(),
            (Some(body), None, None) => {
                content_type.get_or_insert_with(|| "application/json".to_owned());
                body.get().as_bytes().to_vec()
            }
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(base64)) => BASE64.decode(base64).map_err(|e| {
                Problem::invalid("base64", format!("{e}; encode with the standard alphabet"))
            })?,
            _ => return Err(Problem::invalid("body", "give one of body, text and base64")),
        };
        let scheduled_at = self.scheduled_at.as_deref();
        let scheduled_at = scheduled_at.map(|at| wall_time("scheduled_at", at)).transpose()?;
        let properties = self.properties.into_iter().map(|(key, value)| (key, value.0)).collect();
        let mut message = Message::new(body);
        message.id = self.id;
        message.session = self.session;
        message.priority = self.priority;
        message.key = self.key;
        message.subject = self.subject;
        message.correlation_id = self.correlation_id;
        message.to = self.to;
        message.reply_to = self.reply_to;
        message.reply_to_session = self.reply_to_session;
        message.content_type = content_type;
        message.properties = properties;
        message.ttl = self.ttl_ms.map(Duration::from_millis);
        message.scheduled_at = scheduled_at;
        message.body_kind = match self.body_kind {
            BodyKind::Data => Kind::Data,
            BodyKind::Value => Kind::Value,
            BodyKind::Sequence => Kind::Sequence,
        };
        Ok(message)
    }
}

pub(crate) fn wall_time(setting: &str, text: &str) -> Told<bellwether::core::time::WallTime> {
    time::parse_wall(text).ok_or_else(|| {
        let why = "a time is written as in 2026-01-31T09:30:00.000Z, not before 1970";
        Problem::invalid(setting, why)
    })
}

/// A message as the store shows it: what was sent, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownMessage {
    /// Its number in its queue; grows, and is never reused.
    #[schema(pattern = "^[0-9]+$")]
    sequence: String,
    /// Where it is in its life.
    state: StateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// From 0 to 9, and 9 is received first.
    priority: u8,
    /// Whose it is, for fairness.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, Property>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// When a scheduled or delayed message becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    due_at: Option<String>,
    #[schema(format = DateTime)]
    enqueued_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Which delivery this is, the current one included.
    deliveries: u32,
    /// Of these, given back by a handler.
    failures: u16,
    /// Of these, lost because the lock ran out.
    crashes: u16,
    /// Deliveries that were given back unused and are not counted.
    releases: u16,
    /// The proof of this delivery, shown when it is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_token: Option<String>,
    /// When the lock runs out at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    locked_until: Option<String>,
    /// How long the lock lasts from one renewal to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<DeadLetter>,
    /// Why the message is not what was sent: its bytes cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// How the body is to be read.
    body_kind: BodyKind,
    /// The body, if it is JSON and its content type says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<Box<RawValue>>,
    /// The body, if it is another text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The body, if it is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    base64: Option<String>,
}

/// Why a message is a dead letter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    /// In a word or two that programs compare.
    reason: String,
    /// In words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

/// Where a message is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateName {
    /// Waits for a receiver.
    Ready,
    /// Sent for later.
    Scheduled,
    /// Given back for later.
    Delayed,
    /// Held by one receiver.
    Locked,
    /// Set aside; only given out by number.
    Deferred,
    /// Received and deleted by this very answer.
    Gone,
}

impl ShownMessage {
    /// A message that was looked at.
    pub(crate) fn new(state: &State, received: &Received) -> Self {
        let standing = &received.view().message.standing;
        let (name, due, lock) = match received.state() {
            MessageState::Ready => (StateName::Ready, None, None),
            MessageState::Scheduled { due } => (StateName::Scheduled, Some(due), None),
            MessageState::Delayed { due } => (StateName::Delayed, Some(due), None),
            MessageState::Locked(lock) => (StateName::Locked, None, Some(lock)),
            MessageState::Deferred => (StateName::Deferred, None, None),
        };
        let empty = Message::default();
        let (message, unreadable) = match received.message() {
            Ok(message) => (message, None),
            Err(why) => (&empty, Some(why.to_owned())),
        };
        let (body_kind, body) = show_body(message);
        Self {
            sequence: received.sequence().to_string(),
            state: name,
            id: message.id.clone(),
            session: received.view().session.as_ref().map(ToString::to_string),
            priority: received.view().rank.priority,
            key: received.view().rank.key.as_ref().map(ToString::to_string),
            subject: message.subject.clone(),
            correlation_id: message.correlation_id.clone(),
            to: message.to.clone(),
            reply_to: message.reply_to.clone(),
            reply_to_session: message.reply_to_session.clone(),
            content_type: message.content_type.clone(),
            properties: properties(message),
            ttl_ms: message.ttl.map(|ttl| ttl.as_millis() as u64),
            due_at: due.map(time::of_wall),
            enqueued_at: time::of_wall(received.enqueued_at()),
            expires_at: received.expires_at().map(time::of_wall),
            deliveries: received.deliveries(),
            failures: standing.failures,
            crashes: standing.crashes,
            releases: standing.releases,
            lock_token: None,
            locked_until: lock.map(|lock| state.wall_at(lock.until)),
            lock_ms: lock.map(|lock| lock.lock_ms),
            dead_letter: received.dead_letter_reason().map(|reason| DeadLetter {
                reason: reason.to_owned(),
                description: received.dead_letter_description().map(ToOwned::to_owned),
            }),
            unreadable,
            body_kind,
            body: body.0,
            text: body.1,
            base64: body.2,
        }
    }

    /// A message that was received and deleted: this was its delivery.
    pub(crate) fn deleted(state: &State, received: &Received) -> Self {
        let deliveries = received.deliveries() + 1;
        Self { state: StateName::Gone, deliveries, ..Self::new(state, received) }
    }

    /// A message that was handed out; whoever has the token settles it.
    pub(crate) fn delivered(state: &State, delivery: Delivery) -> Self {
        let shown = Self::new(state, delivery.received());
        Self { lock_token: Some(id::lock_token(delivery.keep())), ..shown }
    }
}

type Body = (Option<Box<RawValue>>, Option<String>, Option<String>);

fn show_body(message: &Message) -> (BodyKind, Body) {
    let bytes = message.body();
    let base64 = || (None, None, Some(BASE64.encode(bytes)));
    match message.body_kind {
        Kind::Value => return (BodyKind::Value, base64()),
        Kind::Sequence => return (BodyKind::Sequence, base64()),
        Kind::Data => {}
    }
    let body = match message.text() {
        None => base64(),
        Some(text) => match json_body(message, text) {
            Some(json) => (Some(json), None, None),
            None => (None, Some(text.to_owned()), None),
        },
    };
    (BodyKind::Data, body)
}

/// The body as JSON, if its content type says so and nothing would be lost by showing it as such.
pub(crate) fn json_body(message: &Message, text: &str) -> Option<Box<RawValue>> {
    if !message.content_type.as_deref().is_some_and(holds_json) {
        return None;
    }
    let json: &RawValue = serde_json::from_str(text).ok()?;
    // White space around the value would be.
    (json.get().len() == text.len()).then(|| json.to_owned())
}

pub(crate) fn properties(message: &Message) -> BTreeMap<String, Property> {
    message.properties.iter().map(|(key, value)| (key.clone(), Property(value.clone()))).collect()
}
