//! Contents on their way out, in memory or where they can be read.
//!
//! The writer only says where a content lies; whoever hears the answer reads it. A unit that
//! somebody may still read is never written again, so nothing can change under the reader's hands.

use std::sync::Arc;

use bellwether_core::content::Place;
use bellwether_core::few::Few;
use bellwether_core::outcome::Outcome;
use bytes::Bytes;

use super::Reply;
use crate::journal::{JournalFault, Read};

/// Bytes before a content that hold its checksum.
pub(crate) const CHECKSUM_BYTES: u32 = 4;
/// Contents that lie so near to each other are read at once: frames' headers and other changes
/// lie between them.
const GAP_MAX: u32 = 1024;
/// So much is read at once; whoever keeps one of the contents keeps all of it in memory.
const RUN_BYTES_MAX: u32 = 64 * 1024;
/// How often a read is tried before it is reported. Without a pause: longer troubles are waited
/// for by the receivers.
const READ_TRIES: u32 = 3;

/// One content.
#[derive(Clone)]
pub enum Content {
    /// It is in memory.
    Here(Bytes),
    /// It must be read. Boxed, so that one in memory takes no more room here than in a [`Reply`].
    There(Box<(Arc<dyn Read>, Place)>),
    /// There is nothing to read it from; this is why.
    Lost(String),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(bytes) => f.debug_tuple("Here").field(bytes).finish(),
            Self::There(there) => f.debug_tuple("There").field(&there.1).finish_non_exhaustive(),
            Self::Lost(what) => f.debug_tuple("Lost").field(what).finish(),
        }
    }
}

impl Content {
    /// Reads it, if it must be read.
    pub fn read(self) -> Result<Bytes, String> {
        match self {
            Self::Here(bytes) => Ok(bytes),
            Self::Lost(what) => Err(what),
            Self::There(there) => {
                let (reader, place) = *there;
                let mut found = Vec::with_capacity(1);
                read_run(&*reader, &[place], &mut found);
                found.pop().expect("one content for one")
            }
        }
    }
}

/// One answer whose contents may have to be read.
#[derive(Clone, Debug)]
pub struct Unread {
    /// What was done.
    pub outcome: Outcome,
    /// The contents, as in [`Reply`].
    pub contents: Few<Content>,
}

impl From<Reply> for Unread {
    fn from(reply: Reply) -> Self {
        let contents = reply.contents.map(|content| match content {
            Ok(bytes) => Content::Here(bytes),
            Err(why) => Content::Lost(why),
        });
        Self { outcome: reply.outcome, contents }
    }
}

impl Unread {
    /// Reads what must be read.
    pub fn read(self) -> Reply {
        Reply { outcome: self.outcome, contents: read_all(self.contents) }
    }
}

fn read_all(contents: Few<Content>) -> Few<Result<Bytes, String>> {
    if contents.len() < 2 || !contents.iter().any(|content| matches!(content, Content::There(_))) {
        // In place: nothing is allocated for what is nearly every answer.
        return contents.map(Content::read);
    }
    let mut found = Vec::with_capacity(contents.len());
    let mut contents = contents.into_iter().peekable();
    while let Some(content) = contents.next() {
        let Content::There(there) = content else {
            found.push(content.read());
            continue;
        };
        let (reader, first) = *there;
        let mut run = vec![first];
        while let Some(Content::There(there)) =
            contents.next_if(|next| matches!(next, Content::There(next) if follows(&run, next.1)))
        {
            run.push(there.1);
        }
        read_run(&*reader, &run, &mut found);
    }
    found.into()
}

/// Whether a content is best read together with those before it.
fn follows(run: &[Place], next: Place) -> bool {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
    let end = last.offset + last.len;
    next.unit == last.unit
        && (end..=end + GAP_MAX).contains(&next.offset)
        && next.offset + next.len - first.offset <= RUN_BYTES_MAX
}

fn read_run(reader: &dyn Read, run: &[Place], found: &mut Vec<Result<Bytes, String>>) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    let offset = first.offset - CHECKSUM_BYTES;
    let place = Place { offset, len: last.offset + last.len - offset, ..*first };
    match read(reader, place) {
        Ok(bytes) => {
            let bytes = Bytes::from(bytes);
            found.extend(run.iter().map(|place| check(&bytes, offset, *place)));
        }
        // What cannot be read may be another's.
        Err(_) if run.len() > 1 => {
            for place in run {
                read_run(reader, &[*place], found);
            }
        }
        Err(fault) => found.push(Err(fault.to_string())),
    }
}

fn read(reader: &dyn Read, place: Place) -> Result<Vec<u8>, JournalFault> {
    let mut tries = 1;
    loop {
        match reader.read(place) {
            Err(JournalFault::Unreadable { .. }) if tries < READ_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// The content at `place` out of `bytes`, which were read from `offset` on.
fn check(bytes: &Bytes, offset: u32, place: Place) -> Result<Bytes, String> {
    let start = (place.offset - offset) as usize;
    let checksum = &bytes[start - CHECKSUM_BYTES as usize..start];
    let body = bytes.slice(start..start + place.len as usize);
    if crc32c::crc32c(&body).to_le_bytes() == checksum {
        return Ok(body);
    }
    let Place { unit, offset, .. } = place;
    Err(format!("its checksum does not fit, unit {unit:016x} byte {offset}"))
}
