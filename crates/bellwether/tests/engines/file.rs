//! The engine that keeps everything in a folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use bellwether::conformance::{Fixture, Opening, Store};
use bellwether::journal::file::FileOptions;
use bellwether::{Open, VirtualClock};

static STORES: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub(crate) struct File {
    options: FileOptions,
    body_cache_bytes_max: usize,
    clock: VirtualClock,
    /// One folder for each life after a kill.
    root: PathBuf,
    lives: AtomicU32,
}

impl File {
    pub(crate) fn new(options: FileOptions, body_cache_bytes_max: usize) -> Self {
        let nth = STORES.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-engines-{}-{nth}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let (clock, lives) = (VirtualClock::new(), AtomicU32::new(0));
        Self { options, body_cache_bytes_max, clock, root, lives }
    }

    fn folder(&self, life: u32) -> PathBuf {
        self.root.join(life.to_string())
    }
}

impl Store for File {
    fn open(&self, memory_bytes_max: Option<u64>) -> Opening<'_> {
        let folder = self.folder(self.lives.load(Ordering::Relaxed));
        let mut open = Open::new(format!("file:{}", folder.display()))
            .clock(self.clock.clone())
            .body_cache_bytes_max(self.body_cache_bytes_max)
            .file_options(self.options.clone());
        if let Some(bytes) = memory_bytes_max {
            open = open.memory_bytes_max(bytes);
        }
        Box::pin(open.open())
    }

    /// What a kill leaves is what the kernel was given. A copy of the folder in one moment is
    /// just that: the engine goes on over the original, and nobody looks at it again.
    fn kill(&self) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let (old, new) = (self.folder(life), self.folder(life + 1));
        loop {
            let before = listing(&old);
            std::fs::create_dir_all(&new).unwrap();
            let copied =
                before.keys().all(|name| std::fs::copy(old.join(name), new.join(name)).is_ok());
            // Work in the background goes on: one moment is when nothing has changed meanwhile.
            if copied && listing(&old) == before {
                return;
            }
            std::fs::remove_dir_all(&new).unwrap();
        }
    }

    fn clock(&self) -> Option<VirtualClock> {
        Some(self.clock.clone())
    }

    fn loses_answers(&self) -> bool {
        false
    }
}

fn listing(folder: &Path) -> BTreeMap<OsString, Option<(u64, SystemTime)>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let seen = entry.metadata().ok().map(|meta| (meta.len(), meta.modified().unwrap()));
            (entry.file_name(), seen)
        })
        .collect()
}

impl Drop for File {
    fn drop(&mut self) {
        // A case that failed leaves its store behind, to look at.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

async fn fixture() -> Fixture {
    Fixture::open(File::new(FileOptions::default(), 64 << 20)).await
}

bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
