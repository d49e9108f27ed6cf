//! A backup of a store that goes on: a snapshot in slices, then the frames written since it began.
//!
//! Whoever takes it asks for one step after the other, at its own pace; between two steps the store
//! does what it is for. The units that the backup still has to read are not given back meanwhile, so
//! one that nobody asks about any more is given up.

use bellwether_core::backup::BackupStep;
use bellwether_core::change::Change;
use bellwether_core::codec;
use bellwether_core::error::Refusal;
use bellwether_core::ledger::SnapshotCursor;
use bellwether_core::outcome::Outcome;
use bellwether_core::time::{BootTime, Now};
use bytes::Bytes;

use super::Shard;
use crate::engine::content::{Content, Unread};
use crate::error::Error;
use crate::journal::{Journal, JournalFault};

/// Changes in one step: well under 5 ms of the writer's time.
const STEP_CHANGES: usize = 1024;
/// Bytes of contents that one step names, about; whoever hears the answer reads them.
const STEP_CONTENT_BYTES: u64 = 1 << 20;
/// Bytes of the journal that one step looks through.
const STEP_FRAME_BYTES: usize = 256 * 1024;
/// A backup of which nobody asks the next step for so long is given up.
const GIVE_UP_AFTER_MS: u64 = 60_000;
/// The step that gives a backup up.
pub(crate) const GIVE_UP: u32 = u32::MAX;

/// The one under way.
#[derive(Debug)]
pub(super) struct Backup {
    id: u64,
    /// The last step that was asked for.
    step: u32,
    asked_at: BootTime,
    /// The frame being filled when it began, and the unit that one lies in.
    frame: u64,
    unit: u64,
    bytes: u64,
    /// Where the next step goes on, and where the last one did, which may be asked again.
    at: At,
    before: At,
    /// Frames sealed since it began.
    sealed: u64,
}

#[derive(Clone, Copy, Debug)]
enum At {
    State(SnapshotCursor),
    Frames(Tail),
    Done { end: u64 },
}

/// How far the frames since the beginning were read.
#[derive(Clone, Copy, Debug)]
struct Tail {
    unit: u64,
    offset: u32,
    /// Frames that were read, of those that there are.
    read: u64,
    sealed: u64,
    /// The last frame that counts, and the unit it lies in.
    end: u64,
    end_unit: u64,
}

impl Backup {
    /// A frame with changes in it was appended.
    pub(super) fn note_sealed(&mut self) {
        self.sealed += 1;
    }

    /// Whether it still has to read what lies in this unit.
    pub(super) fn pins(&self, unit: u64) -> bool {
        !self.is_done() && unit >= self.unit
    }

    /// Its end was told.
    fn is_done(&self) -> bool {
        matches!(self.before, At::Done { .. })
    }

    pub(super) fn is_given_up(&self, now: Now) -> bool {
        self.asked_at.ms_until(now.boot) >= GIVE_UP_AFTER_MS
    }
}

impl<R> Shard<R> {
    /// The next step of backup `id`, or its last step again.
    pub(super) fn backup(&mut self, now: Now, id: u64, step: u32) -> Result<Unread, Error> {
        // Slices are taken between frames: then all contents have their place.
        self.seal();
        if let Some(fault) = &self.broken {
            return Err(fault.clone().into());
        }
        if step == GIVE_UP {
            self.backup.take_if(|backup| backup.id == id);
            return Ok(Unread { outcome: Outcome::Done, contents: <_>::default() });
        }
        if !self.payload.is_empty() {
            return Err(Refusal::DiskFull.into());
        }
        let mut backup = match self.backup.take() {
            Some(backup) if backup.id == id && step != 0 => backup,
            Some(other) if other.id != id && !other.is_done() && !other.is_given_up(now) => {
                self.backup = Some(other);
                return Err(Refusal::TooMany { what: "backups at a time", max: 1 }.into());
            }
            _ if step == 0 => self.begin_backup(id)?,
            other => {
                self.backup = other;
                return Err(out_of_step("it was given up, or the store was opened anew since"));
            }
        };
        backup.asked_at = now.boot;
        if step == backup.step {
            backup.at = backup.before;
        } else if step == backup.step.wrapping_add(1) {
            backup.before = backup.at;
            backup.step = step;
        } else {
            return Err(out_of_step("its steps are asked for one after the other"));
        }
        let brought = match backup.at {
            At::State(cursor) => self.state_step(now, &mut backup, cursor),
            At::Frames(tail) => self.frames_step(&mut backup, tail),
            At::Done { end } => {
                let outcome = Outcome::Backup(BackupStep::End { frame: end });
                Ok(Unread { outcome, contents: <_>::default() })
            }
        };
        self.backup = brought.is_ok().then_some(backup);
        brought
    }

    fn begin_backup(&mut self, id: u64) -> Result<Backup, Error> {
        let bytes = self.ledger.state_bytes();
        let next = self.kept_in()?.prepare(0)?;
        let at = At::State(SnapshotCursor::new());
        Ok(Backup {
            id,
            step: 0,
            asked_at: BootTime(0),
            frame: next.number.0,
            unit: next.unit,
            bytes,
            at,
            before: at,
            sealed: 0,
        })
    }

    fn kept_in(&mut self) -> Result<&mut Box<dyn Journal>, Error> {
        self.journal.as_mut().ok_or(Error::Closed)
    }

    fn state_step(
        &mut self,
        now: Now,
        backup: &mut Backup,
        mut cursor: SnapshotCursor,
    ) -> Result<Unread, Error> {
        let mut changes = Vec::with_capacity(STEP_CHANGES + 8);
        let mut content_bytes = 0;
        while changes.len() < STEP_CHANGES
            && content_bytes < STEP_CONTENT_BYTES
            && !cursor.is_done()
        {
            self.ledger.snapshot(&mut cursor, 1, &mut |change| {
                if let Change::ContentAt { place, .. } = change {
                    content_bytes += u64::from(place.len);
                }
                changes.push(change);
            });
        }
        let mut row = Vec::new();
        for change in &changes {
            codec::encode_change(change, now.boot, &mut row);
        }
        let placed = changes.iter().filter_map(|change| match *change {
            Change::ContentAt { id, place } if place.unit != 0 => Some((id, place)),
            _ => None,
        });
        let mut contents = vec![Content::Here(row.into())];
        contents.extend(self.bodies.get_all(placed, self.journal.as_deref()));
        backup.at = if cursor.is_done() {
            // What is replayed over the slices ends here: with everything that they can show.
            let next = self.kept_in()?.prepare(0)?;
            let (end, end_unit) = (next.number.0 - 1, next.unit);
            let (unit, sealed) = (backup.unit, backup.sealed);
            At::Frames(Tail { unit, offset: 0, read: 0, sealed, end, end_unit })
        } else {
            At::State(cursor)
        };
        let (frame, bytes) = (backup.frame, backup.bytes);
        let outcome = Outcome::Backup(BackupStep::State { frame, bytes });
        Ok(Unread { outcome, contents: contents.into() })
    }

    fn frames_step(&mut self, backup: &mut Backup, mut tail: Tail) -> Result<Unread, Error> {
        let (mut numbers, mut contents) = (Vec::new(), Vec::new());
        let mut is_over = false;
        let counts = backup.frame..=tail.end;
        let next = self.kept_in()?.scan(
            tail.unit,
            tail.offset,
            STEP_FRAME_BYTES,
            &mut |at, payload| {
                if counts.contains(&at.number.0) {
                    numbers.push(at.number.0);
                    contents.push(Content::Here(Bytes::copy_from_slice(payload)));
                }
                is_over |= at.number.0 > tail.end;
            },
        )?;
        tail.read += numbers.len() as u64;
        match next {
            Some(offset) if !is_over => tail.offset = offset,
            None if tail.unit < tail.end_unit => (tail.unit, tail.offset) = (tail.unit + 1, 0),
            _ => is_over = true,
        }
        backup.at = if is_over { At::Done { end: tail.end } } else { At::Frames(tail) };
        if is_over && tail.read != tail.sealed {
            return Err(JournalFault::Unreadable {
                file: format!("unit {:016x} of the journal and those behind it", backup.unit),
                cause: format!("{} of {} frames read back", tail.read, tail.sealed),
            }
            .into());
        }
        let outcome = Outcome::Backup(BackupStep::Frames { numbers });
        Ok(Unread { outcome, contents: contents.into() })
    }
}

fn out_of_step(why: &str) -> Error {
    Refusal::InvalidValue { what: "backup", why: format!("{why}; begin a new one") }.into()
}
