//! Folders that are gone when the test is, and stores in them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bellwether::backup::{Restored, restore};
use bellwether::journal::file::FileOptions;
use bellwether::{Bellwether, Open};

static FOLDERS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let nth = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-backup-{}-{nth}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The store of that name, with units so small that they come and go.
    pub(crate) async fn open(&self, name: &str) -> Bellwether {
        let file = FileOptions {
            segment_bytes_max: 256 << 10,
            segment_bytes_first: 64 << 10,
            snapshot_after_bytes: 256 << 10,
            snapshot_room_bytes: 64 << 10,
            ..FileOptions::default()
        };
        let address = format!("file:{}", self.at(name).display());
        let open = Open::new(address).file_options(file).body_cache_bytes_max(0);
        open.open().await.unwrap()
    }

    /// Takes a backup into the file of that name.
    pub(crate) async fn back_up(&self, store: &Bellwether, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, bytes_of(store).await).unwrap();
        path
    }

    pub(crate) fn restore(&self, backup: &Path, name: &str) -> Restored {
        restore(backup, &self.at(name), |_| ()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A backup, whole.
pub(crate) async fn bytes_of(store: &Bellwether) -> Vec<u8> {
    let mut backup = store.backup();
    let mut bytes = Vec::new();
    while let Some(next) = backup.next().await.unwrap() {
        bytes.extend_from_slice(&next);
    }
    bytes
}
