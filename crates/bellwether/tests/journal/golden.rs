//! Files of format 1, kept for ever: what today's program writes and reads is what it always was
//! (S5). `BELLWETHER_REWRITE_GOLDEN=1` writes them anew, which only a new format may need.

use std::path::{Path, PathBuf};

use bellwether::journal::Journal as _;
use bellwether::journal::file::{FileOptions, SimDisk};

use crate::world::{DIR, Frames, block, open_with, payload, run_jobs, tiny};

fn options() -> FileOptions {
    FileOptions { segment_bytes_max: 8 << 10, ..tiny() }
}

/// Two lives, a roll-over in each, a snapshot, marks.
fn write(disk: &SimDisk) -> Frames {
    let mut appended = Frames::new();
    for life in 0..2 {
        let (mut journal, _) = open_with(disk, options()).unwrap();
        for i in 0..6 {
            let at = journal.prepare(300 + i * 200).unwrap();
            let bytes = payload(at.number.0, 300 + i * 200);
            journal.append(&bytes).unwrap();
            appended.insert(at.number.0, bytes);
            journal.flusher().flush().unwrap();
        }
        if life == 0 {
            journal.snapshot_begin().unwrap();
            for (number, bytes) in &appended {
                journal.snapshot_block(Box::new(block(*number, bytes)));
            }
            journal.snapshot_end();
            run_jobs(&mut journal).unwrap();
        }
        journal.close().unwrap();
    }
    appended
}

fn is_kept(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "log" || e == "snapshot")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal/golden")
}

#[test]
fn format_1_is_written_and_read_as_ever() {
    let disk = SimDisk::new();
    let appended = write(&disk);
    let written = disk.files();
    if std::env::var_os("BELLWETHER_REWRITE_GOLDEN").is_some() {
        for (path, bytes) in written.iter().filter(|(path, _)| is_kept(path)) {
            std::fs::write(folder().join(path.file_name().unwrap()), bytes).unwrap();
        }
    }

    let golden = SimDisk::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let inside = Path::new(DIR).join(path.file_name().unwrap());
        let bytes = std::fs::read(&path).unwrap();
        assert!(written.get(&inside) == Some(&bytes), "{} is written otherwise", path.display());
        golden.put(&inside, &bytes);
        count += 1;
    }
    assert_eq!(count, written.keys().filter(|path| is_kept(path)).count());
    let (journal, recovered) = open_with(&golden, options()).unwrap();
    assert_eq!(recovered.frames, appended);
    assert_eq!(journal.report().incarnation, 3);
    assert_eq!(journal.report().snapshot, Some(1));
}
