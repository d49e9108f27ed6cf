//! Bytes: changes as the journal keeps them, requests and answers as the native wire carries them.
//!
//! ```text
//! unsigned number   LEB128, low seven bits first, in its shortest form
//! signed number     zig-zag, then as above
//! hash, id, digest  8 or 16 bytes, little-endian: they are random and would only grow
//! yes or no         1 or 0
//! text              its length in bytes, then UTF-8
//! list              its length, then its elements
//! maybe             0, or 1 and the value
//! choice            its tag (one byte, never 0), then the fields of that variant
//! ```
//!
//! 1. A tag keeps its meaning and its fields for ever: old journals are read by new programs.
//!    What changes gets a new tag; the old one is still read.
//! 2. A decoder believes nothing: it never panics, and it allocates no more ahead than the bytes
//!    that are left could fill.
//! 3. What has one meaning in memory has one form in bytes; what is not in that form is refused
//!    where that costs nothing.
//! 4. [`BootTime`]s are never written. A lock or a hold begins anew at the `now` of its reader;
//!    only the end of a break is kept, as what remains of it.
//!
//! The bytes carry no length and no checksum of their own: frames do.

mod change;
mod command;
mod error;
mod job;
mod lease;
mod message;
mod name;
mod outcome;
mod reader;
mod schedule;
mod settings;
mod wire;
mod words;

pub use change::{decode_change, encode_change};
pub use reader::{BadBytes, Reader};
pub use wire::{put_number, put_text};

use crate::command::{Command, Request};
use crate::error::Refusal;
use crate::message::State;
use crate::name::{MemberSlot, RequestNumber};
use crate::outcome::Outcome;
use crate::time::BootTime;
use wire::Wire;

/// Appends an outcome. The messages in it say for how long from `now` they are locked, behind it.
pub fn encode_outcome(outcome: &Outcome, now: BootTime, out: &mut Vec<u8>) {
    outcome.put(out);
    let (Outcome::Received(views) | Outcome::Peeked(views)) = outcome else { return };
    for view in views {
        if let State::Locked(lock) = view.message.standing.state {
            // Zero is for ever: as long as the session is held.
            let is_bounded = lock.until != BootTime::NEVER;
            put_number(if is_bounded { 1 + now.ms_until(lock.until) } else { 0 }, out);
        }
    }
}

/// Reads an outcome. Locks in it count from `now`.
pub fn decode_outcome(reader: &mut Reader<'_>, now: BootTime) -> Result<Outcome, BadBytes> {
    reader.at_time(now);
    let mut outcome = Wire::get(reader)?;
    let (Outcome::Received(views) | Outcome::Peeked(views)) = &mut outcome else {
        return Ok(outcome);
    };
    for view in views {
        if let State::Locked(lock) = &mut view.message.standing.state {
            let remaining_ms = reader.number()?;
            lock.until = remaining_ms.checked_sub(1).map_or(BootTime::NEVER, |ms| now.plus_ms(ms));
        }
    }
    Ok(outcome)
}

/// Appends a refusal.
pub fn encode_refusal(refusal: &Refusal, out: &mut Vec<u8>) {
    refusal.put(out);
}

/// Reads a refusal.
pub fn decode_refusal(reader: &mut Reader<'_>) -> Result<Refusal, BadBytes> {
    Wire::get(reader)
}

/// Appends a request.
pub fn encode_request(request: &Request, out: &mut Vec<u8>) {
    request.put(out);
}

/// Appends a request of `member` under `number`, whoever and whatever the request itself names.
pub fn encode_request_as(
    request: &Request,
    member: MemberSlot,
    number: RequestNumber,
    answered_below: RequestNumber,
    out: &mut Vec<u8>,
) {
    member.put(out);
    number.put(out);
    answered_below.put(out);
    command::put_asked(request, out);
}

/// Reads a request.
pub fn decode_request(reader: &mut Reader<'_>) -> Result<Request, BadBytes> {
    Wire::get(reader)
}

/// Appends a command.
pub fn encode_command(command: &Command, out: &mut Vec<u8>) {
    command.put(out);
}

/// Reads a command.
pub fn decode_command(reader: &mut Reader<'_>) -> Result<Command, BadBytes> {
    Wire::get(reader)
}
