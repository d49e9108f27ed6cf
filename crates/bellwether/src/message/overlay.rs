//! Overlay: what settlements have changed of a message.
//!
//! ```text
//! 1       the format
//! maybe   the reason: 0, or 1 and a text
//! maybe   the description
//! list    the changed properties: name, then a value, or 0 if it was removed
//! ```
//!
//! A message has at most one overlay: a later one is merged with it before it is kept. A removed
//! property stays in it as removed, because the content below still has it.

use std::collections::BTreeMap;

use bellwether_core::codec::{BadBytes, Reader, put_text};
use bellwether_core::error::Refusal;
use bytes::Bytes;

use super::value::{Value, check_properties, get_properties, put_properties};

const FORMAT: u8 = 1;

/// Changed properties, and why a message became a dead letter.
///
/// ```
/// use bellwether::message::{Message, Overlay};
///
/// let mut message = Message::new("").property("tries", 1).property("hint", "fast");
/// message.apply(&Overlay::default().property("tries", 2).remove("hint"));
/// assert_eq!(message, Message::new("").property("tries", 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Properties that were set, or removed (`None`).
    pub properties: BTreeMap<String, Option<Value>>,
    /// Why, in a word or two that programs compare.
    pub reason: Option<String>,
    /// Why, in words for people.
    pub description: Option<String>,
}

impl Overlay {
    /// Sets a property.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(key.into(), Some(value.into()));
        self
    }

    /// Removes a property.
    #[must_use]
    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.properties.insert(key.into(), None);
        self
    }

    /// Sets [`Overlay::reason`].
    #[must_use]
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// Sets [`Overlay::description`].
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Whether it changes nothing and need not be kept.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.reason.is_none() && self.description.is_none()
    }

    /// Its content.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_maybe_text(self.reason.as_deref(), &mut out);
        put_maybe_text(self.description.as_deref(), &mut out);
        put_properties(&self.properties, &mut out, |value, out| match value {
            Some(value) => value.put(out),
            None => out.push(0),
        });
        out.into()
    }

    /// Reads a content.
    pub fn decode(content: &[u8]) -> Result<Self, BadBytes> {
        let mut r = Reader::new(content);
        if r.byte("an overlay")? != FORMAT {
            return Err(BadBytes { expected: "an overlay of format 1", offset: 0 });
        }
        let reason = get_maybe_text(&mut r)?;
        let description = get_maybe_text(&mut r)?;
        let properties = get_properties(&mut r, Value::get_maybe)?;
        r.finish()?;
        Ok(Self { properties, reason, description })
    }

    /// Puts a later overlay on top: what it says wins, what it leaves out stays.
    fn merge(&mut self, later: Self) {
        self.properties.extend(later.properties);
        self.reason = later.reason.or(self.reason.take());
        self.description = later.description.or(self.description.take());
    }
}

fn put_maybe_text(text: Option<&str>, out: &mut Vec<u8>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(text, out);
    }
}

fn get_maybe_text(r: &mut Reader<'_>) -> Result<Option<String>, BadBytes> {
    const EXPECTED: &str = "a text or none";
    let offset = r.position();
    match r.byte(EXPECTED)? {
        0 => Ok(None),
        1 => r.text().map(|text| Some(text.to_owned())),
        _ => Err(BadBytes { expected: EXPECTED, offset }),
    }
}

/// Whether it changes no more properties than there may be.
pub(crate) fn check_overlay(content: &[u8]) -> Result<(), Refusal> {
    let mut r = Reader::new(content);
    let is_read = r.byte("an overlay").is_ok()
        && get_maybe_text(&mut r).is_ok()
        && get_maybe_text(&mut r).is_ok();
    if is_read { check_properties(&content[r.position()..], Value::get_maybe) } else { Ok(()) }
}

/// The content of two overlays in one; `None` if either cannot be read.
pub(crate) fn merge_overlays(old: &[u8], new: &[u8]) -> Option<Bytes> {
    let mut merged = Overlay::decode(old).ok()?;
    merged.merge(Overlay::decode(new).ok()?);
    Some(merged.encode())
}
