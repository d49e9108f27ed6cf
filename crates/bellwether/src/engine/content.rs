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

/// One content, or several that lie together.
#[derive(Clone, Debug)]
pub enum Content {
    /// It is in memory.
    Here(Bytes),
    /// These must be read. Boxed, so that one in memory takes no more room here than in a
    /// [`Reply`].
    There(Box<Run>),
    /// There is nothing to read it from; this is why.
    Lost(String),
}

/// Contents that are read at once. The writer puts them together: one owner of what is read from
/// for all of them, instead of one for each that another thread then lets go of.
#[derive(Clone)]
pub struct Run {
    reader: Arc<dyn Read>,
    /// Never empty.
    places: Vec<Place>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Run").field(&self.places).finish()
    }
}

impl Content {
    /// One that must be read.
    pub(crate) fn there(reader: Arc<dyn Read>, place: Place) -> Self {
        Self::There(Box::new(Run { reader, places: vec![place] }))
    }

    /// Takes another one in, if both are best read together.
    pub(crate) fn takes(&mut self, place: Place) -> bool {
        let Self::There(run) = self else { return false };
        let fits = follows(&run.places, place);
        if fits {
            run.places.push(place);
        }
        fits
    }

    fn read(self, found: &mut impl FnMut(Result<Bytes, String>)) {
        match self {
            Self::Here(bytes) => found(Ok(bytes)),
            Self::Lost(what) => found(Err(what)),
            Self::There(run) => read_run(&*run.reader, &run.places, found),
        }
    }

    /// Reads it, if it must be read; the first of several.
    pub fn read_one(self) -> Result<Bytes, String> {
        let mut first = None;
        self.read(&mut |content| {
            first.get_or_insert(content);
        });
        first.expect("a run is never empty")
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
    if !contents.iter().any(|content| matches!(content, Content::There(_))) {
        // In place: nothing is allocated for what is nearly every answer.
        return contents.map(Content::read_one);
    }
    let mut all = Few::default();
    for content in contents {
        content.read(&mut |content| all.push(content));
    }
    all
}

/// Whether a content is best read together with those before it.
fn follows(run: &[Place], next: Place) -> bool {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
    let end = last.offset + last.len;
    next.unit == last.unit
        && (end..=end + GAP_MAX).contains(&next.offset)
        && next.offset + next.len - first.offset <= RUN_BYTES_MAX
}

fn read_run(reader: &dyn Read, run: &[Place], found: &mut impl FnMut(Result<Bytes, String>)) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    let offset = first.offset - CHECKSUM_BYTES;
    let place = Place { offset, len: last.offset + last.len - offset, ..*first };
    match read(reader, place) {
        Ok(bytes) => {
            let bytes = Bytes::from(bytes);
            for place in run {
                found(check(&bytes, offset, *place));
            }
        }
        // What cannot be read may be another's.
        Err(_) if run.len() > 1 => {
            for place in run {
                read_run(reader, &[*place], found);
            }
        }
        Err(fault) => found(Err(fault.to_string())),
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
