//! Calls and answers, whole.
//!
//! ```text
//! call      request, contents
//! answer    1 outcome, readings | 2 refusal | 3 text: unknown | 4 text: failed | 5: withdrawn
//! contents  how many, the length of each, all of their bytes
//! readings  how many; of each 1 and its length, or 0 and a text: why it cannot be read;
//!           all of their bytes
//! ```
//!
//! Requests, outcomes and refusals are as [`bellwether_core::codec`] writes them.

use bellwether_core::codec::{self, BadBytes, Reader, put_number, put_text};
use bellwether_core::command::Request;
use bellwether_core::few::Few;
use bellwether_core::name::{MemberSlot, RequestNumber};
use bellwether_core::time::BootTime;
use bytes::Bytes;

use super::WireError;
use crate::engine::{Call, Reply};
use crate::error::Error;

const DONE: u8 = 1;
const REFUSED: u8 = 2;
const UNKNOWN: u8 = 3;
const FAILED: u8 = 4;
const WITHDRAWN: u8 = 5;

/// Appends a call.
pub fn put_call(call: &Call, out: &mut Vec<u8>) {
    let Request { member, number, answered_below, .. } = call.request;
    put_call_as(call, member, number, answered_below, out);
}

/// Appends a call of `member` under `number`, whoever and whatever the request itself names.
pub fn put_call_as(
    call: &Call,
    member: MemberSlot,
    number: RequestNumber,
    answered_below: RequestNumber,
    out: &mut Vec<u8>,
) {
    codec::encode_request_as(&call.request, member, number, answered_below, out);
    put_number(call.contents.len() as u64, out);
    for content in &call.contents {
        put_number(content.len() as u64, out);
    }
    for content in &call.contents {
        out.extend_from_slice(content);
    }
}

/// Reads a call. Contents are copied: they may be kept for long, and what they were read with
/// shall not be.
pub fn get_call(whole: &[u8]) -> Result<Call, WireError> {
    let read = || {
        let mut r = Reader::new(whole);
        let request = codec::decode_request(&mut r)?;
        let lens = (0..r.len_of_next()?).map(|_| len(&mut r)).collect::<Result<Few<_>, _>>()?;
        let contents = lens
            .into_iter()
            .map(|len| r.take(len).map(Bytes::copy_from_slice))
            .collect::<Result<Few<_>, _>>()?;
        r.finish()?;
        Ok(Call { request, contents })
    };
    read().map_err(WireError::of("a call"))
}

/// Appends an answer. Locks in it count from `now`.
pub fn put_answer(answer: &Result<Reply, Error>, now: BootTime, out: &mut Vec<u8>) {
    match answer {
        Ok(Reply { outcome, contents }) => {
            out.push(DONE);
            codec::encode_outcome(outcome, now, out);
            put_number(contents.len() as u64, out);
            for content in contents {
                match content {
                    Ok(content) => {
                        out.push(1);
                        put_number(content.len() as u64, out);
                    }
                    Err(why) => {
                        out.push(0);
                        put_text(why, out);
                    }
                }
            }
            for content in contents.iter().flatten() {
                out.extend_from_slice(content);
            }
        }
        Err(Error::Refused(refusal)) => {
            out.push(REFUSED);
            codec::encode_refusal(refusal, out);
        }
        Err(Error::Unknown(why)) => {
            out.push(UNKNOWN);
            put_text(why, out);
        }
        Err(failed) => {
            out.push(FAILED);
            match failed {
                Error::Failed(why) => put_text(why, out),
                Error::Closed => put_text("its store was closed", out),
                other => put_text(&other.to_string(), out),
            }
        }
    }
}

/// Appends the answer to an ask that was withdrawn: nothing was done, or it was given back.
pub fn put_withdrawn(out: &mut Vec<u8>) {
    out.push(WITHDRAWN);
}

/// An answer; `None` to an ask that was withdrawn.
pub type Answer = Option<Result<Reply, Error>>;

/// Reads an answer. Locks in it count from `now`; contents are parts of `whole`, not copies.
pub fn get_answer(whole: &Bytes, now: BootTime) -> Result<Answer, WireError> {
    const EXPECTED: &str = "an answer";
    let read = || {
        let mut r = Reader::new(whole);
        let answer = match r.byte(EXPECTED)? {
            DONE => {
                let outcome = codec::decode_outcome(&mut r, now)?;
                let count = r.len_of_next()?;
                let lens = (0..count).map(|_| reading(&mut r)).collect::<Result<Few<_>, _>>()?;
                let contents = lens
                    .into_iter()
                    .map(|reading| match reading {
                        Ok(len) => r.take(len).map(|content| Ok(whole.slice_ref(content))),
                        Err(why) => Ok(Err(why)),
                    })
                    .collect::<Result<Few<_>, _>>()?;
                Some(Ok(Reply { outcome, contents }))
            }
            REFUSED => Some(Err(Error::Refused(codec::decode_refusal(&mut r)?))),
            UNKNOWN => Some(Err(Error::Unknown(r.text()?.to_owned()))),
            FAILED => Some(Err(Error::Failed(r.text()?.to_owned()))),
            WITHDRAWN => None,
            _ => return Err(BadBytes { expected: EXPECTED, offset: 0 }),
        };
        r.finish()?;
        Ok(answer)
    };
    read().map_err(WireError::of(EXPECTED))
}

/// A length whose bytes come later.
fn len(r: &mut Reader<'_>) -> Result<usize, BadBytes> {
    let offset = r.position();
    usize::try_from(r.number()?).map_err(|_| BadBytes { expected: "a length", offset })
}

fn reading(r: &mut Reader<'_>) -> Result<Result<usize, String>, BadBytes> {
    const EXPECTED: &str = "a content or why there is none";
    let offset = r.position();
    match r.byte(EXPECTED)? {
        1 => len(r).map(Ok),
        0 => Ok(Err(r.text()?.to_owned())),
        _ => Err(BadBytes { expected: EXPECTED, offset }),
    }
}
