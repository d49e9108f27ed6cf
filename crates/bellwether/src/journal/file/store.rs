//! The folder, the disk it is on, and how faults in it are worded.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{Disk, is_full};
use super::options::FileOptions;
use crate::journal::JournalFault;

#[derive(Debug)]
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: FileOptions,
}

impl Store {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        if cfg!(planted_bug = "forget_dir_sync") { Ok(()) } else { self.disk.sync_dir(&self.dir) }
    }

    pub(super) fn damaged(&self, name: &str, offset: u64, what: impl Into<String>) -> JournalFault {
        JournalFault::Damaged {
            file: self.path(name).display().to_string(),
            offset,
            what: what.into(),
        }
    }

    pub(super) fn full(&self) -> JournalFault {
        JournalFault::Full { path: self.dir.display().to_string() }
    }

    pub(super) fn broken(&self, what: &str, name: &str, cause: &io::Error) -> JournalFault {
        JournalFault::Broken {
            what: format!("{what} {}", self.path(name).display()),
            cause: cause.to_string(),
        }
    }

    pub(super) fn unreadable(&self, name: &str, cause: &io::Error) -> JournalFault {
        JournalFault::Unreadable {
            file: self.path(name).display().to_string(),
            cause: cause.to_string(),
        }
    }

    /// For work before the journal is open, where nothing was promised yet.
    pub(super) fn unusable(&self, what: &str, name: &str, cause: &io::Error) -> JournalFault {
        if is_full(cause) {
            return self.full();
        }
        JournalFault::Unusable {
            path: self.dir.display().to_string(),
            cause: format!("{what} {name}: {cause}"),
        }
    }
}
