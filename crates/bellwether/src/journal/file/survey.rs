//! First look at a folder: which files are there, and what their headers say.

use std::collections::BTreeMap;
use std::io;

use super::FORMAT;
use super::check::Visitor;
use super::disk::{Access, read_full};
use super::names::{self, Name};
use super::segment::{HeaderFault, UNIT_HEADER_BYTES, UnitHeader};
use super::snapshot::{self, SnapshotFault, SnapshotRead};
use super::store::Store;
use crate::journal::JournalFault;

/// A blank unit.
#[derive(Clone, Debug)]
pub(super) struct Blank {
    pub(super) name: String,
    pub(super) zero_filled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) units: BTreeMap<u64, UnitHeader>,
    /// Ascending; only the last one counts.
    pub(super) snapshots: Vec<u64>,
    pub(super) blanks: Vec<Blank>,
    /// Highest number in the name of a blank made of zeros.
    pub(super) zero_max: u64,
    pub(super) litter: Vec<String>,
    pub(super) cut_files: Vec<String>,
}

impl Survey {
    pub(super) fn take(store: &Store) -> Result<Self, JournalFault> {
        let mut survey = Self::default();
        let mut listed =
            store.disk.list(&store.dir).map_err(|e| store.unusable("list", "the folder", &e))?;
        listed.sort_unstable();
        for name in listed {
            match Name::parse(&name) {
                Name::Unit(number) => {
                    survey.units.insert(number, read_header(store, &name, number)?);
                }
                Name::Snapshot(number) => survey.snapshots.push(number),
                Name::Zero(id) => {
                    survey.zero_max = survey.zero_max.max(id);
                    survey.blanks.push(Blank { name, zero_filled: true });
                }
                Name::Spare(_) => survey.blanks.push(Blank { name, zero_filled: false }),
                Name::Cut => survey.cut_files.push(name),
                Name::Litter => {
                    let of = name.strip_suffix(".tmp").map_or(Name::Other, Name::parse);
                    if let Name::Zero(id) = of {
                        survey.zero_max = survey.zero_max.max(id);
                    }
                    survey.litter.push(name);
                }
                Name::Other => {}
            }
        }
        Ok(survey)
    }

    pub(super) fn unit_max(&self) -> u64 {
        self.units.keys().next_back().copied().unwrap_or(0)
    }

    pub(super) fn incarnation_max(&self) -> u64 {
        self.units.values().map(|h| h.incarnation).max().unwrap_or(0)
    }

    /// Reads the newest snapshot; `visitor` gets its blocks.
    pub(super) fn read_snapshot(
        &self,
        store: &Store,
        visitor: &mut dyn Visitor,
    ) -> Result<Option<SnapshotRead>, JournalFault> {
        let Some(&number) = self.snapshots.last() else {
            return Ok(None);
        };
        let name = names::snapshot(number);
        let unusable = |e: &io::Error| store.unusable("read", &name, e);
        let file = store.disk.open(&store.path(&name), Access::Read).map_err(|e| unusable(&e))?;
        match snapshot::read(&*file, visitor) {
            Ok(read) if read.header.number == number => Ok(Some(read)),
            Ok(_) => Err(store.damaged(&name, 16, "the snapshot's number is not its name's")),
            Err(SnapshotFault::Header(fault)) => Err(header_fault(store, &name, &fault)),
            Err(SnapshotFault::Damaged { offset, what }) => Err(store.damaged(&name, offset, what)),
            Err(SnapshotFault::Io(e)) => Err(unusable(&e)),
        }
    }
}

fn read_header(store: &Store, name: &str, number: u64) -> Result<UnitHeader, JournalFault> {
    let unusable = |e: &io::Error| store.unusable("read", name, e);
    let file = store.disk.open(&store.path(name), Access::Read).map_err(|e| unusable(&e))?;
    let mut bytes = vec![0; UNIT_HEADER_BYTES as usize];
    let n = read_full(&*file, &mut bytes, 0).map_err(|e| unusable(&e))?;
    let header =
        UnitHeader::decode(&bytes[..n]).map_err(|fault| header_fault(store, name, &fault))?;
    if header.number != number {
        return Err(store.damaged(name, 16, "the unit's number is not its name's"));
    }
    Ok(header)
}

fn header_fault(store: &Store, name: &str, fault: &HeaderFault) -> JournalFault {
    match fault {
        HeaderFault::Damaged(what) => store.damaged(name, 0, *what),
        HeaderFault::UnknownVersion(found) => JournalFault::UnknownVersion {
            file: store.path(name).display().to_string(),
            found: *found,
            known: FORMAT,
        },
    }
}
