//! Messages.

use bellwether::Message;
use bellwether::core::message::State;
use bellwether::delivery::Received;
use bellwether::message::BodyKind;
use serde_json::{Value, json};

use super::super::human::{Size, Wall};
use super::super::table;
use super::{Fields, Object, base64, put, read_base64, time, value};
use crate::property;

/// A message as the store shows it.
pub(crate) fn to_json(received: &Received) -> Value {
    let record = &received.view().message;
    let standing = record.standing;
    let mut object = Object::new();
    put(&mut object, "sequence", Some(received.sequence().0));
    put(&mut object, "state", Some(state_name(received.state())));
    put(&mut object, "enqueued_at", Some(time(record.enqueued_at)));
    put(&mut object, "expires_at", received.expires_at().map(time));
    put(&mut object, "due", due(received.state()));
    put(&mut object, "deliveries", Some(received.deliveries()));
    put(&mut object, "failures", Some(standing.failures));
    put(&mut object, "crashes", Some(standing.crashes));
    put(&mut object, "releases", Some(standing.releases));
    if let Some(reason) = received.dead_letter_reason() {
        let description = received.dead_letter_description();
        object
            .insert("dead_letter".into(), json!({ "reason": reason, "description": description }));
    }
    match received.message() {
        Ok(message) => put_message(&mut object, message),
        Err(what) => put(&mut object, "unreadable", Some(what)),
    }
    Value::Object(object)
}

/// What was sent: the fields that are set, the properties with their types, the body.
pub(crate) fn put_message(object: &mut Object, message: &Message) {
    let texts = texts(message);
    for (name, text) in texts {
        put(object, name, text);
    }
    put(object, "priority", message.priority);
    if !message.properties.is_empty() {
        let properties = message.properties.iter();
        let properties: Object =
            properties.map(|(name, v)| (name.clone(), property::to_json(v))).collect();
        object.insert("properties".into(), Value::Object(properties));
    }
    if message.body_kind != BodyKind::Data {
        put(object, "body_kind", Some(kind_name(message.body_kind)));
    }
    match message.text() {
        Some(text) => put(object, "body", Some(text)),
        None => put(object, "body_base64", Some(base64(message.body()))),
    }
}

fn texts(message: &Message) -> [(&'static str, Option<&str>); 9] {
    [
        ("id", message.id.as_deref()),
        ("session", message.session.as_deref()),
        ("key", message.key.as_deref()),
        ("subject", message.subject.as_deref()),
        ("correlation_id", message.correlation_id.as_deref()),
        ("to", message.to.as_deref()),
        ("reply_to", message.reply_to.as_deref()),
        ("reply_to_session", message.reply_to_session.as_deref()),
        ("content_type", message.content_type.as_deref()),
    ]
}

/// What was sent, back from its JSON.
pub(crate) fn read_message(fields: &Fields<'_>) -> Result<Message, String> {
    let body = match fields.text("body")? {
        Some(text) => text.into_bytes(),
        None => fields.must("body_base64", |value| read_base64(value.as_str()?))?,
    };
    let kind = fields.maybe("body_kind", |value| read_kind(value.as_str()?))?;
    let mut message = Message::new(body).body_kind(kind.unwrap_or_default());
    message.id = fields.text("id")?;
    message.session = fields.text("session")?;
    message.priority = fields.number("priority")?;
    message.key = fields.text("key")?;
    message.subject = fields.text("subject")?;
    message.correlation_id = fields.text("correlation_id")?;
    message.to = fields.text("to")?;
    message.reply_to = fields.text("reply_to")?;
    message.reply_to_session = fields.text("reply_to_session")?;
    message.content_type = fields.text("content_type")?;
    if let Some(properties) = fields.maybe("properties", Value::as_object)? {
        for (name, json) in properties {
            let read = property::from_json(json.clone());
            let read = read.map_err(|why| format!("the property {name:?}: {why}"))?;
            message.properties.insert(name.clone(), read);
        }
    }
    Ok(message)
}

pub(crate) fn kind_name(kind: BodyKind) -> &'static str {
    match kind {
        BodyKind::Data => "data",
        BodyKind::Value => "value",
        BodyKind::Sequence => "sequence",
    }
}

pub(crate) fn read_kind(name: &str) -> Option<BodyKind> {
    match name {
        "data" => Some(BodyKind::Data),
        "value" => Some(BodyKind::Value),
        "sequence" => Some(BodyKind::Sequence),
        _ => None,
    }
}

pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Scheduled { .. } => "scheduled",
        State::Delayed { .. } => "delayed",
        State::Locked(_) => "locked",
        State::Deferred => "deferred",
    }
}

fn due(state: State) -> Option<Value> {
    match state {
        State::Scheduled { due } | State::Delayed { due } => Some(time(due)),
        State::Ready | State::Locked(_) | State::Deferred => None,
    }
}

/// Everything about a message, for people.
pub(crate) fn lines(received: &Received) -> Vec<String> {
    let mut pairs: Vec<(&str, String)> = vec![
        ("sequence", received.sequence().to_string()),
        ("state", state_name(received.state()).into()),
        ("enqueued", Wall(received.enqueued_at()).to_string()),
    ];
    if let Some(at) = received.expires_at() {
        pairs.push(("expires", Wall(at).to_string()));
    }
    if let State::Scheduled { due } | State::Delayed { due } = received.state() {
        pairs.push(("due", Wall(due).to_string()));
    }
    let standing = received.view().message.standing;
    pairs.push((
        "deliveries",
        format!(
            "{} ({} failures, {} crashes; {} releases)",
            received.deliveries(),
            standing.failures,
            standing.crashes,
            standing.releases
        ),
    ));
    if let Some(reason) = received.dead_letter_reason() {
        pairs.push(("reason", reason.into()));
        let said = received.dead_letter_description();
        pairs.extend(said.map(|said| ("description", said.to_owned())));
    }
    let message = match received.message() {
        Ok(message) => message,
        Err(what) => {
            pairs.push(("unreadable", what.into()));
            return table::pairs(&pairs);
        }
    };
    pairs.extend(texts(message).into_iter().filter_map(|(n, text)| Some((n, text?.to_owned()))));
    pairs.extend(message.priority.map(|priority| ("priority", priority.to_string())));
    for (name, property) in &message.properties {
        pairs.push(("property", format!("{name} = {}", value::to_text(property))));
    }
    pairs.push(("size", Size(message.body().len() as u64).to_string()));
    pairs.push(("body", preview(message, usize::MAX)));
    table::pairs(&pairs)
}

/// The beginning of a body, on one line.
pub(crate) fn preview(message: &Message, chars_max: usize) -> String {
    let text = match message.text() {
        Some(text) => table::plain(text),
        None => format!("base64:{}", base64(message.body())),
    };
    if text.chars().count() <= chars_max {
        return text;
    }
    let mut cut: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
