//! A snapshot file: a header, blocks, a footer.
//!
//! ```text
//! header  │magic 8 │version 4 │0 4 │number 8 │incarnation 8 │unit 8 │offset 8 │next_frame 8 │crc 4 │0 4
//! block   │len 4   │crc 4     │index 8 │bytes …
//! footer  │ffffffff│crc 4     │blocks 8│end_frame 8
//! ```
//!
//! Unit, offset and next frame say where replay starts. The end frame was durable before the
//! snapshot got its name. The first 60 bytes keep their layout in every later format.

use std::io;

use super::FORMAT;
use super::check::Visitor;
use super::disk::{DiskFile, read_full};
use super::frame::{u32_at, u64_at};
use super::segment::{HeaderFault, Position};

pub(super) const SNAPSHOT_HEADER_BYTES: usize = 64;
const BLOCK_HEADER_BYTES: usize = 16;
const MAGIC: [u8; 8] = *b"BWsnap\r\n";
const CRC_AT: usize = 56;
const FOOTER: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct SnapshotHeader {
    pub(super) number: u64,
    pub(super) incarnation: u64,
    pub(super) start: Position,
}

/// What a whole snapshot says of itself.
#[derive(Clone, Debug)]
pub(super) struct SnapshotRead {
    pub(super) header: SnapshotHeader,
    pub(super) end_frame: u64,
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

/// Why a snapshot could not be read.
#[derive(Debug)]
pub(super) enum SnapshotFault {
    Header(HeaderFault),
    Damaged { offset: u64, what: String },
    Io(io::Error),
}

impl SnapshotHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SNAPSHOT_HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&0_u32.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.start.unit.to_le_bytes());
        out.extend_from_slice(&u64::from(self.start.offset).to_le_bytes());
        out.extend_from_slice(&self.start.next_frame.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.resize(SNAPSHOT_HEADER_BYTES, 0);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        if bytes.len() < SNAPSHOT_HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(HeaderFault::Damaged("this is not the header of a snapshot"));
        }
        if u32_at(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err(HeaderFault::Damaged("the snapshot's header does not match its checksum"));
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT {
            return Err(HeaderFault::UnknownVersion(version));
        }
        Ok(Self {
            number: u64_at(bytes, 16),
            incarnation: u64_at(bytes, 24),
            start: Position {
                unit: u64_at(bytes, 32),
                offset: u64_at(bytes, 40) as u32,
                next_frame: u64_at(bytes, 48),
            },
        })
    }
}

/// Appends one block to `out`.
pub(super) fn encode_block(out: &mut Vec<u8>, index: u64, block: &[u8]) {
    encode_part(out, block.len() as u32, index, block);
}

/// Appends the footer to `out`.
pub(super) fn encode_footer(out: &mut Vec<u8>, blocks: u64, end_frame: u64) {
    encode_part(out, FOOTER, blocks, &end_frame.to_le_bytes());
}

fn encode_part(out: &mut Vec<u8>, len: u32, index: u64, bytes: &[u8]) {
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&checksum(len, index, bytes).to_le_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn checksum(len: u32, index: u64, bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&len.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &index.to_le_bytes());
    crc32c::crc32c_append(crc, bytes)
}

/// Reads a snapshot from end to end; `visitor` gets every block and may say what is wrong with it.
pub(super) fn read(
    file: &dyn DiskFile,
    visitor: &mut dyn Visitor,
) -> Result<SnapshotRead, SnapshotFault> {
    let mut head = [0; SNAPSHOT_HEADER_BYTES];
    let n = read_full(file, &mut head, 0).map_err(SnapshotFault::Io)?;
    let header = SnapshotHeader::decode(&head[..n]).map_err(SnapshotFault::Header)?;
    let file_bytes = file.len().map_err(SnapshotFault::Io)?;
    let mut offset = SNAPSHOT_HEADER_BYTES as u64;
    let mut block = Vec::new();
    let mut index = 0;
    loop {
        let damaged = |what: &str| SnapshotFault::Damaged { offset, what: what.into() };
        let mut part = [0; BLOCK_HEADER_BYTES];
        if read_full(file, &mut part, offset).map_err(SnapshotFault::Io)? < part.len() {
            return Err(damaged("the snapshot ends before its footer"));
        }
        let (len, crc, found) = (u32_at(&part, 0), u32_at(&part, 4), u64_at(&part, 8));
        let bytes = if len == FOOTER { 8 } else { u64::from(len) };
        let end = offset + BLOCK_HEADER_BYTES as u64 + bytes;
        if end > file_bytes {
            return Err(damaged("a block is longer than the snapshot"));
        }
        block.resize(bytes as usize, 0);
        let from = offset + BLOCK_HEADER_BYTES as u64;
        let n = read_full(file, &mut block, from).map_err(SnapshotFault::Io)?;
        if n < block.len() || crc != checksum(len, found, &block) {
            return Err(damaged("a block does not match its checksum"));
        }
        if found != index {
            return Err(damaged("a block is missing or out of order"));
        }
        if len == FOOTER {
            let end_frame = u64_at(&block, 0);
            return Ok(SnapshotRead { header, end_frame, blocks: index, bytes: end });
        }
        visitor.block(index, &block).map_err(|what| SnapshotFault::Damaged { offset, what })?;
        index += 1;
        offset = end;
    }
}
