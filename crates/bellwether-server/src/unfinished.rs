//! A file that takes its place when it is whole: before, and after a crash, the old one is there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// For this user alone, like the store; removed unless it is finished.
pub(crate) struct Unfinished {
    path: PathBuf,
    file: File,
}

/// What could not be written, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub(crate) struct CannotWrite {
    path: PathBuf,
    pub(crate) error: io::Error,
}

impl Unfinished {
    /// Beside what it may become, and so on the same disk.
    pub(crate) fn beside(target: &Path) -> Result<Self, CannotWrite> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let path = target.with_file_name(name);
        // Left behind by one that died: its mode may be any.
        let _ = fs::remove_file(&path);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(CannotWrite { path, error }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CannotWrite> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| CannotWrite { path: self.path.clone(), error })
    }

    /// Flushed first, then named, then the name is flushed.
    pub(crate) fn finish(self, target: &Path) -> Result<(), CannotWrite> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, target))
            .and_then(|()| File::open(folder.unwrap_or(Path::new(".")))?.sync_all())
            .map_err(|error| CannotWrite { path: target.into(), error })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already if it was finished.
        let _ = fs::remove_file(&self.path);
    }
}
