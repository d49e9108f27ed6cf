//! What everything that reads other people's texts must keep, whatever it is given: it neither
//! panics nor hangs, and what it has read is read again as it is written.

use std::path::Path;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bellwether::core::name::SessionId;
use bellwether::message::Message;
use bytes::Bytes;
use serde_json::Value as Json;

use crate::cli::form::{
    Fields, exported as form_exported, queue as form_queue, value as form_value,
};
use crate::cli::human;
use crate::config::Config;
use crate::http::extract::parse_object;
use crate::http::message::NewMessage;
use crate::http::{cloud_events, id, raw};
use crate::property::{self, Property};
use crate::time;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// What can be sent can be kept.
fn keeps(message: &Message) {
    let kept = bellwether::message::decode(bellwether::message::encode(message));
    let mut kept = kept.expect("what was encoded is read");
    // The ledger keeps these.
    kept.session.clone_from(&message.session);
    kept.priority = message.priority;
    kept.key.clone_from(&message.key);
    (kept.ttl, kept.scheduled_at) = (message.ttl, message.scheduled_at);
    assert_eq!(&kept, message);
}

/// Times as RFC 3339 writes them.
pub fn times(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Some(ms) = time::parse(text) {
        let written = time::format(ms).expect("what can be read can be written");
        assert_eq!(time::parse(&written), Some(ms), "{text}");
        assert_eq!(time::parse_wall(text).map(|wall| wall.0), u64::try_from(ms).ok());
    }
}

/// Ids and tokens.
pub fn ids(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Some(id) = id::parse(text) {
        assert_eq!(id::parse(&id::text(id)), Some(id));
        assert_eq!(id::parse(&id::uuid(id.to_be_bytes())), Some(id));
    }
    if let Some(token) = id::parse_lock_token(text) {
        assert_eq!(id::parse_lock_token(&id::lock_token(token)), Some(token));
    }
    let session = SessionId::new("a").expect("a name");
    if let Some(token) = id::parse_session_token(session.clone(), text) {
        let written = id::session_token(&token);
        assert_eq!(id::parse_session_token(session, &written), Some(token));
    }
}

/// A property's value, as HTTP and the command line have it in JSON.
pub fn properties(bytes: &[u8]) {
    if let Ok(Property(value)) = serde_json::from_slice(bytes) {
        let written = property::to_json(&value).to_string();
        let again: Property = serde_json::from_str(&written).expect("what was written is read");
        assert_eq!(again.0, value, "{written}");
    }
}

/// A message in the body of a request.
pub fn messages(bytes: &[u8]) {
    if let Ok(message) = parse_object::<NewMessage>(bytes).and_then(NewMessage::into_message) {
        keeps(&message);
    }
}

/// A `CloudEvent` in structured mode.
pub fn cloud_event(bytes: &[u8]) {
    if let Ok(message) = cloud_events::read_structured(bytes) {
        assert_eq!(message.properties["cloudEvents:specversion"].as_str(), Some("1.0"));
        keeps(&message);
    }
}

/// A message in the headers of a request: `name: value` by line, then the body behind an empty one.
pub fn headers(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    raw::wanted(&headers);
    if let Ok(message) = raw::read(&headers, Bytes::copy_from_slice(rest)) {
        assert_eq!(message.body(), rest);
        keeps(&message);
    }
}

/// The settings of the server, as a file.
pub fn config(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(config) = Config::of_text(text) else { return };
    let print = |config: &Config| {
        let mut out = Vec::new();
        config.print(&mut out).expect("a list takes all bytes");
        String::from_utf8(out).expect("it prints text")
    };
    let values = |printed: &str| -> Vec<String> {
        printed.lines().filter_map(|line| Some(line.rsplit_once("  # ")?.0.trim().into())).collect()
    };
    let printed = print(&config);
    let again = Config::of_text(&printed).expect("what is printed is read");
    assert_eq!(values(&print(&again)), values(&printed));
    assert!(config.socket_path().is_none_or(|path| path != Path::new("")));
}

/// A line of an export.
pub fn exports(bytes: &[u8]) {
    let Ok(line) = serde_json::from_slice::<Json>(bytes) else { return };
    if let Ok((queue, is_dead, exported)) = read_line(&line) {
        let written = form_exported::to_json(&queue, is_dead, 1, &exported);
        let again = read_line(&written).expect("what was written is read");
        assert_eq!(again, (queue, is_dead, exported), "{written}");
    }
    if let Some(settings) = line.get("settings") {
        let _ = form_queue::read_settings(settings);
    }
}

fn read_line(line: &Json) -> Result<(String, bool, bellwether::Exported), String> {
    let message = line.get("message").ok_or("no message")?;
    form_exported::read(&Fields::of(message, "a message")?)
}

/// What people write on the command line: durations, sizes, times, properties.
pub fn words(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(duration) = human::parse_duration(text) {
        let written = format!("{}ms", human::ms(duration));
        assert_eq!(human::parse_duration(&written), Ok(duration), "{text}");
    }
    if let Ok(size) = human::parse_size(text) {
        assert_eq!(human::parse_size(&size.to_string()), Ok(size), "{text}");
    }
    if let Some(wall) = human::parse_rfc3339(text) {
        let written = human::Wall(wall).to_string();
        assert_eq!(human::parse_rfc3339(&written), Some(wall), "{text}");
    }
    let _ = human::parse_when(text);
    let _ = form_value::parse_property(text);
}
