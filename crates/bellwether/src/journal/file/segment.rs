//! A unit: one preallocated file, a header block of 4096 bytes, then frames.
//!
//! ```text
//! 0      8        12    16      24           32          36     40          48            56          64
//! │magic │version │kind │number │incarnation │file_bytes │salt  │after_unit │after_offset │next_frame │crc
//! ```
//!
//! These 68 bytes keep their layout in every later format, so that a newer format is told from
//! damage.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bellwether_core::content::Place;

use super::FORMAT;
use super::disk::{Access, DiskFile, read_full};
use super::frame::{u32_at, u64_at};
use super::names;
use super::store::Store;
use crate::journal::{JournalFault, Read};

pub(super) const UNIT_HEADER_BYTES: u32 = 4096;
const MAGIC: [u8; 8] = *b"BWunit\r\n";
const CRC_AT: usize = 64;
const FLAG_FIRST: u32 = 1;
const FLAG_ZERO_FILLED: u32 = 2;

/// A point between two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) unit: u64,
    pub(super) offset: u32,
    /// Number of the frame that comes next.
    pub(super) next_frame: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitHeader {
    pub(super) number: u64,
    pub(super) incarnation: u64,
    pub(super) file_bytes: u32,
    pub(super) salt: u32,
    /// False if frames of an earlier use may lie behind ours.
    pub(super) zero_filled: bool,
    /// For the first unit of a life: where the earlier life was cut.
    pub(super) first_after: Option<Position>,
}

/// Why a header was not understood.
#[derive(Debug)]
pub(super) enum HeaderFault {
    Damaged(&'static str),
    UnknownVersion(u32),
}

impl UnitHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(UNIT_HEADER_BYTES as usize);
        let none = Position { unit: 0, offset: 0, next_frame: 0 };
        let after = self.first_after.unwrap_or(none);
        let flags = if self.first_after.is_some() { FLAG_FIRST } else { 0 }
            | if self.zero_filled { FLAG_ZERO_FILLED } else { 0 };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&after.unit.to_le_bytes());
        out.extend_from_slice(&u64::from(after.offset).to_le_bytes());
        out.extend_from_slice(&after.next_frame.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.resize(UNIT_HEADER_BYTES as usize, 0);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        if bytes.len() < CRC_AT + 4 || bytes[..8] != MAGIC {
            return Err(HeaderFault::Damaged("this is not the header of a unit"));
        }
        let sound = u32_at(bytes, CRC_AT) == crc32c::crc32c(&bytes[..CRC_AT]);
        let version = u32_at(bytes, 8);
        if !sound {
            return Err(HeaderFault::Damaged("the unit's header does not match its checksum"));
        }
        if version != FORMAT {
            return Err(HeaderFault::UnknownVersion(version));
        }
        let flags = u32_at(bytes, 12);
        let after = Position {
            unit: u64_at(bytes, 40),
            offset: u64_at(bytes, 48) as u32,
            next_frame: u64_at(bytes, 56),
        };
        Ok(Self {
            number: u64_at(bytes, 16),
            incarnation: u64_at(bytes, 24),
            file_bytes: u32_at(bytes, 32),
            salt: u32_at(bytes, 36),
            zero_filled: flags & FLAG_ZERO_FILLED != 0,
            first_after: (flags & FLAG_FIRST != 0).then_some(after),
        })
    }
}

/// An open unit. Whoever holds it keeps reading its bytes, whatever becomes of the name.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) header: UnitHeader,
    pub(super) file: Arc<dyn DiskFile>,
}

impl Read for Unit {
    fn read(&self, place: Place) -> Result<Vec<u8>, JournalFault> {
        let mut bytes = vec![0; place.len as usize];
        let name = || names::unit(self.header.number);
        match read_full(&*self.file, &mut bytes, u64::from(place.offset)) {
            Ok(n) if n == bytes.len() => Ok(bytes),
            Ok(n) => Err(JournalFault::Damaged {
                file: name(),
                offset: u64::from(place.offset) + n as u64,
                what: "the file ends inside a content".into(),
            }),
            Err(e) => Err(JournalFault::Unreadable { file: name(), cause: e.to_string() }),
        }
    }
}

/// A unit the journal keeps. It is open only while somebody reads it, so that a large store does
/// not need a file descriptor per unit.
#[derive(Debug)]
pub(super) struct KeptUnit {
    pub(super) header: UnitHeader,
    open: Mutex<Weak<Unit>>,
}

impl KeptUnit {
    pub(super) fn closed(header: UnitHeader) -> Self {
        Self { header, open: Mutex::new(Weak::new()) }
    }

    pub(super) fn opened(unit: &Arc<Unit>) -> Self {
        Self { header: unit.header.clone(), open: Mutex::new(Arc::downgrade(unit)) }
    }

    pub(super) fn unit(&self, store: &Store) -> io::Result<Arc<Unit>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = open.upgrade() {
            return Ok(unit);
        }
        let path = store.path(&names::unit(self.header.number));
        let file = store.disk.open(&path, Access::Read)?;
        let unit = Arc::new(Unit { header: self.header.clone(), file });
        *open = Arc::downgrade(&unit);
        Ok(unit)
    }

    /// True while somebody holds the unit open. Once false and out of the journal's list, it
    /// stays false: only the list gives out new holds.
    pub(super) fn is_held(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0
    }
}
