//! Contents in memory: bounded, and where the rest can be read.

use std::sync::Arc;

use bellwether_core::content::{ContentId, Place};
use bellwether_core::few::Few;
use bellwether_core::table::Table;
use bytes::Bytes;

use super::content::Content;
use crate::journal::{Journal, Read};

/// A queue gives out the oldest first, so when there is no room the newest is not kept: it is
/// needed last. But one frame in so many pushes out the oldest, or queues that nobody reads would
/// fill the memory for good. Seldom, because what is pushed out has long left the processor's
/// caches, which costs more than to read a content from the journal's pages; and whole frames,
/// because an allocator can use again what was let go of only where it lies together.
const OLD_EVERY: u64 = 64;

/// See the module.
pub(crate) struct Bodies {
    /// Contents of the frame being filled, which are not in the journal yet, by id.
    unsealed: Vec<(ContentId, Bytes)>,
    kept: Table<Bytes>,
    /// Bytes of what is kept.
    bytes: usize,
    /// `None`: everything is kept until it is dropped, because there is no journal to read from.
    bytes_max: Option<usize>,
    /// Frames for which there was no room.
    misfits: u64,
    /// The unit last read from.
    reader: Option<(u64, Arc<dyn Read>)>,
}

impl Bodies {
    pub(crate) fn new(bytes_max: Option<usize>) -> Self {
        Self {
            unsealed: Vec::new(),
            kept: Table::default(),
            bytes: 0,
            bytes_max,
            misfits: 0,
            reader: None,
        }
    }

    pub(crate) fn insert(&mut self, id: ContentId, body: Bytes) {
        if self.bytes_max.is_some() {
            self.unsealed.push((id, body));
        } else {
            self.keep(id, body);
        }
    }

    fn keep(&mut self, id: ContentId, body: Bytes) {
        self.bytes += body.len();
        self.kept.insert(id.0, body);
    }

    /// The frame was appended: of what is in it, as much is kept as there is room for.
    pub(crate) fn sealed(&mut self) {
        let bytes_max = self.bytes_max.unwrap_or(usize::MAX);
        let pushes_out = (self.misfits + 1).is_multiple_of(OLD_EVERY);
        let mut misfits = 0;
        let mut unsealed = std::mem::take(&mut self.unsealed);
        for (id, body) in unsealed.drain(..) {
            if self.bytes + body.len() > bytes_max {
                misfits = 1;
                if body.len() > bytes_max || !pushes_out {
                    continue;
                }
                self.evict(body.len());
            }
            self.keep(id, body);
        }
        self.unsealed = unsealed;
        self.misfits += misfits;
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
            self.bytes -= body.len();
        } else if let Ok(index) = self.find_unsealed(id) {
            self.unsealed.remove(index);
        }
    }

    /// Ids come in order.
    fn find_unsealed(&self, id: ContentId) -> Result<usize, usize> {
        self.unsealed.binary_search_by_key(&id, |(id, _)| *id)
    }

    /// A content, or where it can be read.
    pub(crate) fn get(
        &mut self,
        id: ContentId,
        place: Place,
        journal: Option<&dyn Journal>,
    ) -> Content {
        match self.here(id) {
            Some(body) => Content::Here(body),
            None => self.there(place, journal),
        }
    }

    /// Contents in their order; what is read from the same place is put together.
    pub(crate) fn get_all(
        &mut self,
        wanted: impl Iterator<Item = (ContentId, Place)>,
        journal: Option<&dyn Journal>,
    ) -> Few<Content> {
        let mut all = Few::default();
        for (id, place) in wanted {
            let content = match self.here(id) {
                Some(body) => Content::Here(body),
                None if all.last_mut().is_some_and(|last: &mut Content| last.takes(place)) => {
                    continue;
                }
                None => self.there(place, journal),
            };
            all.push(content);
        }
        all
    }

    fn here(&self, id: ContentId) -> Option<Bytes> {
        let unsealed = || self.find_unsealed(id).ok().map(|index| &self.unsealed[index].1);
        self.kept.get(id.0).or_else(unsealed).cloned()
    }

    fn there(&mut self, place: Place, journal: Option<&dyn Journal>) -> Content {
        let Some(journal) = journal else {
            return Content::Lost("it is not in memory any more".into());
        };
        if let Some((_, reader)) = self.reader.as_ref().filter(|(unit, _)| *unit == place.unit) {
            return Content::there(Arc::clone(reader), place);
        }
        match journal.reader(place.unit) {
            Ok(Some(reader)) => {
                self.reader = Some((place.unit, Arc::clone(&reader)));
                Content::there(reader, place)
            }
            Ok(None) => {
                Content::Lost(format!("unit {:016x} of the journal is missing", place.unit))
            }
            Err(fault) => Content::Lost(fault.to_string()),
        }
    }

    /// Lets go of what is read from: what somebody may read is not written again.
    pub(crate) fn let_go(&mut self) {
        self.reader = None;
    }
}
