//! A file that has no name worth having yet.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// For this user alone, like the store; removed unless it is finished.
pub(crate) struct Unfinished {
    path: PathBuf,
    file: File,
}

impl Unfinished {
    /// Beside what it may become, and so on the same disk.
    pub(crate) fn beside(target: &Path) -> Result<Self, Failure> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let path = target.with_file_name(name);
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = made.map_err(|e| cannot_write(&path, &e))?;
        Ok(Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|e| cannot_write(&self.path, &e))
    }

    /// Flushed first, then named, then the name is flushed.
    pub(crate) fn finish(self, target: &Path) -> Result<(), Failure> {
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        self.file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.path, target))
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|e| cannot_write(target, &e))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already if it was finished.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Start(format!("cannot write {}: {error}", path.display()))
}
