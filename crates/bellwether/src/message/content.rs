//! Content: a message as the journal keeps it and the wire carries it.
//!
//! ```text
//! 1           the format
//! tag text    for each text that is set, by tag
//! 8 list      the properties, if there are any
//! kind rest   the kind of the body, then the body, to the end
//! ```
//!
//! 1. A tag keeps its meaning for ever. A new field gets a new tag between its neighbours and the
//!    body; old programs refuse it instead of losing it.
//! 2. One message has one form: fields stand in the order of their tags, once.
//! 3. The body has no length of its own, as in all our bytes: its frame knows where it ends, and
//!    a checksum there knows if it is whole.
//! 4. Session, time-to-live and due time are not in it: the ledger keeps them, and they may change
//!    while the content never does.

use bellwether_core::codec::{BadBytes, Reader, put_text};
use bellwether_core::error::Refusal;
use bytes::{Buf as _, Bytes};

use super::value::{Value, check_properties, get_properties, put_properties};
use super::{BodyKind, Message};

const FORMAT: u8 = 1;

const ID: u8 = 1;
const SUBJECT: u8 = 2;
const CORRELATION_ID: u8 = 3;
const TO: u8 = 4;
const REPLY_TO: u8 = 5;
const REPLY_TO_SESSION: u8 = 6;
const CONTENT_TYPE: u8 = 7;
const PROPERTIES: u8 = 8;
const DATA: u8 = 0xf0;
const VALUE: u8 = 0xf1;
const SEQUENCE: u8 = 0xf2;

/// The content of a message: all of it but session, priority, key, time-to-live and due time.
pub fn encode(message: &Message) -> Bytes {
    let texts = [
        (ID, &message.id),
        (SUBJECT, &message.subject),
        (CORRELATION_ID, &message.correlation_id),
        (TO, &message.to),
        (REPLY_TO, &message.reply_to),
        (REPLY_TO_SESSION, &message.reply_to_session),
        (CONTENT_TYPE, &message.content_type),
    ];
    // A little longer than it will be: it may be kept in memory as it is. Not as long as it will
    // be: then it would be made ready for sharing by the writer, who has no time for that.
    let texts_bytes: usize = texts.iter().flat_map(|(_, text)| *text).map(|t| t.len() + 6).sum();
    let mut out = Vec::with_capacity(message.body.len() + texts_bytes + 16);
    out.push(FORMAT);
    for (tag, text) in texts {
        if let Some(text) = text {
            out.push(tag);
            put_text(text, &mut out);
        }
    }
    if !message.properties.is_empty() {
        out.push(PROPERTIES);
        put_properties(&message.properties, &mut out, Value::put);
    }
    out.push(match message.body_kind {
        BodyKind::Data => DATA,
        BodyKind::Value => VALUE,
        BodyKind::Sequence => SEQUENCE,
    });
    out.extend_from_slice(&message.body);
    out.into()
}

/// Whether it has no more properties than may be. It is read no further than that takes: what makes
/// no sense is told to whoever receives it.
pub(crate) fn check_message(content: &[u8]) -> Result<(), Refusal> {
    let mut r = Reader::new(content);
    if r.byte("a content") != Ok(FORMAT) {
        return Ok(());
    }
    loop {
        match r.byte("a tag") {
            Ok(PROPERTIES) => return check_properties(&content[r.position()..], Value::get),
            Ok(ID..PROPERTIES) if r.text().is_ok() => {}
            _ => return Ok(()),
        }
    }
}

/// Reads the content of a message. The body is a part of it, not a copy.
pub fn decode(content: Bytes) -> Result<Message, BadBytes> {
    let mut message = Message::default();
    decode_into(&mut message, content)?;
    Ok(message)
}

/// The same into an empty message that lies where it will stay: it is large to be moved. What does
/// not decode leaves it half full.
pub(crate) fn decode_into(message: &mut Message, mut content: Bytes) -> Result<(), BadBytes> {
    const EXPECTED: &str = "the next field of a message";
    let mut r = Reader::new(&content);
    if r.byte("a content")? != FORMAT {
        return Err(BadBytes { expected: "a content of format 1", offset: 0 });
    }
    let mut last = 0;
    loop {
        let offset = r.position();
        let bad = BadBytes { expected: EXPECTED, offset };
        let tag = r.byte(EXPECTED)?;
        if tag <= last {
            return Err(bad);
        }
        last = tag;
        let text = match tag {
            ID => &mut message.id,
            SUBJECT => &mut message.subject,
            CORRELATION_ID => &mut message.correlation_id,
            TO => &mut message.to,
            REPLY_TO => &mut message.reply_to,
            REPLY_TO_SESSION => &mut message.reply_to_session,
            CONTENT_TYPE => &mut message.content_type,
            PROPERTIES => {
                message.properties = get_properties(&mut r, Value::get)?;
                if message.properties.is_empty() {
                    return Err(bad);
                }
                continue;
            }
            _ => {
                message.body_kind = match tag {
                    DATA => BodyKind::Data,
                    VALUE => BodyKind::Value,
                    SEQUENCE => BodyKind::Sequence,
                    _ => return Err(bad),
                };
                let head = r.position();
                content.advance(head);
                message.body = content;
                return Ok(());
            }
        };
        *text = Some(r.text()?.to_owned());
    }
}
