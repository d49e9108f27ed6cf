//! Contents on their way out: a bounded memory, and windows onto the journal for the rest.
//!
//! A queue that keeps up is served from memory. A deep backlog is read in its order of arrival,
//! so one read of a window serves the next thousand messages.

use std::collections::VecDeque;

use bellwether_core::content::{ContentId, Place};
use bellwether_core::fixed::FixedMap;
use bytes::Bytes;

use crate::journal::{Journal, JournalFault};

/// Bytes before a content that hold its checksum.
pub(crate) const CHECKSUM_BYTES: u32 = 4;
const WINDOW_BYTES: u32 = 256 * 1024;
const WINDOWS: usize = 4;
/// A queue gives out the oldest first, so in a full memory the newest goes: it is needed last.
/// But one in so many is the oldest, or queues that nobody reads would fill it for good.
const OLD_EVERY: u64 = 8;
/// How often a read is tried before it is reported. Without a pause, for the writer waits for it:
/// longer troubles are waited for by the receivers.
const READ_TRIES: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bodies {
    recent: FixedMap<ContentId, Bytes>,
    order: VecDeque<(ContentId, usize)>,
    bytes: usize,
    /// `None`: everything is kept until it is dropped, because there is no journal to read from.
    bytes_max: Option<usize>,
    windows: VecDeque<Window>,
    evictions: u64,
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
            recent: FixedMap::default(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            windows: VecDeque::new(),
            evictions: 0,
        }
    }

    pub(crate) fn insert(&mut self, id: ContentId, body: Bytes) {
        self.bytes += body.len();
        if self.bytes_max.is_some() {
            self.order.push_back((id, body.len()));
        }
        self.recent.insert(id, body);
    }

    /// Makes room, sparing contents that are not in the journal yet. Call between frames.
    pub(crate) fn trim(&mut self) {
        let Some(max) = self.bytes_max else { return };
        while self.bytes > max {
            self.evictions += 1;
            let evicted = match self.evictions % OLD_EVERY {
                0 => self.order.pop_front(),
                _ => self.order.pop_back(),
            };
            let Some((id, _)) = evicted else { return };
            self.remove(id);
        }
        // Dropped contents leave their names behind; forget them when they are the majority.
        if self.order.len() > 2 * self.recent.len() + 1024 {
            self.order.retain(|(id, _)| self.recent.get(id).is_some());
        }
    }

    pub(crate) fn remove(&mut self, id: ContentId) {
        if let Some(body) = self.recent.remove(&id) {
            self.bytes -= body.len();
        }
    }

    /// The content, checked.
    pub(crate) fn get(
        &mut self,
        id: ContentId,
        place: Place,
        journal: Option<&dyn Journal>,
    ) -> Result<Bytes, String> {
        if let Some(body) = self.recent.get(&id) {
            return Ok(body.clone());
        }
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
        Ok(Bytes::copy_from_slice(body))
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
