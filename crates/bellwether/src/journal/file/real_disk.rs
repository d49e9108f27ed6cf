//! The disk of this machine.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

use super::disk::{Access, Disk, DiskFile, LockFault, LockGuard};

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = match dir.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        self.create_dir_all(parent)?;
        // What is kept there is for whoever made it alone.
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let write = access == Access::Write;
        Ok(Arc::new(RealFile(OpenOptions::new().read(true).write(write).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<LockGuard, LockFault> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(LockFault::Io)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // The text only helps a human; a full disk must not keep the store from opening.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(holder.as_bytes(), 0));
        Ok(Box::new(Locked(file)))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<LockGuard>, LockFault> {
        match File::open(path) {
            Ok(file) => {
                flock(&file, FlockOperation::NonBlockingLockShared)?;
                Ok(Some(Box::new(Locked(file))))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LockFault::Io(e)),
        }
    }
}

/// A file under a lock. Unlocked in so many words: a process that is just being started by this one
/// has the file open as well, until it becomes another program, and would keep the lock as long.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // If it fails, the lock goes with the file.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// `flock` and not a record lock: the kernel drops it with the process, however that ends.
fn flock(file: &File, operation: FlockOperation) -> Result<(), LockFault> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = vec![0; 512];
            let n = file.read_at(&mut text, 0).unwrap_or(0);
            let holder = String::from_utf8_lossy(&text[..n]).trim().to_owned();
            Err(LockFault::Held { holder })
        }
        Err(e) => Err(LockFault::Io(e.into())),
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, parts, offset)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            // Not every file system can; zero-filling finds out about space all the same.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
