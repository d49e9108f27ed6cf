//! What a shard does between batches: snapshots in slices, carrying contents forward out of old
//! units, giving units back. Each step is short, so that callers do not notice.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::change::Change;
use bellwether_core::codec::{self, Reader};
use bellwether_core::content::{ContentId, Place};
use bellwether_core::ledger::SnapshotCursor;
use bellwether_core::time::{BootTime, Now};
use bytes::Bytes;

use super::Shard;
use crate::engine::content::CHECKSUM_BYTES;
use crate::journal::{Block, Job, JournalFault, Pressure};
use crate::stats::{Health, Histogram, Refused};

/// Changes in one slice of a snapshot: well under 5 ms of the writer's time.
const SNAPSHOT_SLICE: usize = 4096;
/// Slices in memory that wait to be written.
const SLICES_MAX: usize = 4;
/// Bytes of an old unit that are looked through at a time.
const CARRY_BYTES: usize = 256 * 1024;
/// Frames between two looks at what can be given back.
const RECLAIM_EVERY_FRAMES: u64 = 64;
/// Frames between two looks at whether there is anything to do.
const LOOK_EVERY_FRAMES: u64 = 1024;

/// A part of the ledger's state, to be written down by a job: copying it takes a fraction of the
/// time, and the writer waits for no more than that.
#[derive(Debug)]
struct Slice {
    changes: Vec<Change>,
    as_of: BootTime,
}

impl Block for Slice {
    fn encode(self: Box<Self>) -> Vec<u8> {
        let mut block = Vec::new();
        for change in &self.changes {
            codec::encode_change(change, self.as_of, &mut block);
        }
        block
    }
}

/// How far the long work has got.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    snapshot: Option<SnapshotCursor>,
    carry: Option<Carry>,
    /// Units that were looked through, or could not be, and still hold live contents: those lie
    /// in a bad sector or behind one. That must not end the service of everything else; whoever
    /// receives what lies there is told. Looking again in this life would find the same.
    given_up: BTreeSet<u64>,
    /// Units that became empty, and the frames in which: a power cut that loses the frame brings
    /// back what lay there, so they are given back only when it is durable.
    emptied: BTreeMap<u64, u64>,
    reclaimed_at: u64,
    /// The frame being filled at the last step of upkeep.
    looked_at: u64,
    /// A mark was written after the last frame.
    marked_at: u64,
    jobs_out: usize,
}

impl Upkeep {
    /// What was put into frame `from` is written in frames up to `to`.
    pub(super) fn put_off(&mut self, from: u64, to: u64) {
        let frames = self.emptied.values_mut().filter(|frame| **frame == from);
        frames.for_each(|frame| *frame = to);
    }
}

/// How far the contents of a sparse unit were carried forward.
#[derive(Debug)]
struct Carry {
    unit: u64,
    offset: u32,
}

impl<R> Shard<R> {
    /// Whether a step of upkeep is worth its while.
    pub fn wants_upkeep(&self) -> bool {
        let Some(journal) = self.journal.as_ref().filter(|_| self.broken.is_none()) else {
            return false;
        };
        self.stalled || journal.has_job() || self.frame >= self.upkeep.looked_at + LOOK_EVERY_FRAMES
    }

    /// One short step of upkeep; call it between batches. True if there is more to do at once.
    pub fn upkeep(&mut self, now: Now) -> bool {
        if self.journal.is_none() || self.broken.is_some() {
            return false;
        }
        self.upkeep.looked_at = self.frame;
        self.backup.take_if(|backup| backup.is_given_up(now));
        if self.stalled {
            self.seal();
            return false;
        }
        let result = self.snapshot_step(now).and_then(|busy| Ok(self.carry_step(now)? || busy));
        self.reclaim();
        match result {
            Ok(busy) => busy,
            Err(fault) => {
                self.fail(fault);
                false
            }
        }
    }

    fn snapshot_step(&mut self, now: Now) -> Result<bool, JournalFault> {
        let Some(journal) = self.journal.as_mut() else { return Ok(false) };
        if self.upkeep.snapshot.is_some() && !journal.has_snapshot() {
            self.upkeep.snapshot = None;
            return Ok(false);
        }
        if self.upkeep.snapshot.is_none() {
            // A snapshot starts between frames: what it shows lies before its start, or in
            // frames that are replayed over it.
            if !self.payload.is_empty() || !journal.wants_snapshot() {
                return Ok(false);
            }
            journal.snapshot_begin()?;
            self.upkeep.snapshot = Some(SnapshotCursor::new());
        }
        // Contents of the frame being filled have no place yet; and blocks must not pile up in
        // memory faster than they are written.
        if !self.payload.is_empty() || journal.snapshot_blocks_waiting() > SLICES_MAX {
            return Ok(false);
        }
        let Some(cursor) = self.upkeep.snapshot.as_mut() else { return Ok(false) };
        let mut changes = Vec::with_capacity(SNAPSHOT_SLICE);
        self.ledger.snapshot(cursor, SNAPSHOT_SLICE, &mut |change| changes.push(change));
        journal.snapshot_block(Box::new(Slice { changes, as_of: now.boot }));
        if cursor.is_done() {
            journal.snapshot_end();
            self.upkeep.snapshot = None;
            return Ok(false);
        }
        Ok(true)
    }

    /// Copies live contents out of a sparse old unit into the frame being filled.
    fn carry_step(&mut self, now: Now) -> Result<bool, JournalFault> {
        let target = self.frame_bytes_target();
        let Some(journal) = self.journal.as_mut() else { return Ok(false) };
        let ledger = &self.ledger;
        if self.upkeep.carry.is_none() {
            let given_up = &self.upkeep.given_up;
            let unit = journal.sparse_unit(&|unit| {
                if given_up.contains(&unit) { 0 } else { ledger.live_bytes(unit) }
            });
            self.upkeep.carry = unit.map(|unit| Carry { unit, offset: 0 });
        }
        let Some(carry) = self.upkeep.carry.as_mut() else { return Ok(false) };
        let mut live: Vec<(ContentId, Bytes)> = Vec::new();
        let scanned =
            journal.scan(carry.unit, carry.offset, CARRY_BYTES.min(target), &mut |at, payload| {
                each_content(payload, |id, offset, body| {
                    let offset = at.payload_offset + offset;
                    let place = Place { unit: at.unit, offset, len: body.len() as u32 };
                    if ledger.is_live_at(id, place) {
                        live.push((id, Bytes::copy_from_slice(body)));
                    }
                });
            });
        let looked_through = match scanned {
            Ok(Some(offset)) => {
                carry.offset = offset;
                None
            }
            Ok(None) | Err(JournalFault::Unreadable { .. }) => {
                self.upkeep.carry.take().map(|carry| carry.unit)
            }
            Err(fault) => return Err(fault),
        };
        for (id, body) in live {
            if self.payload.len() + body.len() > target {
                self.seal();
            }
            if self.stalled || self.broken.is_some() {
                // What is left stays where it is; its unit is looked at again.
                self.upkeep.carry = None;
                return Ok(false);
            }
            let len = body.len() as u32;
            self.put_content(now, &Change::Content { id, index: 0, len }, &body);
        }
        if let Some(unit) = looked_through {
            // Units whose contents have gone since then are not asked about again.
            let ledger = &self.ledger;
            self.upkeep.given_up.retain(|unit| ledger.live_bytes(*unit) > 0);
            self.upkeep.given_up.insert(unit);
        }
        Ok(self.upkeep.carry.is_some())
    }

    /// Something was let go or has moved, in the frame being filled.
    pub(super) fn note_emptied(&mut self) {
        let emptied = self.ledger.take_emptied().map(|unit| (unit, self.frame));
        self.upkeep.emptied.extend(emptied);
    }

    fn reclaim(&mut self) {
        let Some(journal) = self.journal.as_mut() else { return };
        let flushed = if cfg!(planted_bug = "reclaim_too_early") { u64::MAX } else { self.flushed };
        let emptied = self.upkeep.emptied.len();
        self.upkeep.emptied.retain(|_, frame| *frame > flushed);
        let due = self.frame >= self.upkeep.reclaimed_at + RECLAIM_EVERY_FRAMES;
        if due || self.upkeep.emptied.len() < emptied {
            self.upkeep.reclaimed_at = self.frame;
            self.bodies.let_go();
            let (ledger, emptied) = (&self.ledger, &self.upkeep.emptied);
            let backup = self.backup.as_ref();
            let kept = |unit| {
                let is_pinned = backup.is_some_and(|backup| backup.pins(unit));
                u64::from(is_pinned || emptied.contains_key(&unit))
            };
            journal.reclaim(&|unit| ledger.live_bytes(unit).max(kept(unit)));
        }
    }

    /// The next piece of long work; its result goes to [`Shard::job_done`].
    pub fn next_job(&mut self) -> Option<Box<dyn Job>> {
        let job = self.journal.as_mut().filter(|_| self.broken.is_none())?.next_job()?;
        self.upkeep.jobs_out += 1;
        Some(job)
    }

    /// Takes the result of a job.
    pub fn job_done(&mut self, result: Box<dyn std::any::Any + Send>) {
        self.upkeep.jobs_out -= 1;
        let Some(journal) = self.journal.as_mut() else { return };
        if let Err(fault) = journal.job_done(result) {
            self.fail(fault);
            return;
        }
        // A finished snapshot is the moment when old units become free.
        self.upkeep.reclaimed_at = 0;
        self.reclaim();
    }

    /// Whether an idle writer has something to mark.
    pub fn wants_mark(&self) -> bool {
        self.journal.is_some()
            && self.broken.is_none()
            && self.payload.is_empty()
            && self.flushed + 1 == self.frame
            && self.upkeep.marked_at != self.frame
    }

    /// See [`Journal::look_for_space`](crate::journal::Journal::look_for_space).
    pub fn look_for_space(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.look_for_space();
        }
    }

    /// Whether the disk is full, or nearly: then long work is tried again at a pace.
    pub fn is_short_of_space(&self) -> bool {
        let journal = self.journal.as_ref().filter(|_| self.broken.is_none());
        self.stalled || journal.is_some_and(|journal| journal.pressure() != Pressure::None)
    }

    /// Whether it works.
    pub(crate) fn health(&self) -> Health {
        match &self.broken {
            Some(fault) => Health::Broken(fault.clone()),
            None if self.is_short_of_space() => Health::ShortOfSpace,
            None => Health::Sound,
        }
    }

    /// How often limits were reached.
    pub(crate) fn refused(&self) -> Refused {
        self.refused
    }

    /// How many answers waited for the same flush.
    pub(crate) fn batch(&self) -> Histogram {
        self.batch.read()
    }

    /// An idle writer marks how far all is durable, once. True if a mark was appended and wants a
    /// flush.
    pub fn mark(&mut self) -> bool {
        if !self.wants_mark() {
            return false;
        }
        let Some(journal) = self.journal.as_mut() else { return false };
        match journal.mark() {
            Ok(number) => {
                self.next_frame(number.0 + 1);
                self.upkeep.marked_at = self.frame;
                true
            }
            // No room for a mark is no harm: it is a help for recovery, not a promise.
            Err(JournalFault::Full { .. }) => false,
            Err(fault) => {
                self.fail(fault);
                false
            }
        }
    }

    /// Seals what is left, marks, flushes and lets go of the journal.
    pub fn close(&mut self, now: Now) {
        self.seal();
        let Some(journal) = self.journal.as_mut().filter(|_| self.broken.is_none()) else { return };
        match journal.close() {
            Ok(()) => {
                let flushed = journal.flusher().flushed();
                self.flushed(now, flushed);
            }
            Err(fault) => self.fail(fault),
        }
    }
}

/// The contents in one frame's payload: id, offset in the payload, bytes.
fn each_content(payload: &[u8], mut visit: impl FnMut(ContentId, u32, &[u8])) {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        // A frame that was appended by this program and passed its checksum decodes.
        let Ok(change) = codec::decode_change(&mut reader, BootTime(0)) else {
            return;
        };
        if let Change::Content { id, len, .. } = change {
            let Ok(checksum) = reader.take(CHECKSUM_BYTES as usize) else { return };
            let offset = reader.position() as u32;
            let expected = checksum.to_vec();
            let Ok(body) = reader.take(len as usize) else { return };
            if crc32c::crc32c(body).to_le_bytes()[..] == expected[..] {
                visit(id, offset, body);
            }
        }
    }
}
