//! CloudEvents 1.0, accepted and emitted in binary and in structured mode.
//!
//! An event is a message. Its attributes are the properties `cloudEvents:…`, as in the CloudEvents
//! binding to AMQP, its data is the body, and `datacontenttype` is the content type. The message's
//! id is source and id of the event, which together name it, so that a queue that detects
//! duplicates knows an event that was sent twice.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bellwether::Received;
use bellwether::message::{Message, Value};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

use super::extract::{holds_json, parse_json, text_header};
use super::message::json_body;
use super::problem::{Problem, Told};
use crate::time;

/// The media type of structured mode.
pub(crate) const MEDIA_TYPE: &str = "application/cloudevents+json";
/// What attributes are called among the properties.
pub(crate) const PREFIX: &str = "cloudEvents:";
const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];

/// Whether the headers carry an event's attributes: binary mode.
pub(crate) fn is_binary(headers: &HeaderMap) -> bool {
    headers.contains_key("ce-specversion")
}

/// Reads the attributes of binary mode into a message that has its body and content type.
pub(crate) fn read_binary(headers: &HeaderMap, message: Message) -> Told<Message> {
    let mut attributes = BTreeMap::new();
    for name in headers.keys() {
        if let Some(attribute) = name.as_str().strip_prefix("ce-")
            && let Some(value) = text_header(headers, name.as_str())?
        {
            attributes.insert(attribute.to_owned(), Value::String(value));
        }
    }
    with_attributes(message, attributes)
}

/// Reads an event of structured mode.
pub(crate) fn read_structured(body: &[u8]) -> Told<Message> {
    // Data is kept byte for byte, so it must not pass through a value.
    let mut event: BTreeMap<String, Box<RawValue>> = parse_json(body)?;
    let (data, data_base64) = (event.remove("data"), event.remove("data_base64"));
    let content_type = match event.remove("datacontenttype") {
        Some(text) => Some(parse_json::<String>(text.get().as_bytes())?),
        None => None,
    };
    let bytes = match (data, data_base64) {
        (None, None) => Vec::new(),
        (Some(data), None) => data_bytes(&data, content_type.as_deref())?,
        (None, Some(base64)) => {
            let base64: String = parse_json(base64.get().as_bytes())?;
            BASE64.decode(base64).map_err(|e| Problem::invalid("data_base64", e))?
        }
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("data", "give one of data and data_base64"));
        }
    };
    let mut attributes = BTreeMap::new();
    for (name, value) in event {
        let value = match parse_json(value.get().as_bytes())? {
            Json::Null => continue,
            Json::String(text) => Value::String(text),
            Json::Bool(yes) => Value::Bool(yes),
            Json::Number(number) => {
                let n = number.as_i64().and_then(|n| i32::try_from(n).ok());
                Value::Int(n.ok_or_else(|| Problem::invalid(&name, "an integer has 32 bits"))?)
            }
            _ => return Err(Problem::invalid(&name, "an attribute is a text, number or boolean")),
        };
        attributes.insert(name, value);
    }
    let content_type = content_type.or_else(|| Some("application/json".to_owned()));
    let mut message = Message::new(bytes);
    message.content_type = content_type;
    with_attributes(message, attributes)
}

/// A text stands for its characters unless the data is JSON.
fn data_bytes(data: &RawValue, content_type: Option<&str>) -> Told<Vec<u8>> {
    let is_json = content_type.is_none_or(holds_json);
    match data.get().as_bytes() {
        json @ [b'"', ..] if !is_json => Ok(parse_json::<String>(json)?.into_bytes()),
        json => Ok(json.to_vec()),
    }
}

fn with_attributes(mut message: Message, attributes: BTreeMap<String, Value>) -> Told<Message> {
    for required in REQUIRED {
        if attributes.get(required).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Problem::invalid(required, "a CloudEvent needs it"));
        }
    }
    if attributes["specversion"].as_str() != Some("1.0") {
        return Err(Problem::invalid("specversion", "only 1.0 is known here"));
    }
    if let Some(name) = attributes.keys().find(|name| !is_attribute_name(name)) {
        let why = format!("{name:?} has other characters than lower-case letters and digits");
        return Err(Problem::invalid("attribute", why));
    }
    let named = |name: &str| attributes.get(name).and_then(Value::as_str);
    if message.id.is_none()
        && let (Some(source), Some(id)) = (named("source"), named("id"))
    {
        message.id = Some(format!("{source} {id}"));
    }
    if message.subject.is_none() {
        message.subject = named("subject").map(ToOwned::to_owned);
    }
    for (name, value) in attributes {
        message.properties.insert(format!("{PREFIX}{name}"), value);
    }
    Ok(message)
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// The attributes of a message that is an event; those of one that is none are made up from it.
pub(crate) fn attributes(queue: &str, received: &Received, message: &Message) -> Map<String, Json> {
    let mut attributes = Map::new();
    for (key, value) in &message.properties {
        let Some(name) = key.strip_prefix(PREFIX).filter(|name| is_attribute_name(name)) else {
            continue;
        };
        let value = match value {
            Value::Bool(yes) => (*yes).into(),
            value => match (value.as_str(), value.as_i64()) {
                (Some(text), _) => text.into(),
                (None, Some(n)) => n.into(),
                (None, None) => continue,
            },
        };
        attributes.insert(name.to_owned(), value);
    }
    let mut fill = |name: &str, value: &dyn Fn() -> String| {
        if !attributes.contains_key(name) {
            attributes.insert(name.to_owned(), value().into());
        }
    };
    if let Some(context) = message.traced() {
        fill("traceparent", &|| context.to_string());
        if !context.state.is_empty() {
            fill("tracestate", &|| context.state.clone());
        }
    }
    fill("specversion", &|| "1.0".into());
    fill("id", &|| message.id.clone().unwrap_or_else(|| received.sequence().to_string()));
    fill("source", &|| {
        let encoded =
            percent_encoding::utf8_percent_encode(queue, percent_encoding::NON_ALPHANUMERIC);
        format!("/v1/queues/{encoded}")
    });
    fill("type", &|| message.subject.clone().unwrap_or_else(|| "bellwether.message".into()));
    fill("time", &|| time::of_wall(received.enqueued_at()));
    attributes
}

/// The event in structured mode.
pub(crate) fn write_structured(queue: &str, received: &Received, message: &Message) -> Vec<u8> {
    let mut event = attributes(queue, received, message);
    if let Some(content_type) = &message.content_type {
        event.insert("datacontenttype".into(), content_type.as_str().into());
    }
    let body = message.body();
    let json = message.text().and_then(|text| json_body(message, text));
    let is_json = message.content_type.as_deref().is_none_or(holds_json);
    let (name, data) = match (json, message.text()) {
        _ if body.is_empty() => return to_bytes(&event),
        (Some(json), _) => ("data", json.get().to_owned()),
        (None, Some(text)) if !is_json => ("data", Json::from(text).to_string()),
        _ => ("data_base64", Json::from(BASE64.encode(body)).to_string()),
    };
    // Data goes in as it is: a value in between would write its numbers anew.
    let mut bytes = to_bytes(&event);
    bytes.pop();
    bytes.extend_from_slice(format!(",\"{name}\":{data}}}").as_bytes());
    bytes
}

fn to_bytes(event: &Map<String, Json>) -> Vec<u8> {
    // Texts, numbers and booleans can always be written.
    serde_json::to_vec(event).unwrap_or_default()
}
