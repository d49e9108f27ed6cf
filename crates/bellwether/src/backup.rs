//! Backups of a store that goes on, and new stores out of them.
//!
//! ```text
//!   start   │magic 8 │format 4
//!   block   │len 4   │crc 4    │index 8 │kind 1 │bytes …          len: of kind and bytes
//!
//!   head, state …, frame …, end                                   blocks, in this order
//! ```
//!
//! The state is a row of changes as in a frame of the journal, each content behind its change. The
//! frames are those written while the state was taken, and are replayed over it. Without its end a
//! backup is none; [`restore`] reads it all before it writes anything.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::io::Write as _;
//!
//! let bw = bellwether::Bellwether::open("bellwether://127.0.0.1:7401").await?;
//! let mut file = std::fs::File::create("store.backup")?;
//! let mut backup = bw.backup();
//! while let Some(bytes) = backup.next().await? {
//!     file.write_all(&bytes)?;
//! }
//! file.sync_all()?;
//!
//! let restored = bellwether::backup::restore("store.backup".as_ref(), "data".as_ref(), |_| ())?;
//! println!("{} messages", restored.contents.messages);
//! # Ok(()) }
//! ```

mod block;
mod read;
mod restore;
mod take;

use std::io;
use std::path::PathBuf;

use bellwether_core::name::{Incarnation, Term};
use bellwether_core::time::WallTime;

pub use restore::{Restored, restore, verify};
pub use take::Backup;

use crate::journal::JournalFault;

/// The newest format of a backup that this program knows.
pub const FORMAT: u32 = 1;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it began.
    pub taken_at: WallTime,
    /// The frame of the store's journal that was being filled then: everything before is in it.
    pub frame: u64,
    /// About how many bytes of state it has.
    pub bytes: u64,
    /// The program that took it.
    pub program: String,
}

/// What is in a backup that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// What it says of itself.
    pub head: Head,
    /// The last frame whose effect is in it.
    pub end_frame: u64,
    /// In which life the store was.
    pub incarnation: Incarnation,
    /// The highest term granted to anybody.
    pub highest_term: Term,
    /// How many queues.
    pub queues: u64,
    /// How many messages, in whatever state.
    pub messages: u64,
    /// How many leases.
    pub leases: u64,
}

/// Why a backup could not be restored. Nothing was left in the folder.
#[derive(Debug, thiserror::Error)]
pub enum RestoreFault {
    /// It is not a sound backup.
    #[error(
        "{file} is damaged at byte {offset}: {what}; nothing was restored; use another copy of it"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// It is no backup.
    #[error("{file} is not a backup; `bellwether backup` writes one")]
    NotABackup {
        /// The file.
        file: String,
    },
    /// Written by a program newer than this one.
    #[error(
        "{file} has format {found}, this program knows up to {FORMAT}; use the newer program that wrote it"
    )]
    UnknownVersion {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
    },
    /// The folder has a store.
    #[error(
        "{} holds a store, which a restore does not touch; name a folder without one, or move that one away",
        .0.display()
    )]
    Occupied(PathBuf),
    /// The file or the folder cannot be used.
    #[error("cannot {what}: {cause}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// The system's words.
        cause: io::Error,
    },
    /// The new store cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalFault),
}

impl RestoreFault {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |cause| Self::Io { what, cause }
    }
}
