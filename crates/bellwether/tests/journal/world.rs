//! What the tests share: a small store, a model of what it must hold, a fixed workload.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bellwether::journal::file::{FileJournal, FileOptions, SimDisk};
use bellwether::journal::{Journal, JournalFault, Prepared, Replay};

pub(crate) const DIR: &str = "/store";

/// Units of 16 KiB: everything that happens to large ones happens here within a few frames.
pub(crate) fn tiny() -> FileOptions {
    FileOptions {
        segment_bytes_max: 16 << 10,
        segment_bytes_first: 8 << 10,
        snapshot_after_bytes: 24 << 10,
        snapshot_room_bytes: 1 << 10,
        free_bytes_min: 0,
        holder: "pid 1, a test".into(),
        salt: 7,
    }
}

/// Payloads by frame number: what a store holds, or must hold.
pub(crate) type Frames = BTreeMap<u64, Vec<u8>>;

/// A state machine whose changes set state: frame n sets entry n; a snapshot lists entries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recovered {
    pub(crate) frames: Frames,
    pub(crate) replayed: Vec<u64>,
    pub(crate) blocks: usize,
}

impl Replay for Recovered {
    fn snapshot(&mut self, block: &[u8]) -> Result<(), String> {
        let (number, payload) = block.split_first_chunk::<8>().ok_or("short block")?;
        self.frames.insert(u64::from_le_bytes(*number), payload.to_vec());
        self.blocks += 1;
        Ok(())
    }

    fn frame(&mut self, at: Prepared, payload: &[u8]) -> Result<(), String> {
        self.frames.insert(at.number.0, payload.to_vec());
        self.replayed.push(at.number.0);
        Ok(())
    }
}

pub(crate) fn block(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut block = number.to_le_bytes().to_vec();
    block.extend_from_slice(payload);
    block
}

pub(crate) fn open_with(
    disk: &SimDisk,
    options: FileOptions,
) -> Result<(FileJournal, Recovered), JournalFault> {
    let mut recovered = Recovered::default();
    let journal =
        FileJournal::open(Arc::new(disk.clone()), Path::new(DIR), options, &mut recovered)?;
    Ok((journal, recovered))
}

pub(crate) fn open(disk: &SimDisk) -> Result<(FileJournal, Recovered), JournalFault> {
    open_with(disk, tiny())
}

/// Runs long work until there is none; gives up after a while, as a full disk never runs dry.
pub(crate) fn run_jobs(journal: &mut FileJournal) -> Result<(), JournalFault> {
    for _ in 0..50 {
        match journal.next_job() {
            Some(job) => journal.job_done(job.run())?,
            None => break,
        }
    }
    Ok(())
}

pub(crate) fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 32) as u8
        })
        .collect()
}

const DURABLE: u64 = 1 << 63;

/// Drives a journal and keeps the books.
pub(crate) struct Driver {
    pub(crate) disk: SimDisk,
    pub(crate) journal: FileJournal,
    /// All frames that were handed to the journal, whatever became of them.
    pub(crate) appended: Frames,
    /// Highest frame that was reported durable.
    pub(crate) durable: u64,
}

impl Driver {
    pub(crate) fn open(disk: &SimDisk) -> Result<(Self, Recovered), JournalFault> {
        Self::open_with(disk, tiny())
    }

    pub(crate) fn open_with(
        disk: &SimDisk,
        options: FileOptions,
    ) -> Result<(Self, Recovered), JournalFault> {
        let (journal, recovered) = open_with(disk, options)?;
        let appended = recovered.frames.clone();
        let durable = journal.flusher().flushed().0;
        disk.note(DURABLE | durable);
        Ok((Self { disk: disk.clone(), journal, appended, durable }, recovered))
    }

    pub(crate) fn append(&mut self, len: usize) -> Result<(), JournalFault> {
        let at = self.journal.prepare(len)?;
        let bytes = payload(at.number.0, len);
        self.disk.note(at.number.0);
        self.appended.insert(at.number.0, bytes.clone());
        assert_eq!(self.journal.append(&bytes)?, at.number);
        Ok(())
    }

    pub(crate) fn mark(&mut self) -> Result<(), JournalFault> {
        self.journal.mark().map(|_| ())
    }

    pub(crate) fn flush(&mut self) -> Result<(), JournalFault> {
        let durable = self.journal.flusher().flush()?.0;
        assert!(durable >= self.durable);
        self.durable = durable;
        self.disk.note(DURABLE | durable);
        Ok(())
    }

    pub(crate) fn jobs(&mut self) -> Result<(), JournalFault> {
        run_jobs(&mut self.journal)
    }

    /// A fuzzy snapshot: frames are appended while its blocks are written.
    pub(crate) fn snapshot(&mut self) -> Result<(), JournalFault> {
        self.journal.snapshot_begin()?;
        let entries: Vec<Vec<u8>> = self.appended.iter().map(|(n, p)| block(*n, p)).collect();
        let half = entries.len() / 2;
        for entry in &entries[..half] {
            self.journal.snapshot_block(Box::new(entry.clone()));
        }
        self.jobs()?;
        self.append(300)?;
        self.append(700)?;
        let late: Vec<Vec<u8>> = self.appended.iter().map(|(n, p)| block(*n, p)).collect();
        for entry in &late[half..] {
            self.journal.snapshot_block(Box::new(entry.clone()));
        }
        self.journal.snapshot_end();
        self.jobs()?;
        self.append(100)?;
        self.flush()?;
        self.jobs()
    }

    /// A fixed run that passes through everything a journal does.
    pub(crate) fn workload(&mut self) -> Result<(), JournalFault> {
        for round in 0..6_usize {
            for i in 0..9 {
                self.append(40 + (round * 131 + i * 197) % 900)?;
                if i == 4 {
                    self.jobs()?;
                }
            }
            if round % 2 == 1 {
                self.flush()?;
                self.mark()?;
            }
            if round == 3 {
                self.snapshot()?;
                self.journal.reclaim(&|unit| u64::from(unit == 1));
                self.jobs()?;
            }
        }
        self.flush()?;
        self.append(500)
    }
}

/// From a disk's note: a frame that is about to be appended, or how far all is durable.
pub(crate) enum Note {
    Appending(u64),
    Durable(u64),
}

impl Note {
    pub(crate) fn of(note: u64) -> Self {
        if note & DURABLE == 0 { Self::Appending(note) } else { Self::Durable(note & !DURABLE) }
    }
}

/// What every recovery must keep: all that was durable, nothing that was never appended, every
/// byte as it was, in order and without gaps.
pub(crate) fn assert_sound(
    journal: &mut FileJournal,
    recovered: &Recovered,
    appended: &Frames,
    durable: u64,
    appending: u64,
) {
    let next = journal.prepare(1).map_or(u64::MAX, |at| at.number.0);
    for (number, bytes) in &recovered.frames {
        assert!(*number <= appending, "frame {number} was never appended");
        assert_eq!(Some(bytes), appended.get(number), "frame {number} has other bytes");
        assert!(*number < next, "frame {number} came out of a snapshot although it was cut");
    }
    for number in appended.keys().filter(|n| **n <= durable || **n < next.min(appending)) {
        assert!(recovered.frames.contains_key(number), "frame {number} of {durable} is lost");
    }
    assert!(recovered.replayed.is_sorted(), "replayed out of order");
    assert!(next > durable, "number {next} would be used twice");
}
