//! Contents on their way out: a bounded memory, and windows onto the journal for the rest.
//!
//! A queue that keeps up is served from memory. A deep backlog is read in its order of arrival,
//! so one read of a window serves the next thousand messages.

use std::collections::VecDeque;
use std::ops::Range;

use bellwether_core::content::{ContentId, Place};
use bellwether_core::table::Table;
use bytes::Bytes;

use crate::journal::{Journal, JournalFault};

/// Bytes before a content that hold its checksum.
pub(crate) const CHECKSUM_BYTES: u32 = 4;
const WINDOW_BYTES: u32 = 256 * 1024;
const WINDOWS: usize = 4;
/// A queue gives out the oldest first, so when there is no room the newest is not kept: it is
/// needed last. But one in so many pushes out the oldest, or queues that nobody reads would fill
/// the memory for good.
const OLD_EVERY: u64 = 8;
/// How often a read is tried before it is reported. Without a pause, for the writer waits for it:
/// longer troubles are waited for by the receivers.
const READ_TRIES: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bodies {
    /// Contents of the frame being filled, which are not in the journal yet, by id.
    unsealed: Vec<(ContentId, Bytes)>,
    kept: Table<Bytes>,
    /// Bytes of what is kept.
    bytes: usize,
    /// `None`: everything is kept until it is dropped, because there is no journal to read from.
    bytes_max: Option<usize>,
    /// How often there was no room.
    misfits: u64,
    windows: VecDeque<Window>,
}

enum Found {
    Kept(Bytes),
    /// This part of what was copied.
    Copied(Range<usize>),
}

#[derive(Debug)]
struct Window {
    unit: u64,
    offset: u32,
    bytes: Vec<u8>,
}

impl Bodies {
    pub(crate) fn new(bytes_max: Option<usize>) -> Self {
        Self {
            unsealed: Vec::new(),
            kept: Table::default(),
            bytes: 0,
            bytes_max,
            misfits: 0,
            windows: VecDeque::new(),
        }
    }

    pub(crate) fn insert(&mut self, id: ContentId, body: Bytes) {
        if self.bytes_max.is_some() {
            self.unsealed.push((id, body));
        } else {
            self.kept.insert(id.0, body);
        }
    }

    /// The frame was appended: of what is in it, as much is kept as there is room for.
    pub(crate) fn sealed(&mut self) {
        let bytes_max = self.bytes_max.unwrap_or(usize::MAX);
        for (id, body) in std::mem::take(&mut self.unsealed) {
            if self.bytes + body.len() > bytes_max {
                self.misfits += 1;
                if !self.misfits.is_multiple_of(OLD_EVERY) {
                    continue;
                }
                self.evict(body.len());
            }
            self.bytes += body.len();
            self.kept.insert(id.0, body);
        }
    }

    /// Lets go of the oldest, at least so many bytes of it.
    fn evict(&mut self, bytes: usize) {
        let until = self.bytes.saturating_sub(bytes);
        while self.bytes > until {
            let Some(oldest) = self.kept.range(0).next().map(|(id, _)| id) else { return };
            self.remove(ContentId(oldest));
        }
    }

    pub(crate) fn remove(&mut self, id: ContentId) {
        if let Some(body) = self.kept.remove(id.0) {
            self.bytes = self.bytes.saturating_sub(body.len());
        } else if let Ok(index) = self.find_unsealed(id) {
            self.unsealed.remove(index);
        }
    }

    /// Ids come in order.
    fn find_unsealed(&self, id: ContentId) -> Result<usize, usize> {
        self.unsealed.binary_search_by_key(&id, |(id, _)| *id)
    }

    /// One content, checked.
    pub(crate) fn get(
        &mut self,
        id: ContentId,
        place: Place,
        journal: Option<&dyn Journal>,
    ) -> Result<Bytes, String> {
        let mut found = self.get_all(std::iter::once((id, place)), journal);
        found.pop().expect("one answer for one question")
    }

    /// Contents, checked. What must be read is copied side by side into one piece of memory.
    pub(crate) fn get_all(
        &mut self,
        wanted: impl Iterator<Item = (ContentId, Place)>,
        journal: Option<&dyn Journal>,
    ) -> Vec<Result<Bytes, String>> {
        let mut copies = Vec::new();
        let found: Vec<Result<Found, String>> = wanted
            .map(|(id, place)| {
                if let Some(body) = self.in_memory(id) {
                    return Ok(Found::Kept(body));
                }
                let start = copies.len();
                copies.extend_from_slice(self.read(place, journal)?);
                Ok(Found::Copied(start..copies.len()))
            })
            .collect();
        let copies = Bytes::from(copies);
        let bytes = |found| match found {
            Found::Kept(body) => body,
            Found::Copied(range) => copies.slice(range),
        };
        found.into_iter().map(|found| found.map(bytes)).collect()
    }

    fn in_memory(&self, id: ContentId) -> Option<Bytes> {
        let unsealed = || self.find_unsealed(id).ok().map(|index| &self.unsealed[index].1);
        self.kept.get(id.0).or_else(unsealed).cloned()
    }

    fn read(&mut self, place: Place, journal: Option<&dyn Journal>) -> Result<&[u8], String> {
        let Some(journal) = journal else { return Err("it is not in memory any more".into()) };
        let from = place.offset - CHECKSUM_BYTES;
        let wanted = place.len + CHECKSUM_BYTES;
        let found = self.windows.iter().position(|window| window.covers(place.unit, from, wanted));
        let index = if let Some(index) = found {
            index
        } else {
            self.read_window(place.unit, from, wanted, journal)?;
            self.windows.len() - 1
        };
        let window = &self.windows[index];
        let start = (from - window.offset) as usize;
        let (checksum, body) =
            window.bytes[start..start + wanted as usize].split_at(CHECKSUM_BYTES as usize);
        if crc32c::crc32c(body).to_le_bytes() != checksum {
            return Err(format!(
                "its checksum does not fit, unit {:016x} byte {}",
                place.unit, place.offset
            ));
        }
        Ok(body)
    }

    fn read_window(
        &mut self,
        unit: u64,
        offset: u32,
        wanted: u32,
        journal: &dyn Journal,
    ) -> Result<(), String> {
        let mut len = wanted.max(WINDOW_BYTES);
        let mut failures = 0;
        let bytes = loop {
            // Asked for anew each time: it may be the opening that failed.
            let reader = journal
                .reader(unit)
                .ok_or_else(|| format!("unit {unit:016x} of the journal is missing"))?;
            match reader.read(Place { unit, offset, len }) {
                Ok(bytes) => break bytes,
                Err(fault @ JournalFault::Unreadable { .. }) => {
                    failures += 1;
                    if failures == READ_TRIES {
                        return Err(fault.to_string());
                    }
                    // What cannot be read may lie behind what is wanted.
                    len = wanted;
                }
                Err(fault) if len == wanted => return Err(fault.to_string()),
                // The unit ends before the window does.
                Err(_) => len = wanted.max(len / 2),
            }
        };
        if self.windows.len() == WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(Window { unit, offset, bytes });
        Ok(())
    }

    /// What was read of the unit being written is no longer all of it.
    pub(crate) fn forget_window(&mut self, unit: u64) {
        self.windows.retain(|window| window.unit != unit);
    }
}

impl Window {
    fn covers(&self, unit: u64, offset: u32, len: u32) -> bool {
        self.unit == unit
            && offset >= self.offset
            && u64::from(offset - self.offset) + u64::from(len) <= self.bytes.len() as u64
    }
}
