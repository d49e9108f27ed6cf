//! A new store out of a backup.
//!
//! ```text
//!   read all, check all ─► a ledger ─► numbers raised ─► written beside, flushed, checked ─► moved in
//! ```
//!
//! The store is written in a folder of its own inside the one that is asked for, and its files are
//! moved up when they are whole, the first unit last: whatever a crash leaves behind is either no
//! store or one that does not open, never a part of one that does.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bellwether_core::backup::Raise;
use bellwether_core::change::Change;
use bellwether_core::codec;
use bellwether_core::content::{ContentId, Place};
use bellwether_core::ledger::{Effects, Ledger, SnapshotCursor};
use bellwether_core::time::Now;

use super::block::Kind;
use super::read::Source;
use super::{Contents, RestoreFault};
use crate::clock::Clock;
use crate::engine::content::CHECKSUM_BYTES;
use crate::engine::shard::replay::Replayer;
use crate::journal::file::{
    Disk as _, FileJournal, FileOptions, LockFault, LockGuard, RealDisk, State, check, has_store,
};
use crate::journal::{Journal, JournalFault, Prepared, Replay};

/// A frame of the new store is so large, about.
const FRAME_BYTES: usize = 1 << 20;
/// Where the new store is written until it is whole.
const ASIDE: &str = "restoring";
const LOCK: &str = "lock";

/// A store that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the backup held.
    pub contents: Contents,
    /// The numbers it goes on with.
    pub raised: Raise,
}

/// Makes a store in `dir`, which has none, out of the backup in `file`. Reads and checks the whole
/// backup before anything is written. `read` is told how many bytes were read since it was last told.
///
/// The store is the one that was backed up, as after a restart, but for the numbers it goes on with
/// ([`Raise`]).
pub fn restore(
    file: &Path,
    dir: &Path,
    mut read: impl FnMut(u64),
) -> Result<Restored, RestoreFault> {
    refuse_occupied(dir)?;
    let now = Clock::System.now();
    let mut backup = Read::whole(file, now, &mut read)?;
    let raise = Raise::of(&backup.ledger, now.wall, crate::chance::random_u64() as u16);

    let disk = RealDisk;
    let failed = |what: &str| RestoreFault::io(format!("{what} {}", dir.display()));
    disk.create_dir_all(dir).map_err(failed("make the folder"))?;
    let lock = lock(dir)?;
    refuse_occupied(dir)?;
    let aside = dir.join(ASIDE);
    remove_aside(&aside).map_err(failed("clear a restore that was broken off in"))?;
    let written = backup.write(&aside, now, raise).and_then(|()| {
        let verdict = check(Arc::new(RealDisk), &aside)?;
        match verdict.state {
            State::Clean => move_up(&aside, dir).map_err(failed("move the new store into")),
            state => Err(RestoreFault::Io {
                what: format!("write {}", aside.display()),
                cause: io::Error::other(format!("what was written does not check: {state:?}")),
            }),
        }
    });
    if written.is_err() {
        // The fault that counts is the first one; what is left here is cleared by the next restore.
        let _ = remove_aside(&aside);
    }
    written?;
    drop(lock);
    Ok(Restored { contents: backup.contents, raised: raise })
}

/// Reads and checks the backup in `file`, as [`restore`] does before it writes anything.
pub fn verify(file: &Path, mut read: impl FnMut(u64)) -> Result<Contents, RestoreFault> {
    Ok(Read::whole(file, Clock::System.now(), &mut read)?.contents)
}

fn refuse_occupied(dir: &Path) -> Result<(), RestoreFault> {
    let failed = RestoreFault::io(format!("look into {}", dir.display()));
    if has_store(dir).map_err(failed)? { Err(RestoreFault::Occupied(dir.into())) } else { Ok(()) }
}

fn lock(dir: &Path) -> Result<LockGuard, RestoreFault> {
    let holder = format!("pid {}, restoring a backup", std::process::id());
    RealDisk.lock(&dir.join(LOCK), &holder).map_err(|fault| match fault {
        LockFault::Held { holder } => {
            JournalFault::InUse { path: dir.display().to_string(), holder }.into()
        }
        LockFault::Io(cause) => RestoreFault::Io { what: format!("lock {}", dir.display()), cause },
    })
}

fn remove_aside(aside: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(aside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The first unit last: without it the others are no store that opens.
fn move_up(aside: &Path, dir: &Path) -> io::Result<()> {
    let mut names = RealDisk.list(aside)?;
    names.retain(|name| name != LOCK);
    names.sort_unstable_by(|a, b| b.cmp(a));
    let (units, others): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| name.strip_suffix(".log").is_some());
    for name in others.into_iter().chain(units) {
        RealDisk.rename(&aside.join(name), &dir.join(name))?;
    }
    RealDisk.sync_dir(dir)?;
    remove_aside(aside)
}

/// A backup that was read whole.
struct Read {
    source: Source,
    ledger: Ledger,
    contents: Contents,
    /// Where the bytes of each block begin in the file, by index.
    blocks: Vec<u64>,
}

impl Read {
    fn whole(file: &Path, now: Now, read: &mut dyn FnMut(u64)) -> Result<Self, RestoreFault> {
        let (mut source, head) = Source::open(file)?;
        let mut replayer = Replayer::new(Ledger::new(u64::MAX), now);
        // Block 0 is the head, so no content lies in it.
        let mut blocks = vec![0];
        let mut told = 0;
        let mut last_frame = 0;
        let end_frame = loop {
            let block = source.next()?;
            let wrong = |source: &Source, what: &str| source.damaged(block.offset, what);
            let (number, payload, skipped) = match block.kind {
                Kind::State if last_frame == 0 => (0, block.bytes.as_slice(), 0),
                Kind::Frame => {
                    let (number, payload) = block
                        .numbered()
                        .filter(|(number, _)| *number > last_frame && *number >= head.frame)
                        .ok_or_else(|| wrong(&source, "a frame out of its order"))?;
                    last_frame = number;
                    (number, payload, 8)
                }
                Kind::End => {
                    let end = block.numbered().map(|(number, _)| number);
                    let end = end.filter(|end| *end >= last_frame && source.left() == 0);
                    break end.ok_or_else(|| wrong(&source, "an end that is not the end"))?;
                }
                Kind::Head | Kind::State => {
                    return Err(wrong(&source, "a block out of its order"));
                }
            };
            blocks.push(block.bytes_at() + skipped);
            let at = Prepared {
                number: crate::journal::FrameNumber(number),
                unit: block.index,
                payload_offset: 0,
            };
            replayer.frame(at, payload).map_err(|what| source.damaged(block.offset, what))?;
            read(source.at() - told);
            told = source.at();
        };
        read(source.at() - told);
        let mut ledger = replayer.ledger;
        let (incarnation, highest_term) = (ledger.incarnation(), ledger.highest_term());
        // Derives what is referred to, and lets everybody who held something hold it anew.
        ledger.start(now, &mut Effects::default());
        let contents = Contents {
            head,
            end_frame,
            incarnation,
            highest_term,
            queues: ledger.queue_count() as u64,
            messages: ledger.message_count(),
            leases: ledger.lease_count() as u64,
        };
        Ok(Self { source, ledger, contents, blocks })
    }

    /// Writes the state, raised, as the frames of a new journal.
    fn write(&mut self, dir: &Path, now: Now, raise: Raise) -> Result<(), RestoreFault> {
        let options = FileOptions::default();
        let mut journal = FileJournal::open(Arc::new(RealDisk), dir, options, &mut Nothing)?;
        let mut payload = Vec::new();
        let put = |change: &Change, payload: &mut Vec<u8>| {
            codec::encode_change(change, now.boot, payload);
        };
        put(&Change::TermsFrom { term: raise.terms_from }, &mut payload);
        let mut cursor = SnapshotCursor::new();
        while !cursor.is_done() {
            let frame = journal.prepare(0)?.number.0;
            let mut changes = Vec::new();
            self.ledger.snapshot(&mut cursor, 1, &mut |change| changes.push(change));
            for change in changes {
                match raise.raise(change, frame) {
                    Change::ContentAt { id, place } if place.unit != 0 => {
                        let content = self.content(id, place)?;
                        let full = payload.len() + content.len() > FRAME_BYTES;
                        if full && !payload.is_empty() {
                            append(&mut journal, &mut payload)?;
                        }
                        put(&Change::Content { id, index: 0, len: place.len }, &mut payload);
                        payload.extend_from_slice(&content);
                    }
                    change => put(&change, &mut payload),
                }
            }
            if payload.len() > FRAME_BYTES {
                append(&mut journal, &mut payload)?;
            }
        }
        append(&mut journal, &mut payload)?;
        Ok(journal.close()?)
    }

    /// The checksum of a content, and the content.
    fn content(&mut self, id: ContentId, place: Place) -> Result<Vec<u8>, RestoreFault> {
        let start = usize::try_from(place.unit).ok().and_then(|unit| self.blocks.get(unit));
        let start = start.expect("a content lies in a block that was read");
        let offset = start + u64::from(place.offset) - u64::from(CHECKSUM_BYTES);
        let mut bytes = vec![0; (CHECKSUM_BYTES + place.len) as usize];
        self.source.again(offset, &mut bytes)?;
        let (crc, content) = bytes.split_at(CHECKSUM_BYTES as usize);
        if crc32c::crc32c(content).to_le_bytes() != crc {
            return Err(self.source.damaged(offset, format!("content {} does not check", id.0)));
        }
        Ok(bytes)
    }
}

fn append(journal: &mut FileJournal, payload: &mut Vec<u8>) -> Result<(), RestoreFault> {
    journal.prepare(payload.len())?;
    journal.append(payload)?;
    payload.clear();
    Ok(())
}

/// A new journal has nothing to replay.
struct Nothing;

impl Replay for Nothing {
    fn snapshot(&mut self, _: &[u8]) -> Result<(), String> {
        Err("a snapshot in a store that is being made".into())
    }

    fn frame(&mut self, _: Prepared, _: &[u8]) -> Result<(), String> {
        Err("a frame in a store that is being made".into())
    }
}
