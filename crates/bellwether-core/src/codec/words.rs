//! Words of refusals that a program knows by heart.
//!
//! They travel as text, so that a list that grows on one side does not break the other; a word
//! that is not on this program's list is read as [`UNKNOWN`].

use super::wire::{Wire, put_text};
use super::{BadBytes, Reader};

const UNKNOWN: &str = "value";

const WORDS: &[&str] = &[
    // Kinds of names, and what is wrong with one.
    "queue name",
    "job name",
    "schedule name",
    "lease name",
    "session id",
    "scope",
    "it is empty",
    "it is longer than 260 bytes",
    "it contains a control character",
    // Settings.
    "lock_ms",
    "deliveries_max",
    "ttl_ms",
    "dead_letter_expired",
    "duplicate_window_ms",
    "sessions",
    "forward_to",
    "forward_dead_letters_to",
    "delete_idle_ms",
    "status",
    "size_bytes_max",
    "message_bytes_max",
    "durability",
    // What a request names.
    "backup",
    "deadline_ms",
    "retention_ms",
    "gather",
    "items",
    "rule",
    "missed",
    "call",
    "fence",
    "messages",
    "contents",
    "properties",
    "disposition",
    "wait_ms",
    "stop_ms",
    "renew_ms",
    "retry_ms",
    "slots",
    // What can be too large or too many.
    "one send",
    "one request",
    "messages in one send",
    "a message, properties included,",
    "settlements in one request",
    "the changed properties",
    "queues",
    "leases",
    "jobs",
    "schedules",
    "items of one job",
    "the result of an item",
    "a session's state",
    "a member's metadata",
    "a holder's metadata",
    "unheard answers of one member",
    "request number",
    "sequence numbers in one request",
    "tokens in one request",
    "what one receive asks for",
    "deliveries that one member has not settled",
    "sessions in the queue",
    "properties of a message",
    "backups at a time",
    UNKNOWN,
];

impl Wire for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self, out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let text = r.text()?;
        Ok(WORDS.iter().find(|word| **word == text).copied().unwrap_or(UNKNOWN))
    }
}
