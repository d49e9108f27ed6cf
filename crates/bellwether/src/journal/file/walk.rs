//! Walks the frames from the snapshot's start to the end of the log, life by life.
//!
//! Only the newest life may end in a torn tail. Every earlier one was cut when the next began, and
//! must reach exactly that point.

use std::collections::VecDeque;

use super::check::Visitor;
use super::disk::{Access, read_full};
use super::frame::{self, FRAME_HEADER_BYTES, FrameKey, frame_bytes};
use super::names;
use super::segment::{Position, UNIT_HEADER_BYTES, UnitHeader};
use super::snapshot::SnapshotRead;
use super::store::Store;
use super::survey::Survey;
use super::tail::{Evidence, Tail};
use crate::journal::{FrameNumber, JournalFault, Prepared};

/// What a walk found.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) start: Position,
    pub(super) end: Position,
    /// From here on nothing in the log says that the frames are durable.
    pub(super) unsure_from: Option<Position>,
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) tails: Vec<Tail>,
    /// Units behind a cut.
    pub(super) dead: Vec<u64>,
}

struct Walk<'a> {
    store: &'a Store,
    survey: &'a Survey,
    visitor: &'a mut dyn Visitor,
    at: Position,
    /// Highest frame that something calls durable.
    flushed: u64,
    unsure: VecDeque<Position>,
    frames: u64,
    bytes: u64,
    dead: Vec<u64>,
}

/// Walks the log of a folder that has at least one unit or snapshot.
pub(super) fn walk(
    store: &Store,
    survey: &Survey,
    snapshot: Option<&SnapshotRead>,
    visitor: &mut dyn Visitor,
) -> Result<Walked, JournalFault> {
    let start = match snapshot {
        Some(read) => read.header.start,
        None => first_of_store(store, survey)?,
    };
    let flushed = snapshot.map_or(0, |read| read.end_frame).max(start.next_frame - 1);
    let mut walk = Walk {
        store,
        survey,
        visitor,
        at: start,
        flushed,
        unsure: VecDeque::new(),
        frames: 0,
        bytes: 0,
        dead: Vec::new(),
    };
    for header in survey.units.range(start.unit + 1..).map(|(_, header)| header) {
        if let Some(cut) = header.first_after {
            walk.earlier_life(cut)?;
            walk.dead.extend(survey.units.range(cut.unit + 1..header.number).map(|(n, _)| *n));
            walk.flushed = walk.flushed.max(cut.next_frame - 1);
            walk.at = Position { unit: header.number, offset: UNIT_HEADER_BYTES, ..cut };
        }
    }
    let tails = walk.newest_life()?;
    walk.dead.extend(survey.units.range(walk.at.unit + 1..).map(|(n, _)| *n));
    let flushed = walk.flushed;
    Ok(Walked {
        start,
        end: walk.at,
        unsure_from: walk.unsure.into_iter().find(|p| p.next_frame > flushed),
        frames: walk.frames,
        bytes: walk.bytes,
        tails,
        dead: walk.dead,
    })
}

fn first_of_store(store: &Store, survey: &Survey) -> Result<Position, JournalFault> {
    let first = survey.units.first_key_value();
    match first.map(|(&unit, header)| (unit, header.first_after)) {
        Some((unit, Some(after))) if after.unit == 0 => {
            Ok(Position { unit, offset: UNIT_HEADER_BYTES, next_frame: after.next_frame })
        }
        Some((unit, _)) => Err(store.damaged(
            &names::unit(unit - 1),
            0,
            "the file is missing, and no snapshot stands in for it",
        )),
        None => Err(store.damaged(&names::unit(1), 0, "the file is missing")),
    }
}

impl Walk<'_> {
    /// Walks to exactly `cut`.
    fn earlier_life(&mut self, cut: Position) -> Result<(), JournalFault> {
        let (mut header, mut bytes) = self.load(self.at.unit)?;
        while self.at.unit < cut.unit {
            self.frames_of(&header, &bytes, bytes.len())?;
            let (next, next_bytes) = self.load(self.at.unit + 1)?;
            let at_cut = next.number == cut.unit && cut.offset == UNIT_HEADER_BYTES;
            if !at_cut && !self.continues_in(&next, &next_bytes) {
                return Err(self.blame(&header, &bytes, Some((&next, &next_bytes))));
            }
            self.at = Position { unit: next.number, offset: UNIT_HEADER_BYTES, ..self.at };
            (header, bytes) = (next, next_bytes);
        }
        self.frames_of(&header, &bytes, bytes.len().min(cut.offset as usize))?;
        if self.at == cut { Ok(()) } else { Err(self.blame(&header, &bytes, None)) }
    }

    /// Walks as far as frames go, and judges what stopped it.
    fn newest_life(&mut self) -> Result<Vec<Tail>, JournalFault> {
        let (mut header, mut bytes) = self.load(self.at.unit)?;
        loop {
            self.frames_of(&header, &bytes, bytes.len())?;
            if self.at.unit == self.survey.unit_max() {
                return self.judge(&header, &bytes, None);
            }
            let (next, next_bytes) = self.load(self.at.unit + 1)?;
            if !self.continues_in(&next, &next_bytes) {
                return self.judge(&header, &bytes, Some((&next, &next_bytes)));
            }
            self.at = Position { unit: next.number, offset: UNIT_HEADER_BYTES, ..self.at };
            (header, bytes) = (next, next_bytes);
        }
    }

    fn continues_in(&self, next: &UnitHeader, bytes: &[u8]) -> bool {
        let start = bytes.get(UNIT_HEADER_BYTES as usize..).unwrap_or_default();
        frame::decode(start, FrameKey::of(next)).is_some_and(|f| f.number == self.at.next_frame)
    }

    /// Visits frames from where we are, up to `limit` or the first that does not check.
    fn frames_of(
        &mut self,
        header: &UnitHeader,
        bytes: &[u8],
        limit: usize,
    ) -> Result<(), JournalFault> {
        let key = FrameKey::of(header);
        while let Some(rest) = bytes.get(self.at.offset as usize..limit) {
            let frame = match frame::decode(rest, key) {
                Some(frame) if frame.number == self.at.next_frame => frame,
                _ => break,
            };
            let at = Prepared {
                number: FrameNumber(frame.number),
                unit: header.number,
                payload_offset: self.at.offset + FRAME_HEADER_BYTES as u32,
            };
            self.visitor.frame(at, FrameNumber(frame.flushed), frame.payload).map_err(|what| {
                self.store.damaged(&names::unit(header.number), u64::from(self.at.offset), what)
            })?;
            self.flushed = self.flushed.max(frame.flushed);
            while self.unsure.front().is_some_and(|p| p.next_frame <= self.flushed) {
                self.unsure.pop_front();
            }
            if frame.number > self.flushed {
                self.unsure.push_back(self.at);
            }
            self.frames += 1;
            self.bytes += frame_bytes(frame.payload.len()) as u64;
            self.at.offset += frame_bytes(frame.payload.len()) as u32;
            self.at.next_frame += 1;
        }
        Ok(())
    }

    /// The frame we expect is not sound. If anything calls it durable, that is damage; otherwise
    /// it was never acknowledged, and the log is cut here.
    fn judge(
        &mut self,
        header: &UnitHeader,
        bytes: &[u8],
        next: Option<(&UnitHeader, &[u8])>,
    ) -> Result<Vec<Tail>, JournalFault> {
        let here = Evidence::look(bytes, header, self.at.offset, self.at.next_frame);
        let mut tails: Vec<Tail> = here.tail(header.number, self.at.offset).into_iter().collect();
        self.flushed = self.flushed.max(here.flushed);
        for number in header.number + 1..=self.survey.unit_max() {
            let (later, bytes) = self.load(number)?;
            let found = Evidence::look(&bytes, &later, UNIT_HEADER_BYTES, self.at.next_frame);
            self.flushed = self.flushed.max(found.flushed);
            tails.extend(found.tail(number, UNIT_HEADER_BYTES));
        }
        if self.flushed >= self.at.next_frame && !cfg!(planted_bug = "cut_damage") {
            return Err(self.blame(header, bytes, next));
        }
        Ok(tails)
    }

    /// Names the place of the damage: the expected frame lies where we are or, if the unit was
    /// full there, at the start of the next one.
    fn blame(
        &self,
        header: &UnitHeader,
        bytes: &[u8],
        next: Option<(&UnitHeader, &[u8])>,
    ) -> JournalFault {
        let what = format!("frame {} was durable and does not check", self.at.next_frame);
        let here = Evidence::look(bytes, header, self.at.offset, self.at.next_frame);
        if let Some((next, next_bytes)) = next {
            let start = &next_bytes[(UNIT_HEADER_BYTES as usize).min(next_bytes.len())..];
            let next_starts_well = frame::decode(start, FrameKey::of(next)).is_some();
            if !next_starts_well && !here.torn_here && here.frames == 0 {
                let offset = u64::from(UNIT_HEADER_BYTES);
                return self.store.damaged(&names::unit(next.number), offset, what);
            }
        }
        self.store.damaged(&names::unit(header.number), u64::from(self.at.offset), what)
    }

    fn load(&self, number: u64) -> Result<(UnitHeader, Vec<u8>), JournalFault> {
        let name = names::unit(number);
        let header = self.survey.units.get(&number).ok_or_else(|| {
            self.store.damaged(&name, 0, "the file is missing, and the log goes on behind it")
        })?;
        let unusable = |e| self.store.unusable("read", &name, &e);
        let file = self.store.disk.open(&self.store.path(&name), Access::Read).map_err(unusable)?;
        let mut bytes = vec![0; header.file_bytes as usize];
        let n = read_full(&*file, &mut bytes, 0).map_err(unusable)?;
        bytes.truncate(n);
        Ok((header.clone(), bytes))
    }
}
