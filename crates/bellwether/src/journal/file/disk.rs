//! What the journal asks of a disk: small enough that a test can be one.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// Holds a lock until it is dropped, or the process dies.
pub type LockGuard = Box<dyn Send + Sync>;

/// Why a lock was not taken.
#[derive(Debug)]
pub enum LockFault {
    /// Another process has it; the text is what that process left in the lock file.
    Held {
        /// Its words.
        holder: String,
    },
    /// The lock file could not be used.
    Io(io::Error),
}

/// A disk. Names become durable by [`Disk::sync_dir`], bytes by [`DiskFile::sync_data`].
pub trait Disk: Send + Sync + Debug {
    /// Makes the folder, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The names in a folder, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// A new empty file; replaces one of the same name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// An existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name; who has the file open keeps it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that files in a folder can still take.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Takes the lock alone, without waiting, and leaves `holder` in the lock file.
    fn lock(&self, path: &Path, holder: &str) -> Result<LockGuard, LockFault>;
    /// Keeps others from [`Disk::lock`] while reading, without changing anything. `None` if there
    /// is no lock file.
    fn lock_shared(&self, path: &Path) -> Result<Option<LockGuard>, LockFault>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads some bytes; 0 at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some of the bytes of all parts, one behind the other, and says how many.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes the bytes and the length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes everything durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Makes sure there is room for the first `len` bytes; grows the file, never shrinks it.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// True if there are no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Writes all of `bytes`, however often the disk stops short.
pub(super) fn write_all(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all_parts(file, &mut [IoSlice::new(bytes)], offset)
}

/// The same for bytes that lie apart.
pub(super) fn write_all_parts(
    file: &dyn DiskFile,
    mut parts: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    // Empty parts at the front are nothing to write.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_at(parts, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                IoSlice::advance_slices(&mut parts, n);
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads until `bytes` is full or the file ends; says how many.
pub(super) fn read_full(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// True for the errors that freeing space cures.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
