//! The engine that keeps everything in a folder.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use bellwether::conformance::{Fixture, Opening, Store};
use bellwether::{Open, VirtualClock};

static STORES: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
struct File {
    clock: VirtualClock,
    /// One folder for each life after a kill.
    root: PathBuf,
    lives: AtomicU32,
}

impl File {
    fn new() -> Self {
        let nth = STORES.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-engines-{}-{nth}", std::process::id());
        let root = std::env::temp_dir().join(name);
        Self { clock: VirtualClock::new(), root, lives: AtomicU32::new(0) }
    }

    fn folder(&self, life: u32) -> PathBuf {
        self.root.join(life.to_string())
    }
}

impl Store for File {
    fn open(&self, memory_bytes_max: Option<u64>) -> Opening<'_> {
        let folder = self.folder(self.lives.load(Ordering::Relaxed));
        let mut open = Open::new(format!("file:{}", folder.display())).clock(self.clock.clone());
        if let Some(bytes) = memory_bytes_max {
            open = open.memory_bytes_max(bytes);
        }
        Box::pin(open.open())
    }

    /// What a kill leaves is what the kernel was given. A copy of the folder in this moment is
    /// just that: the engine goes on over the original, and nobody looks at it again.
    fn kill(&self) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let (old, new) = (self.folder(life), self.folder(life + 1));
        std::fs::create_dir_all(&new).unwrap();
        for entry in std::fs::read_dir(&old).unwrap() {
            let name = entry.unwrap().file_name();
            match std::fs::copy(old.join(&name), new.join(&name)) {
                // Renamed meanwhile, by the work that goes on in the background.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            }
        }
    }

    fn clock(&self) -> Option<VirtualClock> {
        Some(self.clock.clone())
    }
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
    Fixture::open(File::new()).await
}

bellwether::conformance_tests! { fixture: fixture, restart: yes, virtual_clock: yes }
