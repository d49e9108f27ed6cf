//! The record of what was managed: one line of JSON each, in a file that only grows.
//!
//! At [`FILE_BYTES_MAX`] the file is put aside under `.1`, in the place of the one before. A line that
//! cannot be written stops nothing; it is logged and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bellwether_core::time::WallTime;
use serde_json::json;

use crate::time;

const FILE_BYTES_MAX: u64 = 64 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    kept: Option<Mutex<Kept>>,
    failed: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: Option<(File, u64)>,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) rule: &'a str,
    pub(super) from: &'a str,
    pub(super) what: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) outcome: &'a str,
}

impl Audit {
    /// Kept at `path`, or nowhere.
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        let kept = path.map(|path| Mutex::new(Kept { path, file: None }));
        Self { kept, failed: AtomicU64::new(0) }
    }

    pub(super) fn write(&self, now: WallTime, line: &Line<'_>) {
        let Some(kept) = &self.kept else { return };
        let Line { rule, from, what, name, outcome } = line;
        let mut text = json!({
            "at": time::of_wall(now),
            "rule": rule,
            "from": from,
            "what": what,
            "name": name,
            "outcome": outcome,
        })
        .to_string();
        text.push('\n');
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = kept.append(text.as_bytes()) {
            kept.file = None;
            // Now and then: a full disk is not to fill the log as well.
            if self.failed.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
                let path = kept.path.display();
                tracing::error!(error = %e, %path, "the audit log cannot be written; serving goes on");
            }
        }
    }

    /// Lines that could not be written.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Kept {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|(_, bytes)| bytes + line.len() as u64 > FILE_BYTES_MAX) {
            let mut aside = self.path.as_os_str().to_owned();
            aside.push(".1");
            std::fs::rename(&self.path, Path::new(&aside))?;
            self.file = None;
        }
        let (file, bytes) = match &mut self.file {
            Some(open) => open,
            none => {
                let mut options = OpenOptions::new();
                let file = options.append(true).create(true).mode(0o600).open(&self.path)?;
                let bytes = file.metadata()?.len();
                none.insert((file, bytes))
            }
        };
        file.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }
}
