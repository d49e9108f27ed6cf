//! The journal on a local disk: preallocated units, one row of checksummed frames.
//!
//! ```text
//!  0000…01.log            0000…02.log            0000…03.log
//!  ┌────────┬──┬──┬──┐    ┌────────┬──┬────┐     ┌────────┬──┬─ ─ ─
//!  │ header │ 1│ 2│ 3│    │ header │ 4│ /// │     │ header │ 5│ zeros
//!  └────────┴──┴──┴──┘    └────────┴──┴────┘     └────────┴──┴─ ─ ─
//!  first of life 1        next                   first of life 2: after (unit 2, offset, frame 5)
//! ```
//!
//! 1. A unit gets its name only after its bytes are flushed; a frame is written only after the
//!    unit's name is flushed. So a named unit always has a sound header.
//! 2. Every open starts a *life* with a fresh unit, numbered above every unit seen. Its header says
//!    where the earlier life was cut. Old units are never truncated; bytes behind a cut
//!    stay where they are and mean nothing.
//! 3. A unit's number is never used twice, and every frame carries it. So what a recycled unit
//!    still holds from its earlier use is never taken for a frame.
//! 4. Every frame names the highest frame known durable when it was written. Damage at or before
//!    the highest such number is damage; after it, it is a torn tail.
//! 5. A recycled unit's new name (`.spare`) is flushed before its bytes are written again.
//! 6. A snapshot gets its name only after it is flushed and every frame whose effect it may hold is
//!    durable; units before its start are given back only after its name is flushed.
//!
//! Files in the folder: `<unit>.log`, `<number>.snapshot`, `<id>.zero` and `<unit>.spare` (blank
//! units for later; the last one is the reserve for a full disk), `snapshot.room` (space for the
//! next snapshot), `cut-<unit>-<offset>.bin` (what recovery cut off), `*.tmp`, `lock`.

mod append;
mod check;
mod disk;
mod flusher;
mod frame;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzz;
mod job;
mod names;
mod open;
mod options;
mod real_disk;
mod scan;
mod segment;
#[cfg(any(test, feature = "testing"))]
mod sim_disk;
mod snapshot;
mod snapshot_writer;
mod snapshotting;
mod store;
mod supply;
mod survey;
mod tail;
mod walk;

pub use append::FileJournal;
pub use check::{State, Verdict, Visitor, check, dump};
pub use disk::{Access, Disk, DiskFile, LockFault, LockGuard};
pub use names::has_store;
pub use open::{CutTail, RecoveryReport};
pub use options::FileOptions;
pub use real_disk::RealDisk;
#[cfg(any(test, feature = "testing"))]
pub use sim_disk::{CrashChoice, Fault, SimDisk, TraceOp};

/// The newest on-disk format this program knows.
pub const FORMAT: u32 = 1;
