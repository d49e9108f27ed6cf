//! The snapshot under way, and the one before it.

use std::io;
use std::sync::Arc;

use super::disk::is_full;
use super::job::FileJob;
use super::segment::Position;
use super::snapshot::{SnapshotHeader, SnapshotRead};
use super::snapshot_writer::SnapshotWriter;
use super::store::Store;
use crate::journal::Block;

#[derive(Debug)]
pub(super) struct Snapshotting {
    store: Arc<Store>,
    incarnation: u64,
    /// The newest one in the folder.
    last: Option<SnapshotHeader>,
    last_bytes: u64,
    /// Appended since the last one's start.
    appended_bytes: u64,
    number: u64,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    header: SnapshotHeader,
    /// `appended_bytes` when it began.
    appended_bytes: u64,
    blocks: Vec<Box<dyn Block>>,
    writer: Option<SnapshotWriter>,
    /// A job has the writer.
    out: bool,
    end_frame: Option<u64>,
    /// Complete on disk, only its name is missing.
    finished: bool,
}

impl Snapshotting {
    pub(super) fn new(
        store: Arc<Store>,
        incarnation: u64,
        last: Option<&SnapshotRead>,
        appended_bytes: u64,
    ) -> Self {
        Self {
            store,
            incarnation,
            last: last.map(|read| read.header.clone()),
            last_bytes: last.map_or(0, |read| read.bytes),
            appended_bytes,
            number: last.map_or(1, |read| read.header.number + 1),
            under_way: None,
        }
    }

    /// Units before this one are not replayed.
    pub(super) fn start_unit(&self) -> u64 {
        self.last.as_ref().map_or(0, |header| header.start.unit)
    }

    pub(super) fn room_bytes(&self) -> u64 {
        self.last_bytes + self.last_bytes / 4 + self.store.options.snapshot_room_bytes
    }

    pub(super) fn note_appended(&mut self, bytes: u64) {
        self.appended_bytes += bytes;
    }

    /// So much is appended between two.
    pub(super) fn after_bytes(&self) -> u64 {
        self.store.options.snapshot_after_bytes.max(12 * self.last_bytes)
    }

    pub(super) fn is_worth_it(&self, frees_units: bool) -> bool {
        self.under_way.is_none() && (self.appended_bytes >= self.after_bytes() || frees_units)
    }

    pub(super) fn begin(&mut self, start: Position) {
        assert!(self.under_way.is_none(), "one snapshot at a time");
        let header = SnapshotHeader { number: self.number, incarnation: self.incarnation, start };
        self.number += 1;
        self.under_way = Some(UnderWay {
            header,
            appended_bytes: self.appended_bytes,
            blocks: Vec::new(),
            writer: None,
            out: false,
            end_frame: None,
            finished: false,
        });
    }

    /// Ignored if the snapshot was given up for want of space.
    pub(super) fn block(&mut self, block: Box<dyn Block>) {
        if let Some(under_way) = &mut self.under_way {
            under_way.blocks.push(block);
        }
    }

    pub(super) fn end(&mut self, end_frame: u64) {
        if let Some(under_way) = &mut self.under_way {
            under_way.end_frame = Some(end_frame);
        }
    }

    /// True between the begin and the first piece's return.
    pub(super) fn is_beginning(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.writer.is_none())
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn blocks_waiting(&self) -> usize {
        self.under_way.as_ref().map_or(0, |under_way| under_way.blocks.len())
    }

    pub(super) fn next_job(&mut self, flushed: u64) -> Option<FileJob> {
        let under_way = self.under_way.as_mut()?;
        if under_way.out {
            return None;
        }
        if under_way.finished {
            if under_way.end_frame.is_none_or(|end| flushed < end) {
                return None;
            }
            under_way.out = true;
            let previous = self.last.as_ref().map(|header| header.number);
            return under_way.writer.take().map(|writer| FileJob::Publish { writer, previous });
        }
        if under_way.blocks.is_empty() && under_way.end_frame.is_none() {
            return None;
        }
        under_way.out = true;
        under_way.finished = under_way.end_frame.is_some();
        Some(FileJob::Write {
            store: self.store.clone(),
            header: under_way.header.clone(),
            writer: under_way.writer.take(),
            blocks: std::mem::take(&mut under_way.blocks),
            end_frame: under_way.end_frame,
        })
    }

    /// Takes a written piece; gives back an error that is more than want of space.
    pub(super) fn written(&mut self, result: io::Result<SnapshotWriter>) -> Option<io::Error> {
        match result {
            Ok(writer) => {
                if let Some(under_way) = &mut self.under_way {
                    under_way.writer = Some(writer);
                    under_way.out = false;
                }
                None
            }
            Err(e) => {
                self.under_way = None;
                (!is_full(&e)).then_some(e)
            }
        }
    }

    pub(super) fn published(&mut self, result: io::Result<u64>) -> Option<io::Error> {
        let under_way = self.under_way.take()?;
        match result {
            Ok(bytes) => {
                self.appended_bytes -= under_way.appended_bytes;
                self.last = Some(under_way.header);
                self.last_bytes = bytes;
                None
            }
            Err(e) => Some(e),
        }
    }
}
