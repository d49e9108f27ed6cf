//! The floor: overwriting in a preallocated, zero-filled file and flushing it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const FILE_BYTES: usize = 16 << 20;

pub(crate) struct Raw {
    file: File,
    block: Vec<u8>,
    offset: usize,
}

impl Raw {
    pub(crate) fn new(folder: &Path, block_bytes: usize) -> Self {
        let path = folder.join("raw");
        let file =
            OpenOptions::new().create(true).truncate(true).write(true).open(path).expect("a file");
        file.write_all_at(&vec![0; FILE_BYTES], 0).expect("room for it");
        file.sync_all().expect("a flush");
        Self { file, block: vec![0x5a; block_bytes], offset: 0 }
    }

    /// Writes and flushes `count` times, one behind the other; how long each took.
    pub(crate) fn run(&mut self, count: usize, times: &mut Vec<Duration>) {
        for _ in 0..count {
            if self.offset + self.block.len() > FILE_BYTES {
                self.offset = 0;
            }
            let start = Instant::now();
            self.file.write_all_at(&self.block, self.offset as u64).expect("a write");
            self.file.sync_data().expect("a flush");
            times.push(start.elapsed());
            self.offset += self.block.len();
        }
    }
}
