//! The simulated disk's calls.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::disk::{Access, Disk, DiskFile, LockFault, LockGuard};
use super::{Fault, SimDisk, TraceOp, eio};

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: u64,
}

struct SimLock(SimDisk, PathBuf);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.world().locks.remove(&self.1);
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        self.world().may()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.may()?;
        let inside = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.may()?;
        let inode = world.inode_next;
        world.act(TraceOp::Create(path.to_owned(), inode));
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.may()?;
        let inode = world.find(path)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.may()?;
        world.find(from)?;
        world.act(TraceOp::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.may()?;
        world.find(path)?;
        world.act(TraceOp::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.may()?;
        world.act(TraceOp::SyncDir);
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let mut world = self.world();
        world.may()?;
        Ok(world.capacity.map_or(u64::MAX, |bytes| bytes.saturating_sub(world.used())))
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<LockGuard, LockFault> {
        let mut world = self.world();
        world.may().map_err(LockFault::Io)?;
        if let Some(holder) = world.locks.get(path) {
            return Err(LockFault::Held { holder: holder.clone() });
        }
        world.locks.insert(path.to_owned(), holder.to_owned());
        Ok(Box::new(SimLock(self.clone(), path.to_owned())))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<LockGuard>, LockFault> {
        match self.world().locks.get(path) {
            Some(holder) => Err(LockFault::Held { holder: holder.clone() }),
            None => Ok(None),
        }
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.world();
        world.may()?;
        if world.bad_reads > 0 {
            world.bad_reads -= 1;
            return Err(eio());
        }
        let file = &world.inodes[&self.inode].cache;
        let rest = file.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(bytes.len());
        bytes[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        let mut world = self.disk.world();
        let fault = world.call();
        if fault == Some(Fault::Enospc) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let n = if fault.is_some() { bytes.len().div_ceil(2) } else { bytes.len() };
        world.may_grow(self.inode, offset + n as u64)?;
        world.act(TraceOp::Write(self.inode, offset, bytes[..n].into()));
        if fault == Some(Fault::Eio) { Err(eio()) } else { Ok(n) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        if let Err(e) = world.may() {
            // The kernel marks the pages clean although they never reached the disk.
            world.settle(self.inode, false);
            return Err(e);
        }
        world.act(TraceOp::Sync(self.inode));
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.may()?;
        world.may_grow(self.inode, len)?;
        if (world.inodes[&self.inode].cache.len() as u64) < len {
            world.act(TraceOp::Len(self.inode, len));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        world.may()?;
        world.may_grow(self.inode, len)?;
        world.act(TraceOp::Len(self.inode, len));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        world.may()?;
        Ok(world.inodes[&self.inode].cache.len() as u64)
    }
}
