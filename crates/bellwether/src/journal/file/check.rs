//! Looks at a folder without changing it: is it sound, and what does it hold?

use std::path::Path;
use std::sync::Arc;

use super::FORMAT;
use super::disk::{Access, Disk, read_full};
use super::names;
use super::open::{CutTail, lock_fault};
use super::options::FileOptions;
use super::segment::{UNIT_HEADER_BYTES, UnitHeader};
use super::snapshot::SnapshotRead;
use super::store::Store;
use super::survey::Survey;
use super::tail::Evidence;
use super::walk::{Walked, walk};
use crate::journal::{FrameNumber, JournalFault, Prepared};

/// Gets what a folder holds, in order.
pub trait Visitor {
    /// One block of the newest snapshot. An `Err` says what is wrong with it.
    fn block(&mut self, index: u64, block: &[u8]) -> Result<(), String>;
    /// One frame behind the snapshot's start, marks (empty payloads) included, and the highest
    /// frame it calls durable.
    fn frame(&mut self, at: Prepared, flushed: FrameNumber, payload: &[u8]) -> Result<(), String>;
}

/// Whether a folder is sound.
#[derive(Clone, Debug)]
pub enum State {
    /// There is no journal in it.
    Empty,
    /// Every byte that counts checks.
    Clean,
    /// What was never durable is incomplete; opening will cut it off and keep a copy.
    Torn {
        /// Where, by unit.
        cut: Vec<CutTail>,
    },
    /// What was durable is not sound; opening will refuse.
    Damaged {
        /// The first damage found.
        fault: JournalFault,
    },
}

/// What a look at a folder found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether it is sound.
    pub state: State,
    /// The format of its files.
    pub format: u32,
    /// How often it was opened.
    pub incarnation: u64,
    /// Number of the newest snapshot.
    pub snapshot: Option<u64>,
    /// How many blocks it has.
    pub snapshot_blocks: u64,
    /// Its bytes.
    pub snapshot_bytes: u64,
    /// How many units it keeps.
    pub units: usize,
    /// Their bytes on disk.
    pub unit_bytes: u64,
    /// How many frames an open would replay, marks included.
    pub frames: u64,
    /// Their bytes.
    pub frame_bytes: u64,
    /// Number of the next frame.
    pub next_frame: u64,
    /// Blank units in stock.
    pub blanks: usize,
    /// Copies of what earlier opens cut off.
    pub cut_files: Vec<String>,
}

/// Checks every frame and snapshot block in `dir`. Refuses with [`JournalFault::InUse`] while a
/// process has the store open, and keeps others from opening it while it reads.
pub fn check(disk: Arc<dyn Disk>, dir: &Path) -> Result<Verdict, JournalFault> {
    struct Nothing;
    impl Visitor for Nothing {
        fn block(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
            Ok(())
        }
        fn frame(&mut self, _: Prepared, _: FrameNumber, _: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }
    dump(disk, dir, &mut Nothing)
}

/// [`check`], with everything that is read shown to `visitor`.
pub fn dump(
    disk: Arc<dyn Disk>,
    dir: &Path,
    visitor: &mut dyn Visitor,
) -> Result<Verdict, JournalFault> {
    let store = Store { disk, dir: dir.to_owned(), options: FileOptions::default() };
    let _lock = store
        .disk
        .lock_shared(&store.path(names::LOCK))
        .map_err(|fault| lock_fault(&store, fault))?;
    let mut verdict = Verdict {
        state: State::Empty,
        format: FORMAT,
        incarnation: 0,
        snapshot: None,
        snapshot_blocks: 0,
        snapshot_bytes: 0,
        units: 0,
        unit_bytes: 0,
        frames: 0,
        frame_bytes: 0,
        next_frame: 1,
        blanks: 0,
        cut_files: Vec::new(),
    };
    match look(&store, visitor, &mut verdict) {
        Ok(state) => verdict.state = state,
        Err(fault @ JournalFault::Damaged { .. }) => verdict.state = State::Damaged { fault },
        Err(other) => return Err(other),
    }
    Ok(verdict)
}

fn look(
    store: &Store,
    visitor: &mut dyn Visitor,
    verdict: &mut Verdict,
) -> Result<State, JournalFault> {
    let survey = Survey::take(store)?;
    verdict.incarnation = survey.incarnation_max();
    verdict.units = survey.units.len();
    verdict.unit_bytes = survey.units.values().map(|h| u64::from(h.file_bytes)).sum();
    verdict.blanks = survey.blanks.len();
    verdict.cut_files.clone_from(&survey.cut_files);
    let snapshot = survey.read_snapshot(store, visitor)?;
    if let Some(read) = &snapshot {
        verdict.snapshot = Some(read.header.number);
        verdict.snapshot_blocks = read.blocks;
        verdict.snapshot_bytes = read.bytes;
    }
    if survey.units.is_empty() && snapshot.is_none() {
        return Ok(State::Empty);
    }
    let walked = walk(store, &survey, snapshot.as_ref(), visitor)?;
    verdict.frames = walked.frames;
    verdict.frame_bytes = walked.bytes;
    verdict.next_frame = walked.end.next_frame;
    check_kept(store, &survey, snapshot.as_ref(), &walked)?;
    if walked.tails.is_empty() {
        return Ok(State::Clean);
    }
    let cut = walked.tails.iter().map(|tail| CutTail {
        unit: tail.unit,
        offset: tail.offset,
        bytes: u64::from(tail.end - tail.offset),
        file: None,
    });
    Ok(State::Torn { cut: cut.collect() })
}

/// Units before the snapshot's start are kept for the contents in them and are not replayed. Where
/// their frames stop although sound ones follow, something in between is damaged, unless the
/// unit was cut there by an earlier recovery.
fn check_kept(
    store: &Store,
    survey: &Survey,
    snapshot: Option<&SnapshotRead>,
    walked: &Walked,
) -> Result<(), JournalFault> {
    if snapshot.is_none() {
        return Ok(());
    }
    for header in survey.units.range(..walked.start.unit).map(|(_, header)| header) {
        // The last unit of a life may have been cut; the note of it is gone with the unit that
        // came next.
        let goes_on = survey.units.get(&(header.number + 1));
        if goes_on.is_none_or(|next| next.incarnation != header.incarnation) {
            continue;
        }
        if let Some(offset) = gap(store, header)? {
            let what = "a frame does not check, and sound ones follow";
            return Err(store.damaged(&names::unit(header.number), offset, what));
        }
    }
    Ok(())
}

fn gap(store: &Store, header: &UnitHeader) -> Result<Option<u64>, JournalFault> {
    use super::frame::{FrameKey, decode, frame_bytes};
    let name = names::unit(header.number);
    let unusable = |e| store.unusable("read", &name, &e);
    let file = store.disk.open(&store.path(&name), Access::Read).map_err(unusable)?;
    let mut bytes = vec![0; header.file_bytes as usize];
    let n = read_full(&*file, &mut bytes, 0).map_err(unusable)?;
    bytes.truncate(n);
    let mut at = UNIT_HEADER_BYTES as usize;
    while let Some(frame) = bytes.get(at..).and_then(|b| decode(b, FrameKey::of(header))) {
        at += frame_bytes(frame.payload.len());
    }
    let behind = Evidence::look(&bytes, header, at as u32, 0);
    Ok((behind.frames > 0).then_some(at as u64))
}
