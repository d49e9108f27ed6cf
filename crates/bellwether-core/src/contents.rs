//! All contents: how often each is referred to and where it lies.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::content::{ContentId, Place};
use crate::table::Table;

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    /// One more than refer to it: so that an empty slot of the table needs no room to say so.
    references: NonZeroU32,
}

/// Nobody refers to it yet.
const UNREFERENCED: NonZeroU32 = NonZeroU32::MIN;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    table: Table<Entry>,
    next: u64,
    /// Bytes still referred to, by unit.
    live: BTreeMap<u64, u64>,
    /// Bytes still referred to whose place is to follow. They lie in no unit yet, so their leaving
    /// empties none.
    unplaced: u64,
    /// Units in which nothing is referred to any more, until somebody asks.
    emptied: Vec<u64>,
}

impl Contents {
    /// A number for a new content.
    pub(crate) fn next_id(&mut self) -> ContentId {
        self.next += 1;
        ContentId(self.next)
    }

    /// The newest number.
    pub(crate) fn last_id(&self) -> ContentId {
        ContentId(self.next)
    }

    /// A content is there; its place may follow later ([`Contents::set_place`]).
    pub(crate) fn set(&mut self, id: ContentId, place: Place) {
        self.next = self.next.max(id.0);
        let new = Entry { place, references: UNREFERENCED };
        match self.table.insert(id.0, new) {
            // It was there: whoever refers to it still does.
            Some(old) if old.references != UNREFERENCED => {
                self.table.insert(id.0, old);
                self.set_place(id, place);
            }
            _ => {}
        }
    }

    /// A content lies there, if it is known.
    pub(crate) fn set_place(&mut self, id: ContentId, place: Place) {
        let Some(entry) = self.table.get_mut(id.0) else { return };
        let old = std::mem::replace(&mut entry.place, place);
        if entry.references != UNREFERENCED {
            self.remove_live(old);
            self.add_live(place);
        }
    }

    /// Where a content lies, if it is known.
    pub(crate) fn place(&self, id: ContentId) -> Option<Place> {
        if id.0 == 0 {
            return None;
        }
        self.table.get(id.0).map(|entry| entry.place)
    }

    /// How long a content is; zero for none.
    pub(crate) fn len(&self, id: ContentId) -> u64 {
        self.place(id).map_or(0, |place| u64::from(place.len))
    }

    /// One more refers to it. Returns how long it is; zero for none.
    pub(crate) fn hold(&mut self, id: ContentId) -> u64 {
        if id.0 == 0 {
            return 0;
        }
        let Some(entry) = self.table.get_mut(id.0) else { return 0 };
        let (was, place) = (entry.references, entry.place);
        entry.references = was.saturating_add(1);
        if was == UNREFERENCED {
            self.add_live(place);
        }
        place.len.into()
    }

    /// One less refers to it. Returns how long it is; names it as dropped if this was the last.
    pub(crate) fn let_go(&mut self, id: ContentId, dropped: &mut Vec<ContentId>) -> u64 {
        if id.0 == 0 {
            return 0;
        }
        let mut len = 0;
        let gone = self.table.remove_if(id.0, |entry| {
            len = entry.place.len;
            let references = NonZeroU32::new(entry.references.get() - 1);
            entry.references = references.expect("somebody holds it");
            entry.references == UNREFERENCED
        });
        if let Some(entry) = gone {
            self.remove_live(entry.place);
            dropped.push(id);
        }
        len.into()
    }

    /// Forgets what nobody refers to; after a replay.
    pub(crate) fn forget_unreferenced(&mut self) {
        let dead: Vec<u64> = self
            .table
            .range(0)
            .filter(|(_, e)| e.references == UNREFERENCED)
            .map(|(id, _)| id)
            .collect();
        for id in dead {
            self.table.remove(id);
        }
    }

    /// Bytes still referred to in a unit.
    pub(crate) fn live_bytes(&self, unit: u64) -> u64 {
        if unit == 0 { self.unplaced } else { self.live.get(&unit).copied().unwrap_or(0) }
    }

    /// Units that have become empty since this was last asked.
    pub(crate) fn take_emptied(&mut self) -> std::vec::Drain<'_, u64> {
        self.emptied.drain(..)
    }

    /// The contents from `id` on, by number.
    pub(crate) fn range(&self, id: u64) -> impl Iterator<Item = (ContentId, Place)> {
        self.table.range(id).map(|(id, entry)| (ContentId(id), entry.place))
    }

    fn add_live(&mut self, place: Place) {
        if place.unit == 0 {
            self.unplaced += u64::from(place.len);
            return;
        }
        *self.live.entry(place.unit).or_default() += u64::from(place.len);
    }

    fn remove_live(&mut self, place: Place) {
        if place.unit == 0 {
            self.unplaced -= u64::from(place.len);
            return;
        }
        if let Some(bytes) = self.live.get_mut(&place.unit) {
            *bytes -= u64::from(place.len);
            if *bytes == 0 {
                self.live.remove(&place.unit);
                self.emptied.push(place.unit);
            }
        }
    }
}
