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
/// Lines a second about what was refused. Whoever may do nothing must not be able to push out of the
/// file what others did; how often it tried is counted all the same.
const REFUSED_PER_S_MAX: u32 = 10;

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
    /// A second, and how many lines about what was refused were written in it.
    refused: (u64, u32),
}

/// One line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) rule: &'a str,
    pub(super) from: &'a str,
    pub(super) what: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) outcome: &'a str,
    /// Whether it was refused for want of the right.
    pub(super) is_refused: bool,
}

impl Audit {
    /// Kept at `path`, or nowhere.
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        let kept = path.map(|path| Mutex::new(Kept { path, file: None, refused: (0, 0) }));
        Self { kept, failed: AtomicU64::new(0) }
    }

    pub(super) fn write(&self, now: WallTime, line: &Line<'_>) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_refused && !kept.takes_refused(now) {
            return;
        }
        let Line { rule, from, what, name, outcome, .. } = line;
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
        if let Err(e) = kept.append(text.as_bytes()) {
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
    /// Whether there may be one more line about what was refused.
    fn takes_refused(&mut self, now: WallTime) -> bool {
        let second = now.0 / 1000;
        if self.refused.0 != second {
            self.refused = (second, 0);
        }
        self.refused.1 += 1;
        self.refused.1 <= REFUSED_PER_S_MAX
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let (mut file, mut bytes) = self.file.take().map_or_else(|| self.open(), Ok)?;
        // If it cannot be put aside it grows on: no line is lost for that.
        if bytes + line.len() as u64 > FILE_BYTES_MAX && self.put_aside().is_ok() {
            (file, bytes) = self.open()?;
        }
        if let Err(e) = file.write_all(line) {
            // Half a line would spoil the next one.
            let _ = file.set_len(bytes);
            return Err(e);
        }
        self.file = Some((file, bytes + line.len() as u64));
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    fn put_aside(&self) -> io::Result<()> {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".1");
        std::fs::rename(&self.path, Path::new(&aside))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A folder that is gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("bellwether-audit-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn lines(&self, name: &str) -> usize {
            let text = std::fs::read_to_string(self.0.join(name)).unwrap();
            let is_whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
            assert!(text.ends_with('\n') && text.lines().all(is_whole), "{text}");
            text.lines().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const LINE: Line<'static> = Line {
        rule: "root",
        from: "socket",
        what: "purge",
        name: Some("q"),
        outcome: "done",
        is_refused: false,
    };

    fn write(audit: &Audit) {
        audit.write(WallTime(0), &LINE);
    }

    #[test]
    fn who_may_do_nothing_does_not_fill_the_file() {
        let folder = Folder::new();
        let audit = Audit::new(Some(folder.0.join("audit.log")));
        for _ in 0..1000 {
            audit.write(WallTime(5_999), &Line { is_refused: true, ..LINE });
        }
        audit.write(WallTime(5_999), &LINE);
        audit.write(WallTime(6_000), &Line { is_refused: true, ..LINE });
        assert_eq!(folder.lines("audit.log"), 12);
    }

    #[test]
    fn a_full_file_is_put_aside_and_no_line_is_lost() {
        let folder = Folder::new();
        let path = folder.0.join("audit.log");
        let audit = Audit::new(Some(path.clone()));
        write(&audit);
        // A hole: it is as long as if it were full.
        let fill = || File::options().write(true).open(&path).unwrap().set_len(FILE_BYTES_MAX);
        fill().unwrap();
        let audit = Audit::new(Some(path.clone()));
        write(&audit);
        write(&audit);
        assert_eq!(std::fs::metadata(folder.0.join("audit.log.1")).unwrap().len(), FILE_BYTES_MAX);
        assert_eq!((folder.lines("audit.log"), audit.failed()), (2, 0));
        // What cannot be put aside grows on.
        std::fs::remove_file(folder.0.join("audit.log.1")).unwrap();
        std::fs::create_dir(folder.0.join("audit.log.1")).unwrap();
        fill().unwrap();
        let audit = Audit::new(Some(path.clone()));
        write(&audit);
        assert!(std::fs::metadata(&path).unwrap().len() > FILE_BYTES_MAX);
        assert_eq!(audit.failed(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_line_is_tried_again() {
        let full = Audit::new(Some("/dev/full".into()));
        write(&full);
        write(&full);
        assert_eq!(full.failed(), 2);
        let folder = Folder::new();
        let place = folder.0.join("later");
        let audit = Audit::new(Some(place.join("audit.log")));
        write(&audit);
        assert_eq!(audit.failed(), 1);
        std::fs::create_dir(&place).unwrap();
        write(&audit);
        assert_eq!((folder.lines("later/audit.log"), audit.failed()), (1, 1));
    }
}
