//! Where changes are kept: the seam between the engine and what outlives it.
//!
//! A journal is a row of *units* (for the file journal: segments). The engine hands it *frames*,
//! one per batch of commands, each an opaque payload. The journal promises, in this order:
//!
//! 1. **Position first.** [`Journal::prepare`] says where the next payload will lie; `append`
//!    puts it exactly there or fails.
//! 2. **Appended** means handed to the kernel: a crash of this process cannot lose it.
//! 3. **Durable** means flushed: a power cut cannot lose it. [`Flush::flush`] says how far.
//! 4. After the first failed write or flush nothing becomes durable any more in this life
//!    ([`JournalFault::Broken`]): a flush that failed once cannot be repeated, the kernel has
//!    already forgotten the pages.
//! 5. Want of space *before* a unit is written is not a failure but back-pressure
//!    ([`Pressure::Full`]), and so is little of it ([`Pressure::Low`]).
//!
//! The journal has no threads. What takes long (filling the next unit, writing a snapshot) is
//! handed out as a [`Job`] that may run anywhere, so that the simulator can run the same code.

use std::sync::Arc;

use bellwether_core::content::Place;

pub mod file;

/// Number of a frame; grows by one with every frame, for ever, across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(pub u64);

/// Where a frame's payload will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The frame this will be.
    pub number: FrameNumber,
    /// The unit it will lie in.
    pub unit: u64,
    /// Offset of the payload's first byte in that unit.
    pub payload_offset: u32,
}

/// Whether there is room for what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Room for everybody.
    None,
    /// Less free space than is to be kept: senders must be refused; settling goes on in what is left.
    Low,
    /// No room for a further unit: senders must be refused; settling goes on in the reserve.
    Full,
}

/// What went wrong in the machinery of a journal.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalFault {
    /// The disk is full and the reserve is used up. Nothing was written; free space and try again.
    #[error(
        "the disk that holds {path} is full and the reserve is used up; free some space, work resumes by itself"
    )]
    Full {
        /// The folder.
        path: String,
    },
    /// A write or flush failed. Nothing more becomes durable in this process life.
    #[error(
        "the journal stopped after an I/O error ({what}): {cause}; nothing acknowledged is lost; check the disk, then restart"
    )]
    Broken {
        /// The call that failed and on what.
        what: String,
        /// The system's words.
        cause: String,
    },
    /// Bytes that were durable are damaged.
    #[error(
        "damage in {file} at byte {offset}: {what}; nothing was changed on disk; run `bellwether journal check` on the folder and restore that file from a copy"
    )]
    Damaged {
        /// The damaged file.
        file: String,
        /// Where the damage starts.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// Written by a program newer than this one.
    #[error(
        "{file} has format {found}, this program knows up to {known}; use the newer program that wrote it"
    )]
    UnknownVersion {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// The newest format we know.
        known: u32,
    },
    /// Another process has the store open.
    #[error(
        "{path} is open in another process ({holder}); one process at a time may open a store, others reach it through `bellwether serve`"
    )]
    InUse {
        /// The folder.
        path: String,
        /// What the lock file says of the other one.
        holder: String,
    },
    /// A frame that no unit can hold. Nothing was written; split the batch.
    #[error(
        "a frame of {len} bytes is larger than the {max} that one unit holds; send less at once, or open the store with larger segments"
    )]
    TooLarge {
        /// The payload's length.
        len: usize,
        /// The longest there can be.
        max: usize,
    },
    /// A unit could not be read just now. Nothing is lost.
    #[error("cannot read {file}: {cause}; try again, and look at the disk if it stays so")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's words.
        cause: String,
    },
    /// Used after it was closed.
    #[error("{path} was closed; open it again")]
    Closed {
        /// The folder.
        path: String,
    },
    /// The folder cannot be used.
    #[error("cannot open {path}: {cause}")]
    Unusable {
        /// The folder.
        path: String,
        /// The system's words.
        cause: String,
    },
}

/// Receives what a journal holds, once, at open: first the snapshot's blocks, then the frames
/// from the snapshot's start on. An `Err` names what in the payload does not make sense; the
/// journal turns it into [`JournalFault::Damaged`] with the file and offset.
pub trait Replay {
    /// One block of the newest snapshot.
    fn snapshot(&mut self, block: &[u8]) -> Result<(), String>;
    /// One frame's payload and where it lies. Marks (empty payloads) are not replayed.
    fn frame(&mut self, at: Prepared, payload: &[u8]) -> Result<(), String>;
}

/// Makes appended frames durable. Callable from another thread than the journal's.
pub trait Flush: Send + Sync {
    /// Flushes everything appended so far and says up to which frame all is durable.
    fn flush(&self) -> Result<FrameNumber, JournalFault>;
    /// Up to which frame all is durable, without waiting.
    fn flushed(&self) -> FrameNumber;
    /// Whether something was appended that is not known to be durable.
    fn is_wanted(&self) -> bool;
}

/// Reads contents by place. Callable from any thread. A reader obtained before a unit is
/// recycled keeps reading the old bytes.
pub trait Read: Send + Sync {
    /// The bytes at `place`, unchecked: the caller verifies the content's own checksum.
    fn read(&self, place: Place) -> Result<Vec<u8>, JournalFault>;
}

/// Work that takes long and may run on any thread; its result goes to [`Journal::job_done`].
pub trait Job: Send {
    /// Does the work.
    fn run(self: Box<Self>) -> Box<dyn std::any::Any + Send>;
}

/// A block of a snapshot that is encoded where there is time for it: in a job.
pub trait Block: Send + std::fmt::Debug {
    /// The block's bytes.
    fn encode(self: Box<Self>) -> Vec<u8>;
}

impl Block for Vec<u8> {
    fn encode(self: Box<Self>) -> Vec<u8> {
        *self
    }
}

/// One shard's journal.
pub trait Journal: Send {
    /// The longest payload that [`Journal::prepare`] accepts.
    fn frame_bytes_max(&self) -> usize;

    /// Where a payload of `len` bytes will lie if it is appended next. Moves on to the next unit
    /// when the current one has no room.
    fn prepare(&mut self, len: usize) -> Result<Prepared, JournalFault>;

    /// Appends the payload at the position last prepared for its length.
    fn append(&mut self, payload: &[u8]) -> Result<FrameNumber, JournalFault>;

    /// Appends a mark: an empty frame that names how far all is durable, so that recovery can
    /// tell a torn tail from damage. Called by an idle writer and at the end.
    fn mark(&mut self) -> Result<FrameNumber, JournalFault>;

    /// The flusher.
    fn flusher(&self) -> Arc<dyn Flush>;

    /// A reader for one unit, or `None` if the unit is no longer kept. Fails with
    /// [`JournalFault::Unreadable`] if it cannot be opened just now.
    fn reader(&self, unit: u64) -> Result<Option<Arc<dyn Read>>, JournalFault>;

    /// Whether there is room.
    fn pressure(&self) -> Pressure;

    /// It is time to look how much space others have left on the disk: a job does.
    fn look_for_space(&mut self);

    /// Whether [`Journal::next_job`] has something that should begin soon.
    fn has_job(&self) -> bool;

    /// The next piece of long work, if any. At most a few are out at a time.
    fn next_job(&mut self) -> Option<Box<dyn Job>>;

    /// Takes a job's result.
    fn job_done(&mut self, result: Box<dyn std::any::Any + Send>) -> Result<(), JournalFault>;

    /// True when enough was appended since the last snapshot that a new one is worth its cost.
    fn wants_snapshot(&self) -> bool;

    /// Starts a snapshot: everything appended from here on is replayed on top of it. The engine
    /// then hands over blocks as it gets to them.
    fn snapshot_begin(&mut self) -> Result<(), JournalFault>;

    /// One block of the snapshot under way; encoded and written by a job.
    fn snapshot_block(&mut self, block: Box<dyn Block>);

    /// Whether a snapshot is under way. One that was begun is given up for want of space.
    fn has_snapshot(&self) -> bool;

    /// How many blocks no job has taken yet; they are in memory until then.
    fn snapshot_blocks_waiting(&self) -> usize;

    /// No more blocks follow. Once the jobs have made the snapshot durable, and every frame
    /// appended before this call is durable, it replaces the previous one.
    fn snapshot_end(&mut self);

    /// Gives back units: `live_bytes(unit)` says how many bytes of content are still wanted
    /// there. Units before the newest snapshot's start with none are recycled.
    fn reclaim(&mut self, live_bytes: &dyn Fn(u64) -> u64);

    /// The unit best worth emptying by carrying its live contents forward, if the journal holds
    /// too much that is dead.
    fn sparse_unit(&self, live_bytes: &dyn Fn(u64) -> u64) -> Option<u64>;

    /// Reads the frames of one unit, from `offset` on, at most about `bytes_max`; returns the
    /// offset to go on from, or `None` at the unit's end. For carrying forward and for checking.
    fn scan(
        &self,
        unit: u64,
        offset: u32,
        bytes_max: usize,
        visit: &mut dyn FnMut(Prepared, &[u8]),
    ) -> Result<Option<u32>, JournalFault>;

    /// Writes a closing mark, flushes, and lets go of the lock.
    fn close(&mut self) -> Result<(), JournalFault>;
}
