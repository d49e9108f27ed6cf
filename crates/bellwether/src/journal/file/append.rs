//! The open journal: appends frames, hands out long work, keeps the list of units.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use super::disk::{LockGuard, write_all_parts};
use super::flusher::Flusher;
use super::frame::{FRAME_HEADER_BYTES, FrameKey, frame_bytes, header, padding};
use super::job::{Done, FileJob};
use super::names;
use super::open::RecoveryReport;
use super::options::SPARSE_UNITS_SLACK;
use super::scan::scan;
use super::segment::{KeptUnit, Position, UNIT_HEADER_BYTES, Unit};
use super::snapshotting::Snapshotting;
use super::store::Store;
use super::supply::Supply;
use crate::journal::{
    Block, Flush, FrameNumber, Job, Journal, JournalFault, Prepared, Pressure, Read,
};

/// A journal in a folder. Made by [`FileJournal::open`].
pub struct FileJournal {
    pub(super) store: Arc<Store>,
    pub(super) lock: Option<LockGuard>,
    pub(super) report: RecoveryReport,
    pub(super) current: Arc<Unit>,
    /// Where the next frame goes.
    pub(super) at: Position,
    pub(super) units: BTreeMap<u64, KeptUnit>,
    pub(super) flusher: Arc<Flusher>,
    pub(super) supply: Arc<Supply>,
    pub(super) supply_wanted: bool,
    pub(super) supply_out: bool,
    pub(super) to_recycle: Vec<KeptUnit>,
    pub(super) recycle_out: bool,
    pub(super) snapshots: Snapshotting,
}

impl std::fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dir = &self.store.dir;
        f.debug_struct("FileJournal")
            .field("dir", dir)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl FileJournal {
    /// What opening found.
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }

    fn put(&mut self, payload: &[u8]) -> Result<FrameNumber, JournalFault> {
        let at = self.prepare(payload.len())?;
        let key = FrameKey::of(&self.current.header);
        let header = header(key, at.number.0, self.flusher.flushed_number(), payload);
        // The payload goes to the kernel from where it lies: it is too long to be copied first.
        let parts = [&header, payload, padding(payload.len())];
        let offset = u64::from(self.at.offset);
        if let Err(e) = write_all_parts(&*self.current.file, &mut parts.map(IoSlice::new), offset) {
            let name = names::unit(self.current.header.number);
            return Err(self.flusher.poison(self.store.broken("write", &name, &e)));
        }
        let bytes = frame_bytes(payload.len());
        self.at.offset += bytes as u32;
        self.at.next_frame += 1;
        self.snapshots.note_appended(bytes as u64);
        self.flusher.note_appended(at.number.0);
        Ok(at.number)
    }

    fn roll(&mut self) -> Result<(), JournalFault> {
        let taken = self
            .supply
            .take()
            .map_err(|e| self.flusher.poison(self.store.broken("prepare a unit in", "", &e)))?;
        self.supply_wanted = true;
        let unit = taken.ok_or_else(|| self.store.full())?;
        self.at = Position { unit: unit.header.number, offset: UNIT_HEADER_BYTES, ..self.at };
        self.units.insert(unit.header.number, KeptUnit::opened(&unit));
        self.flusher.roll_to(unit.clone());
        self.current = unit;
        Ok(())
    }

    fn room_left(&self) -> usize {
        (self.current.header.file_bytes - self.at.offset) as usize
    }

    fn reclaimable(&self) -> impl Iterator<Item = &KeptUnit> {
        let start = self.snapshots.start_unit().min(self.current.header.number);
        self.units.range(..start).map(|(_, unit)| unit)
    }
}

impl Journal for FileJournal {
    fn frame_bytes_max(&self) -> usize {
        (self.store.options.segment_bytes_max - UNIT_HEADER_BYTES) as usize - FRAME_HEADER_BYTES
    }

    fn prepare(&mut self, len: usize) -> Result<Prepared, JournalFault> {
        self.flusher.check()?;
        if len > self.frame_bytes_max() {
            return Err(JournalFault::TooLarge { len, max: self.frame_bytes_max() });
        }
        // A unit left over from smaller sizes may be too short for this frame as well.
        while frame_bytes(len) > self.room_left() {
            self.roll()?;
        }
        Ok(Prepared {
            number: FrameNumber(self.at.next_frame),
            unit: self.at.unit,
            payload_offset: self.at.offset + FRAME_HEADER_BYTES as u32,
        })
    }

    fn append(&mut self, payload: &[u8]) -> Result<FrameNumber, JournalFault> {
        debug_assert!(!payload.is_empty(), "an empty frame is a mark");
        self.put(payload)
    }

    fn mark(&mut self) -> Result<FrameNumber, JournalFault> {
        self.put(&[])
    }

    fn flusher(&self) -> Arc<dyn Flush> {
        self.flusher.clone()
    }

    fn reader(&self, unit: u64) -> Result<Option<Arc<dyn Read>>, JournalFault> {
        let Some(kept) = self.units.get(&unit) else { return Ok(None) };
        let opened = kept.unit(&self.store);
        let opened = opened.map_err(|e| self.store.unreadable(&names::unit(unit), &e))?;
        Ok(Some(opened))
    }

    fn pressure(&self) -> Pressure {
        self.supply.pressure()
    }

    fn look_for_space(&mut self) {
        self.supply_wanted |= self.store.options.free_bytes_min > 0;
    }

    fn has_job(&self) -> bool {
        let may_recycle = !self.recycle_out && !self.to_recycle.is_empty();
        may_recycle || (self.supply_wanted && !self.supply_out)
    }

    fn next_job(&mut self) -> Option<Box<dyn Job>> {
        if self.flusher.check().is_err() {
            return None;
        }
        // Recycling first: on a full disk it is what the next unit is made of.
        if !self.recycle_out && !self.to_recycle.is_empty() {
            self.recycle_out = true;
            let units = std::mem::take(&mut self.to_recycle);
            return Some(Box::new(FileJob::Recycle(self.supply.clone(), units)));
        }
        if let Some(job) = self.snapshots.next_job(self.flusher.flushed_number()) {
            if self.snapshots.is_beginning() {
                self.supply.want_room(None);
            }
            return Some(Box::new(job));
        }
        if self.supply_wanted && !self.supply_out {
            self.supply_out = true;
            self.supply_wanted = false;
            return Some(Box::new(FileJob::Replenish(self.supply.clone())));
        }
        None
    }

    fn job_done(&mut self, result: Box<dyn std::any::Any + Send>) -> Result<(), JournalFault> {
        let Ok(done) = result.downcast::<Done>() else {
            panic!("job_done was given something that no job of this journal returned");
        };
        let (what, failed) = match *done {
            Done::Replenish(result) => {
                self.supply_out = false;
                self.supply_wanted |= !matches!(result, Ok(true));
                ("prepare a unit in", result.err())
            }
            Done::Recycle(result) => {
                self.recycle_out = false;
                ("recycle a unit in", result.err())
            }
            Done::Write(result) => {
                if result.is_err() {
                    self.supply.want_room(Some(self.snapshots.room_bytes()));
                    self.supply_wanted = true;
                }
                ("write a snapshot in", self.snapshots.written(result))
            }
            Done::Publish(result) => {
                if result.is_ok() {
                    self.supply_wanted = true;
                }
                let failed = self.snapshots.published(result);
                self.supply.keep_for(self.snapshots.after_bytes());
                self.supply.want_room(Some(self.snapshots.room_bytes()));
                ("name a snapshot in", failed)
            }
        };
        match failed {
            Some(e) => Err(self.flusher.poison(self.store.broken(what, "", &e))),
            None => Ok(()),
        }
    }

    fn wants_snapshot(&self) -> bool {
        let frees_units = self.pressure() != Pressure::None
            && self.snapshots.start_unit() < self.current.header.number;
        self.snapshots.is_worth_it(frees_units)
    }

    fn snapshot_begin(&mut self) -> Result<(), JournalFault> {
        self.flusher.check()?;
        self.snapshots.begin(self.at);
        Ok(())
    }

    fn has_snapshot(&self) -> bool {
        self.snapshots.is_under_way()
    }

    fn snapshot_blocks_waiting(&self) -> usize {
        self.snapshots.blocks_waiting()
    }

    fn snapshot_block(&mut self, block: Box<dyn Block>) {
        self.snapshots.block(block);
    }

    fn snapshot_end(&mut self) {
        self.snapshots.end(self.at.next_frame - 1);
    }

    fn reclaim(&mut self, live_bytes: &dyn Fn(u64) -> u64) {
        let dead: Vec<u64> = self
            .reclaimable()
            .map(|unit| unit.header.number)
            .filter(|&number| live_bytes(number) == 0)
            .collect();
        self.to_recycle.extend(dead.iter().filter_map(|number| self.units.remove(number)));
        self.supply_wanted |= self.pressure() != Pressure::None;
    }

    fn sparse_unit(&self, live_bytes: &dyn Fn(u64) -> u64) -> Option<u64> {
        let total: u64 = self.units.values().map(|u| u64::from(u.header.file_bytes)).sum();
        let live: u64 = self.units.keys().map(|&number| live_bytes(number)).sum();
        let slack = SPARSE_UNITS_SLACK * u64::from(self.store.options.segment_bytes_max);
        if total <= 2 * live + slack {
            return None;
        }
        self.reclaimable()
            .map(|unit| (live_bytes(unit.header.number), unit.header.number))
            .filter(|&(live, _)| live > 0)
            .min()
            .map(|(_, number)| number)
    }

    fn scan(
        &self,
        unit: u64,
        offset: u32,
        bytes_max: usize,
        visit: &mut dyn FnMut(Prepared, &[u8]),
    ) -> Result<Option<u32>, JournalFault> {
        let Some(kept) = self.units.get(&unit) else {
            return Ok(None);
        };
        let name = names::unit(unit);
        let failed = |e| self.store.unreadable(&name, &e);
        let unit = kept.unit(&self.store).map_err(failed)?;
        scan(&unit, offset, bytes_max, visit).map_err(failed)
    }

    fn close(&mut self) -> Result<(), JournalFault> {
        let marked = self
            .flusher
            .flush()
            .and_then(|_| self.mark())
            .and_then(|_| self.flusher.flush())
            .map(|_| ());
        self.flusher.poison(JournalFault::Closed { path: self.store.dir.display().to_string() });
        self.lock = None;
        marked
    }
}
