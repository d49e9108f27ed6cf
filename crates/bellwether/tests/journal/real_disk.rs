//! The same on the disk of this machine.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether::journal::file::{Disk as _, FileJournal, RealDisk, State, check};
use bellwether::journal::{Journal as _, JournalFault};

use crate::world::{Recovered, payload, run_jobs, tiny};

struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let name = format!("bellwether-journal-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_store_on_a_real_disk_survives_being_closed_and_killed() {
    let dir = TempDir::new("smoke");
    let dir = dir.0.join("deeper");
    let disk = Arc::new(RealDisk);
    let mut want = crate::world::Frames::new();
    for life in 0..3 {
        let mut recovered = Recovered::default();
        let mut journal = FileJournal::open(disk.clone(), &dir, tiny(), &mut recovered).unwrap();
        assert_eq!(recovered.frames, want);
        let second = FileJournal::open(disk.clone(), &dir, tiny(), &mut Recovered::default());
        let fault = second.unwrap_err();
        assert!(matches!(&fault, JournalFault::InUse { holder, .. } if holder == "pid 1, a test"));
        for len in 1..80 {
            let at = journal.prepare(len * 9).unwrap();
            let bytes = payload(at.number.0, len * 9);
            journal.append(&bytes).unwrap();
            want.insert(at.number.0, bytes);
            run_jobs(&mut journal).unwrap();
        }
        journal.flusher().flush().unwrap();
        if life == 1 {
            journal.close().unwrap();
        }
    }
    let verdict = check(disk, &dir).unwrap();
    assert!(matches!(verdict.state, State::Clean), "{verdict:?}");
    assert_eq!(verdict.incarnation, 3);
}

/// A process that this one is starting has all its files open until it becomes another program.
#[test]
fn a_lock_ends_with_its_holder_also_while_processes_are_started() {
    let dir = TempDir::new("lock");
    std::fs::create_dir_all(&dir.0).unwrap();
    let path = dir.0.join("lock");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let locked = (0..3_000).all(|_| RealDisk.lock(&path, "a test").is_ok());
        is_over.store(true, Ordering::Relaxed);
        assert!(locked, "somebody else has it");
    });
}
