//! Reads a backup from its beginning to its end, checking every byte.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::block::{BLOCK_HEADER_BYTES, Kind, MAGIC, START_BYTES, checksum};
use super::{FORMAT, Head, RestoreFault};

/// A backup, open for reading.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    file: BufReader<File>,
    len: u64,
    /// Where the next block begins.
    at: u64,
    index: u64,
}

/// A block that checked out.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) index: u64,
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) kind: Kind,
    /// What stands behind the kind.
    pub(super) bytes: Vec<u8>,
}

impl Block {
    /// Where [`Block::bytes`] begin in the file.
    pub(super) fn bytes_at(&self) -> u64 {
        self.offset + BLOCK_HEADER_BYTES as u64 + 1
    }

    /// The number at the front, and what stands behind it.
    pub(super) fn numbered(&self) -> Option<(u64, &[u8])> {
        self.bytes.split_first_chunk().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
    }
}

impl Source {
    /// Opens a backup, and reads what it says of itself.
    pub(super) fn open(path: &Path) -> Result<(Self, Head), RestoreFault> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(RestoreFault::io(format!("read {name}")))?;
        if !metadata.is_file() {
            return Err(RestoreFault::NotABackup { file: name });
        }
        let file = BufReader::with_capacity(1 << 16, file);
        let mut source = Self { name, file, len: metadata.len(), at: 0, index: 0 };
        if source.len < START_BYTES as u64 {
            return Err(RestoreFault::NotABackup { file: source.name });
        }
        let start: [u8; START_BYTES] = source.take()?;
        let (magic, format) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(RestoreFault::NotABackup { file: source.name });
        }
        let found = format.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        if found != FORMAT {
            return Err(RestoreFault::UnknownVersion { file: source.name, found });
        }
        let block = source.next()?;
        let head = Head::get(&block.bytes).ok().filter(|_| block.kind == Kind::Head);
        let head =
            head.ok_or_else(|| source.damaged(block.offset, "it does not begin with its head"))?;
        Ok((source, head))
    }

    /// The next block. That the file ends before its end block is damage.
    pub(super) fn next(&mut self) -> Result<Block, RestoreFault> {
        let offset = self.at;
        if self.left() < BLOCK_HEADER_BYTES as u64 + 1 {
            return Err(self.damaged(offset, "it ends here, before its end; it was cut off"));
        }
        let header: [u8; BLOCK_HEADER_BYTES] = self.take()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let (len, crc) = (word(0), word(4));
        let index = u64::from(word(12)) << 32 | u64::from(word(8));
        if u64::from(len) > self.left() {
            let what = format!("a block of {len} bytes of which {} are there", self.left());
            return Err(self.damaged(offset, what));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        if crc != checksum(len, index, std::iter::once(bytes.as_slice())) {
            return Err(self.damaged(offset, format!("block {} does not check", self.index)));
        }
        if index != self.index {
            let what = format!("block {index} where block {} should be", self.index);
            return Err(self.damaged(offset, what));
        }
        self.index += 1;
        let kind = bytes.first().copied().and_then(Kind::of);
        let kind = kind.ok_or_else(|| self.damaged(offset, "a block of an unknown kind"))?;
        bytes.remove(0);
        Ok(Block { index, offset, kind, bytes })
    }

    /// Bytes that are not read yet.
    pub(super) fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    /// How far it was read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads again what was read before.
    pub(super) fn again(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), RestoreFault> {
        let sought = self.file.seek(SeekFrom::Start(offset)).map(|_| ());
        sought.map_err(|e| self.unreadable(e))?;
        self.fill(bytes)
    }

    pub(super) fn damaged(&self, offset: u64, what: impl Into<String>) -> RestoreFault {
        RestoreFault::Damaged { file: self.name.clone(), offset, what: what.into() }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RestoreFault> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RestoreFault> {
        self.file.read_exact(bytes).map_err(|e| self.unreadable(e))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn unreadable(&self, cause: io::Error) -> RestoreFault {
        RestoreFault::Io { what: format!("read {}", self.name), cause }
    }
}
