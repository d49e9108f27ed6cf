//! What every decoder of the journal's files must keep, whatever bytes it is given.
//!
//! A checksum stands before each of them, which random bytes never match. So each is tried twice:
//! on the bytes as they are, and with the checksum that they would have needed.

use std::io::{self, IoSlice};

use super::check::Visitor;
use super::disk::DiskFile;
use super::frame::{self, FRAME_HEADER_BYTES, FrameKey, u32_at, u64_at};
use super::names::Name;
use super::segment::{self, UnitHeader};
use super::snapshot::{self, SNAPSHOT_HEADER_BYTES, SnapshotHeader};
use crate::journal::{FrameNumber, Prepared};

fn key() -> FrameKey {
    FrameKey::of(&unit())
}

fn unit() -> UnitHeader {
    UnitHeader {
        number: 7,
        incarnation: 3,
        file_bytes: 1 << 20,
        salt: 0x5a17,
        zero_filled: true,
        first_after: None,
    }
}

/// A frame.
pub fn frame(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    mend_frame(&mut mended);
    for bytes in [bytes, &mended] {
        let Some(found) = frame::decode(bytes, key()) else { continue };
        let header = frame::header(key(), found.number, found.flushed, found.payload);
        assert_eq!(header, bytes[..FRAME_HEADER_BYTES], "a frame has one form");
    }
}

/// The header of a unit.
pub fn unit_header(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    mend_head(&mut mended, 64);
    for bytes in [bytes, &mended] {
        let Ok(header) = UnitHeader::decode(bytes) else { continue };
        let again = UnitHeader::decode(&header.encode()).expect("what was written is read");
        assert_eq!(again, header);
    }
}

/// A whole snapshot.
pub fn snapshot(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    mend_snapshot(&mut mended);
    for bytes in [bytes, &mended] {
        let mut blocks = Blocks(Vec::new());
        let Ok(read) = snapshot::read(&File(bytes.to_vec()), &mut blocks) else { continue };
        let again = whole_snapshot(&read.header, &blocks.0, read.end_frame);
        let mut blocks_again = Blocks(Vec::new());
        let read_again =
            snapshot::read(&File(again), &mut blocks_again).expect("as it was written");
        assert_eq!(blocks.0, blocks_again.0);
        assert_eq!(
            (read.end_frame, read.blocks, read.header.start),
            (read_again.end_frame, read_again.blocks, read_again.header.start)
        );
    }
}

fn whole_snapshot(header: &SnapshotHeader, blocks: &[Vec<u8>], end_frame: u64) -> Vec<u8> {
    let mut out = header.encode();
    for (index, block) in blocks.iter().enumerate() {
        snapshot::encode_block(&mut out, index as u64, block);
    }
    snapshot::encode_footer(&mut out, blocks.len() as u64, end_frame);
    out
}

/// The name of a file.
pub fn name(bytes: &[u8]) {
    Name::parse(&String::from_utf8_lossy(bytes));
}

/// Real ones to begin with: a frame, the header of a unit, a snapshot.
pub fn seeds() -> [Vec<u8>; 3] {
    let payload = b"a batch of changes";
    let mut frame = frame::header(key(), 12, 11, payload).to_vec();
    frame.extend_from_slice(payload);
    frame.extend_from_slice(frame::padding(payload.len()));
    let start = segment::Position { unit: 7, offset: 4096, next_frame: 12 };
    let mut first = unit();
    first.first_after = Some(start);
    let header = SnapshotHeader { number: 2, incarnation: 3, start };
    let blocks = [b"one block".to_vec(), Vec::new(), vec![7; 300]];
    // The rest of a unit's header is room for later.
    let mut unit = first.encode();
    unit.truncate(128);
    [frame, unit, whole_snapshot(&header, &blocks, 40)]
}

fn mend_frame(bytes: &mut [u8]) {
    let Some(len) = frame::claimed_len(bytes, key()) else { return };
    let Some(payload) = bytes[FRAME_HEADER_BYTES..].get(..len) else { return };
    let header = frame::header(key(), u64_at(bytes, 16), u64_at(bytes, 24), payload);
    bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
}

/// The checksum of a header of so many bytes stands behind it.
fn mend_head(bytes: &mut [u8], len: usize) {
    if bytes.len() >= len + 4 {
        let crc = crc32c::crc32c(&bytes[..len]);
        bytes[len..len + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

fn mend_snapshot(bytes: &mut [u8]) {
    mend_head(bytes, 56);
    let mut at = SNAPSHOT_HEADER_BYTES;
    while let Some(head) = bytes.get(at..at + 16) {
        let (len, index) = (u32_at(head, 0), u64_at(head, 8));
        let is_footer = len == u32::MAX;
        let end = (at + 16).saturating_add(if is_footer { 8 } else { len as usize });
        let Some(block) = bytes.get(at + 16..end) else { return };
        let mut part = Vec::new();
        if is_footer {
            snapshot::encode_footer(&mut part, index, u64_at(block, 0));
        } else {
            snapshot::encode_block(&mut part, index, block);
        }
        bytes[at + 4..at + 8].copy_from_slice(&part[4..8]);
        at = end;
    }
}

struct Blocks(Vec<Vec<u8>>);

impl Visitor for Blocks {
    fn block(&mut self, _: u64, block: &[u8]) -> Result<(), String> {
        self.0.push(block.to_vec());
        Ok(())
    }

    fn frame(&mut self, _: Prepared, _: FrameNumber, _: &[u8]) -> Result<(), String> {
        unreachable!("a snapshot has no frames")
    }
}

/// A file that can only be read.
#[derive(Debug)]
struct File(Vec<u8>);

impl DiskFile for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let n = bytes.len().min(self.0.len() - from);
        bytes[..n].copy_from_slice(&self.0[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
