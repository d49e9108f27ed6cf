//! Opens a folder: what recovery does to the disk, and in which order.
//!
//! 1. Lock.
//! 2. Read everything; any damage ends here, with nothing changed.
//! 3. Write the frames that nothing calls durable once more, and flush them: a process that was
//!    killed leaves them only in the kernel's memory, and one that saw a flush fail leaves them
//!    where no flush will ever take them.
//! 4. Copy what is cut off.
//! 5. Make the new life's first unit, durably: from now on the cut holds.
//! 6. Only then remove what is not needed any more.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::append::FileJournal;
use super::check::Visitor;
use super::disk::{Access, Disk, LockFault, is_full, read_full, write_all};
use super::flusher::Flusher;
use super::names;
use super::options::{CUT_FILES_MAX, FileOptions};
use super::segment::{KeptUnit, Position, UNIT_HEADER_BYTES};
use super::snapshotting::Snapshotting;
use super::store::Store;
use super::supply::Supply;
use super::survey::Survey;
use super::tail::Tail;
use super::walk::{Walked, walk};
use crate::journal::{FrameNumber, JournalFault, Prepared, Replay};

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// How often this store was opened, this time included.
    pub incarnation: u64,
    /// Number of the snapshot that was read.
    pub snapshot: Option<u64>,
    /// Frames replayed on top of it, marks included.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was never durable and was cut off, by unit.
    pub cut: Vec<CutTail>,
}

/// Bytes that were never durable and were cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// The unit they lie in.
    pub unit: u64,
    /// Their first byte in it.
    pub offset: u32,
    /// How many.
    pub bytes: u64,
    /// The file that keeps a copy; `None` if the disk was too full for one.
    pub file: Option<String>,
}

struct Replaying<'a>(&'a mut dyn Replay);

impl Visitor for Replaying<'_> {
    fn block(&mut self, _index: u64, block: &[u8]) -> Result<(), String> {
        self.0.snapshot(block)
    }

    fn frame(&mut self, at: Prepared, _: FrameNumber, payload: &[u8]) -> Result<(), String> {
        if payload.is_empty() { Ok(()) } else { self.0.frame(at, payload) }
    }
}

impl FileJournal {
    /// Opens the journal in `dir`, makes one if there is none, and replays what it holds.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: FileOptions,
        replay: &mut dyn Replay,
    ) -> Result<Self, JournalFault> {
        let store = Arc::new(Store { disk, dir: dir.to_owned(), options: options.checked() });
        let failed = |e: io::Error| store.unusable("write in", "the folder", &e);
        store.disk.create_dir_all(dir).map_err(failed)?;
        let lock = store
            .disk
            .lock(&store.path(names::LOCK), &store.options.holder)
            .map_err(|fault| lock_fault(&store, fault))?;

        let mut survey = Survey::take(&store)?;
        let mut visitor = Replaying(replay);
        let snapshot = survey.read_snapshot(&store, &mut visitor)?;
        let walked = if survey.units.is_empty() && snapshot.is_none() {
            None
        } else {
            Some(walk(&store, &survey, snapshot.as_ref(), &mut visitor)?)
        };

        let mut report = RecoveryReport {
            incarnation: survey
                .incarnation_max()
                .max(snapshot.as_ref().map_or(0, |read| read.header.incarnation))
                + 1,
            snapshot: snapshot.as_ref().map(|read| read.header.number),
            ..RecoveryReport::default()
        };
        let mut end = Position { unit: 0, offset: 0, next_frame: 1 };
        if let Some(walked) = &walked {
            end = walked.end;
            report.frames = walked.frames;
            report.bytes = walked.bytes;
            secure(&store, walked).map_err(failed)?;
            for tail in &walked.tails {
                report.cut.push(keep_cut(&store, *tail).map_err(failed)?);
            }
        }

        let supply = supply(&store, &mut survey, report.incarnation).map_err(failed)?;
        let first = supply.first_unit(end).map_err(failed)?;
        let dead = walked.map_or_else(Vec::new, |walked| walked.dead);
        let snapshots =
            Snapshotting::new(store.clone(), report.incarnation, snapshot.as_ref(), report.bytes);
        supply.keep_for(snapshots.after_bytes());
        sweep(&store, &survey, &supply, &dead).map_err(failed)?;
        supply.ensure_reserve().map_err(failed)?;
        supply.look();
        supply.want_room(Some(snapshots.room_bytes()));
        let mut units = survey.units;
        units.retain(|number, _| !dead.contains(number));
        let mut units: std::collections::BTreeMap<u64, KeptUnit> =
            units.into_iter().map(|(n, header)| (n, KeptUnit::closed(header))).collect();
        units.insert(first.header.number, KeptUnit::opened(&first));
        let at = Position { unit: first.header.number, offset: UNIT_HEADER_BYTES, ..end };
        let flusher = Arc::new(Flusher::new(store.clone(), first.clone(), at.next_frame - 1));
        Ok(Self {
            store,
            lock: Some(lock),
            report,
            current: first,
            at,
            units,
            flusher,
            supply: Arc::new(supply),
            supply_wanted: true,
            supply_out: false,
            to_recycle: Vec::new(),
            recycle_out: false,
            snapshots,
        })
    }
}

pub(super) fn lock_fault(store: &Store, fault: LockFault) -> JournalFault {
    match fault {
        LockFault::Held { holder } => {
            JournalFault::InUse { path: store.dir.display().to_string(), holder }
        }
        LockFault::Io(e) => store.unusable("lock", names::LOCK, &e),
    }
}

/// Makes durable what the new life will build on.
fn secure(store: &Store, walked: &Walked) -> io::Result<()> {
    if let Some(from) = walked.unsure_from {
        for unit in from.unit..=walked.end.unit {
            let file = store.disk.open(&store.path(&names::unit(unit)), Access::Write)?;
            let start = if unit == from.unit { from.offset } else { UNIT_HEADER_BYTES };
            let end =
                if unit == walked.end.unit { u64::from(walked.end.offset) } else { file.len()? };
            let mut bytes = vec![0; (end - u64::from(start)) as usize];
            let n = read_full(&*file, &mut bytes, u64::from(start))?;
            write_all(&*file, &bytes[..n], u64::from(start))?;
            file.sync_data()?;
        }
    }
    store.sync_names()
}

fn keep_cut(store: &Store, tail: Tail) -> io::Result<CutTail> {
    let name = names::cut(tail.unit, tail.offset);
    let path = store.path(&name);
    let unit = store.disk.open(&store.path(&names::unit(tail.unit)), Access::Read)?;
    let mut bytes = vec![0; (tail.end - tail.offset) as usize];
    let n = read_full(&*unit, &mut bytes, u64::from(tail.offset))?;
    bytes.truncate(n);
    let kept = store.disk.create(&path).and_then(|copy| {
        write_all(&*copy, &bytes, 0)?;
        copy.sync_all()
    });
    let file = match kept {
        Ok(()) => Some(path.display().to_string()),
        Err(e) if is_full(&e) => {
            let _ = store.disk.remove(&path);
            None
        }
        Err(e) => return Err(e),
    };
    Ok(CutTail { unit: tail.unit, offset: tail.offset, bytes: bytes.len() as u64, file })
}

/// A stock of the blanks at hand; those of another size, from other options, become litter.
fn supply(store: &Arc<Store>, survey: &mut Survey, incarnation: u64) -> io::Result<Supply> {
    let mut blanks = Vec::new();
    for blank in std::mem::take(&mut survey.blanks) {
        let file = store.disk.open(&store.path(&blank.name), Access::Read)?;
        if file.len()? == u64::from(store.options.segment_bytes_max) {
            blanks.push(blank);
        } else {
            survey.litter.push(blank.name);
        }
    }
    let number = survey.unit_max() + 1;
    Ok(Supply::new(store.clone(), incarnation, number, blanks, survey.zero_max))
}

fn sweep(store: &Store, survey: &Survey, supply: &Supply, dead: &[u64]) -> io::Result<()> {
    // Names of units only grow, so the copies in the order of their names are in that of their age.
    let old_cuts = survey.cut_files.len().saturating_sub(CUT_FILES_MAX);
    for name in survey.litter.iter().chain(&survey.cut_files[..old_cuts]) {
        store.disk.remove(&store.path(name))?;
    }
    let older = survey.snapshots.len().saturating_sub(1);
    for number in &survey.snapshots[..older] {
        store.disk.remove(&store.path(&names::snapshot(*number)))?;
    }
    let dead: Vec<KeptUnit> = dead
        .iter()
        .filter_map(|number| survey.units.get(number).cloned().map(KeptUnit::closed))
        .collect();
    supply.recycle(&dead)
}
