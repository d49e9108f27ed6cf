//! One message as a body and headers: bytes as they are, fields in `Bellwether-…`.

use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bellwether::Received;
use bellwether::message::Message;
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::time::Duration;

use super::cloud_events;
use super::extract::{parse_json, text_header};
use super::message::{properties, wall_time};
use super::problem::{Problem, Told};
use crate::time;

/// What a header's text does not show as it is, as in the CloudEvents binding to HTTP.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Reads a message whose body is the request's body.
pub(crate) fn read(headers: &HeaderMap, body: Bytes) -> Told<Message> {
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.map(|value| value.to_str().map(ToOwned::to_owned)).transpose();
    let content_type =
        content_type.map_err(|_| Problem::invalid("Content-Type", "printable ASCII only"))?;
    let mut message = Message::from(body);
    message.content_type = content_type;
    let message = read_fields(headers, message)?;
    if cloud_events::is_binary(headers) {
        cloud_events::read_binary(headers, message)
    } else {
        Ok(message)
    }
}

/// Reads what the headers say of a message.
pub(crate) fn read_fields(headers: &HeaderMap, mut message: Message) -> Told<Message> {
    let text = |name: &str| text_header(headers, name);
    let fields = [
        ("bellwether-id", &mut message.id),
        ("bellwether-session", &mut message.session),
        ("bellwether-key", &mut message.key),
        ("bellwether-subject", &mut message.subject),
        ("bellwether-correlation-id", &mut message.correlation_id),
        ("bellwether-to", &mut message.to),
        ("bellwether-reply-to", &mut message.reply_to),
        ("bellwether-reply-to-session", &mut message.reply_to_session),
    ];
    for (name, field) in fields {
        if let Some(value) = text(name)? {
            *field = Some(value);
        }
    }
    if let Some(priority) = text("bellwether-priority")? {
        let priority = priority.parse();
        let wrong = |_| Problem::invalid("Bellwether-Priority", "a number from 0 to 9");
        message.priority = Some(priority.map_err(wrong)?);
    }
    if let Some(ms) = text("bellwether-ttl-ms")? {
        let ms = ms.parse().map_err(|_| Problem::invalid("Bellwether-Ttl-Ms", "no number"))?;
        message.ttl = Some(Duration::from_millis(ms));
    }
    if let Some(at) = text("bellwether-scheduled-at")? {
        message.scheduled_at = Some(wall_time("Bellwether-Scheduled-At", &at)?);
    }
    if let Some(json) = text("bellwether-properties")? {
        let properties: std::collections::BTreeMap<String, crate::property::Property> =
            parse_json(json.as_bytes())?;
        message.properties.extend(properties.into_iter().map(|(key, value)| (key, value.0)));
    }
    Ok(message)
}

/// What the answer to a receive of one message looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bytes and headers; a CloudEvent in binary mode.
    Raw,
    /// A CloudEvent in structured mode.
    Structured,
}

/// What the caller would like, if it is not JSON.
pub(crate) fn wanted(headers: &HeaderMap) -> Option<Form> {
    let accept = headers.get(axum::http::header::ACCEPT)?.to_str().ok()?.to_ascii_lowercase();
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
    kinds.find_map(|kind| match kind {
        cloud_events::MEDIA_TYPE => Some(Form::Structured),
        "application/octet-stream" => Some(Form::Raw),
        _ => None,
    })
}

/// The proof of a delivery, for the headers.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) token: String,
    pub(crate) until: String,
}

/// One message as an answer of its own; nothing (204) if there is none.
pub(crate) fn write(
    form: Form,
    queue: &str,
    received: Option<(&Received, Option<Lock>)>,
) -> Told<Response> {
    let Some((received, lock)) = received else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let message = received.message().map_err(|why| {
        let detail = format!("message {}: {why}", received.sequence());
        Problem::new(super::problem::Kind::Unreadable, detail)
    })?;
    let mut headers = HeaderMap::new();
    write_fields(&mut headers, received, message);
    if let Some(lock) = lock {
        put(&mut headers, "bellwether-lock-token", &lock.token);
        put(&mut headers, "bellwether-locked-until", &lock.until);
    }
    let body = match form {
        Form::Structured => {
            put(&mut headers, CONTENT_TYPE.as_str(), cloud_events::MEDIA_TYPE);
            cloud_events::write_structured(queue, received, message).into()
        }
        Form::Raw => {
            let content_type = message.content_type.as_deref().unwrap_or_default();
            let content_type = HeaderValue::from_str(content_type).ok();
            let unknown = HeaderValue::from_static("application/octet-stream");
            let content_type = content_type.filter(|value| !value.is_empty()).unwrap_or(unknown);
            headers.insert(CONTENT_TYPE, content_type);
            if message.properties.keys().any(|key| key.starts_with(cloud_events::PREFIX)) {
                write_attributes(&mut headers, queue, received, message);
            }
            message.body().clone()
        }
    };
    Ok((StatusCode::OK, headers, body).into_response())
}

fn write_attributes(headers: &mut HeaderMap, queue: &str, received: &Received, message: &Message) {
    for (name, value) in cloud_events::attributes(queue, received, message) {
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        put(headers, &format!("ce-{name}"), &text);
    }
}

fn write_fields(headers: &mut HeaderMap, received: &Received, message: &Message) {
    let texts = [
        ("bellwether-id", &message.id),
        ("bellwether-session", &message.session),
        ("bellwether-key", &message.key),
        ("bellwether-subject", &message.subject),
        ("bellwether-correlation-id", &message.correlation_id),
        ("bellwether-to", &message.to),
        ("bellwether-reply-to", &message.reply_to),
        ("bellwether-reply-to-session", &message.reply_to_session),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            put(headers, name, text);
        }
    }
    put(headers, "bellwether-sequence", &received.sequence().to_string());
    if let Some(priority) = message.priority {
        put(headers, "bellwether-priority", &priority.to_string());
    }
    put(headers, "bellwether-deliveries", &received.deliveries().to_string());
    put(headers, "bellwether-enqueued-at", &time::of_wall(received.enqueued_at()));
    if let Some(at) = received.expires_at() {
        put(headers, "bellwether-expires-at", &time::of_wall(at));
    }
    if let Some(reason) = received.dead_letter_reason() {
        put(headers, "bellwether-dead-letter-reason", reason);
    }
    if !message.properties.is_empty() {
        let json = serde_json::to_string(&properties(message)).unwrap_or_default();
        put(headers, "bellwether-properties", &json);
    }
}

/// Adds a header; its text is encoded where it must be.
fn put(headers: &mut HeaderMap, name: &str, text: &str) {
    let text = if name == CONTENT_TYPE.as_str() {
        text.to_owned()
    } else {
        utf8_percent_encode(text, ENCODED).to_string()
    };
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(text)) {
        headers.insert(name, value);
    }
}
