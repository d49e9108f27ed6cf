//! Writes a snapshot, piece by piece, into the room kept for it, and gives it its name at last.

use std::io;
use std::sync::Arc;

use super::disk::{Access, DiskFile, write_all};
use super::names;
use super::options::SYNC_EVERY_BYTES;
use super::snapshot::{SNAPSHOT_HEADER_BYTES, SnapshotHeader, encode_block, encode_footer};
use super::store::Store;
use crate::journal::Block;

#[derive(Debug)]
pub(super) struct SnapshotWriter {
    store: Arc<Store>,
    file: Arc<dyn DiskFile>,
    header: SnapshotHeader,
    offset: u64,
    synced: u64,
    blocks: u64,
    piece: Vec<u8>,
}

impl SnapshotWriter {
    pub(super) fn create(store: Arc<Store>, header: SnapshotHeader) -> io::Result<Self> {
        let path = store.path(names::ROOM);
        let file = match store.disk.open(&path, Access::Write) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => store.disk.create(&path)?,
            other => other?,
        };
        write_all(&*file, &header.encode(), 0)?;
        let offset = SNAPSHOT_HEADER_BYTES as u64;
        Ok(Self { store, file, header, offset, synced: 0, blocks: 0, piece: Vec::new() })
    }

    pub(super) fn write(&mut self, blocks: Vec<Box<dyn Block>>) -> io::Result<()> {
        for block in blocks {
            self.piece.clear();
            encode_block(&mut self.piece, self.blocks, &block.encode());
            self.blocks += 1;
            self.put_piece()?;
        }
        Ok(())
    }

    /// Nothing follows. `end_frame` is the last frame whose effect a block may hold.
    pub(super) fn finish(&mut self, end_frame: u64) -> io::Result<()> {
        self.piece.clear();
        encode_footer(&mut self.piece, self.blocks, end_frame);
        self.put_piece()?;
        self.file.set_len(self.offset)?;
        self.file.sync_all()
    }

    /// Gives the snapshot its name and takes the previous one away. Only once its end frame is
    /// durable: a block may hold the effect of a frame that a power cut would still undo.
    pub(super) fn publish(&self, previous: Option<u64>) -> io::Result<()> {
        let to = self.store.path(&names::snapshot(self.header.number));
        self.store.disk.rename(&self.store.path(names::ROOM), &to)?;
        self.store.sync_names()?;
        match previous {
            Some(number) => self.store.disk.remove(&self.store.path(&names::snapshot(number))),
            None => Ok(()),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.offset
    }

    fn put_piece(&mut self) -> io::Result<()> {
        write_all(&*self.file, &self.piece, self.offset)?;
        self.offset += self.piece.len() as u64;
        if self.offset - self.synced >= SYNC_EVERY_BYTES {
            self.file.sync_data()?;
            self.synced = self.offset;
        }
        Ok(())
    }
}
