//! A disk in memory that loses power as cruelly as the failure model allows.
//!
//! Per file it knows what is durable and which writes, cut at 512-byte sectors, are not yet
//! flushed; per folder which names are not. [`SimDisk::crash`] keeps any subset of the sector
//! writes, and of the names' changes any number from the front, as a journaling file system does.
//! A failed flush forgets its writes: they stay readable and are gone after a crash.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod calls;

const SECTOR_BYTES: u64 = 512;

/// One thing that was done to the disk.
#[derive(Clone, Debug)]
pub enum TraceOp {
    /// A new empty file.
    Create(PathBuf, u64),
    /// Bytes written.
    Write(u64, u64, Arc<[u8]>),
    /// A new length.
    Len(u64, u64),
    /// A file flushed.
    Sync(u64),
    /// A new name.
    Rename(PathBuf, PathBuf),
    /// A name removed.
    Remove(PathBuf),
    /// Names flushed.
    SyncDir,
    /// A test's own remark, such as how far durability was reported.
    Note(u64),
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails. Half of a write may have happened.
    Eio,
    /// No space.
    Enospc,
    /// Only half is written.
    ShortWrite,
}

/// What survives a crash of what was not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashChoice {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// Everything but the sector write with this index.
    LoseOne(usize),
    /// What chance says.
    Seed(u64),
}

#[derive(Clone, Debug)]
enum Pending {
    Write(u64, u64, Arc<[u8]>),
    Len(u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    cache: Vec<u8>,
    durable: Arc<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct World {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    /// Unflushed changes of names: the state after each.
    names_after: Vec<BTreeMap<PathBuf, u64>>,
    pending: Vec<Pending>,
    inode_next: u64,
    locks: BTreeMap<PathBuf, String>,
    trace: Option<Vec<TraceOp>>,
    calls: u64,
    fault: Option<(u64, Fault)>,
    /// Reads that are still to fail.
    bad_reads: u32,
    capacity: Option<u64>,
}

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<World>>);

impl SimDisk {
    /// An empty disk without limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on keeps what is done, for [`SimDisk::take_trace`].
    pub fn record(&self) {
        self.world().trace = Some(Vec::new());
    }

    /// What was done since [`SimDisk::record`].
    pub fn take_trace(&self) -> Vec<TraceOp> {
        self.world().trace.take().unwrap_or_default()
    }

    /// Puts a remark into the trace.
    pub fn note(&self, remark: u64) {
        self.world().act(TraceOp::Note(remark));
    }

    /// Does what a trace says.
    pub fn apply(&self, op: &TraceOp) {
        self.world().act(op.clone());
    }

    /// Lets the `k`-th call from now fail (0 is the next one).
    pub fn fail_at(&self, k: u64, fault: Fault) {
        let mut world = self.world();
        world.fault = Some((world.calls + k, fault));
    }

    /// Lets the next `count` reads fail, whatever else is asked for in between.
    pub fn fail_reads(&self, count: u32) {
        self.world().bad_reads = count;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Limits the sum of all files' lengths.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Sum of all files' lengths.
    pub fn used_bytes(&self) -> u64 {
        self.world().used()
    }

    /// How many sector writes are not flushed.
    pub fn pending_len(&self) -> usize {
        self.world().pending.len()
    }

    /// How many changes of names are not flushed.
    pub fn pending_names(&self) -> usize {
        self.world().names_after.len()
    }

    /// The disk after the process was killed: nothing is lost, locks are gone, no call fails.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut world = self.world().clone();
        world.locks.clear();
        world.fault = None;
        world.bad_reads = 0;
        world.trace = None;
        Self(Arc::new(Mutex::new(world)))
    }

    /// The disk after power was lost. `names_kept` of the unflushed changes of names survive.
    #[must_use]
    pub fn crash(&self, choice: CrashChoice, names_kept: usize) -> Self {
        let old = self.world();
        let names = match names_kept.min(old.names_after.len()) {
            0 => &old.durable_names,
            n => &old.names_after[n - 1],
        };
        let mut bytes: BTreeMap<u64, Arc<Vec<u8>>> =
            names.values().map(|inode| (*inode, old.inodes[inode].durable.clone())).collect();
        let mut chance = Chance::new(choice);
        for (index, pending) in old.pending.iter().enumerate() {
            if chance.keeps(index) {
                let (Pending::Write(inode, ..) | Pending::Len(inode, _)) = pending;
                if let Some(file) = bytes.get_mut(inode) {
                    pending.put(Arc::make_mut(file));
                }
            }
        }
        let inodes = bytes
            .into_iter()
            .map(|(inode, bytes)| (inode, Inode { cache: bytes.to_vec(), durable: bytes }))
            .collect();
        let world = World {
            inodes,
            names: names.clone(),
            durable_names: names.clone(),
            inode_next: old.inode_next,
            capacity: old.capacity,
            ..World::default()
        };
        Self(Arc::new(Mutex::new(world)))
    }

    /// A number that two disks share whose files, those that count, are the same.
    pub fn fingerprint(&self, counts: &dyn Fn(&Path) -> bool) -> u64 {
        let world = self.world();
        let mut sum = 0x9e37_79b9_7f4a_7c15_u64;
        let mut mix = |word: u64| {
            sum = (sum.rotate_left(23) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        };
        for (path, inode) in world.names.iter().filter(|(path, _)| counts(path)) {
            path.to_string_lossy().bytes().for_each(|b| mix(u64::from(b)));
            let bytes = &world.inodes[inode].cache;
            mix(bytes.len() as u64);
            for chunk in bytes.chunks(8) {
                let mut eight = [0; 8];
                eight[..chunk.len()].copy_from_slice(chunk);
                mix(u64::from_le_bytes(eight));
            }
        }
        sum
    }

    /// Every file's name and bytes.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let world = self.world();
        world.names.iter().map(|(p, i)| (p.clone(), world.inodes[i].cache.clone())).collect()
    }

    /// Puts a file there, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.world();
        let inode = world.inode_next;
        world.inode_next += 1;
        let file = Inode { cache: bytes.to_vec(), durable: Arc::new(bytes.to_vec()) };
        world.inodes.insert(inode, file);
        world.names.insert(path.to_owned(), inode);
        world.durable_names.insert(path.to_owned(), inode);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// Counts a call; says how it must fail, if it must.
    fn call(&mut self) -> Option<Fault> {
        let number = self.calls;
        self.calls += 1;
        self.fault.filter(|(k, _)| *k == number).map(|(_, fault)| fault)
    }

    fn may(&mut self) -> io::Result<()> {
        match self.call() {
            Some(Fault::Eio) => Err(eio()),
            Some(Fault::Enospc) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::ShortWrite) | None => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[inode].cache.len() as u64).sum()
    }

    fn may_grow(&self, inode: u64, len: u64) -> io::Result<()> {
        let grows = len.saturating_sub(self.inodes[&inode].cache.len() as u64);
        match self.capacity {
            Some(capacity) if grows > 0 && self.used() + grows > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn act(&mut self, op: TraceOp) {
        match &op {
            TraceOp::Create(path, inode) => {
                self.inodes.insert(*inode, Inode::default());
                self.inode_next = self.inode_next.max(inode + 1);
                self.names.insert(path.clone(), *inode);
                self.names_after.push(self.names.clone());
            }
            TraceOp::Write(inode, offset, bytes) => {
                let whole = Pending::Write(*inode, *offset, bytes.clone());
                if let Some(file) = self.inodes.get_mut(inode) {
                    whole.put(&mut file.cache);
                }
                let mut at = 0;
                while at < bytes.len() {
                    let from = offset + at as u64;
                    let room = (SECTOR_BYTES - from % SECTOR_BYTES) as usize;
                    let end = (at + room).min(bytes.len());
                    self.pending.push(Pending::Write(*inode, from, bytes[at..end].into()));
                    at = end;
                }
            }
            TraceOp::Len(inode, len) => {
                let pending = Pending::Len(*inode, *len);
                if let Some(file) = self.inodes.get_mut(inode) {
                    pending.put(&mut file.cache);
                }
                self.pending.push(pending);
            }
            TraceOp::Sync(inode) => self.settle(*inode, true),
            TraceOp::Rename(from, to) => {
                if let Some(inode) = self.names.remove(from) {
                    self.names.insert(to.clone(), inode);
                }
                self.names_after.push(self.names.clone());
            }
            TraceOp::Remove(path) => {
                self.names.remove(path);
                self.names_after.push(self.names.clone());
            }
            TraceOp::SyncDir => {
                self.durable_names = self.names.clone();
                self.names_after.clear();
            }
            TraceOp::Note(_) => {}
        }
        if let Some(trace) = &mut self.trace {
            trace.push(op);
        }
    }

    /// Takes a file's writes off the list: to the disk, or to nowhere.
    fn settle(&mut self, inode: u64, durable: bool) {
        let mut ours = Vec::new();
        self.pending.retain(|pending| {
            let (Pending::Write(of, ..) | Pending::Len(of, _)) = pending;
            if *of == inode {
                ours.push(pending.clone());
            }
            *of != inode
        });
        if let Some(file) = self.inodes.get_mut(&inode).filter(|_| durable && !ours.is_empty()) {
            let bytes = Arc::make_mut(&mut file.durable);
            for pending in &ours {
                pending.put(bytes);
            }
        }
    }
}

impl Pending {
    fn put(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write(_, offset, bytes) => {
                let (from, to) = (*offset as usize, *offset as usize + bytes.len());
                if file.len() < to {
                    file.resize(to, 0);
                }
                file[from..to].copy_from_slice(bytes);
            }
            Self::Len(_, len) => file.resize(*len as usize, 0),
        }
    }
}

struct Chance {
    choice: CrashChoice,
    state: u64,
}

impl Chance {
    fn new(choice: CrashChoice) -> Self {
        let state = if let CrashChoice::Seed(seed) = choice { seed } else { 0 };
        Self { choice, state }
    }

    fn keeps(&mut self, index: usize) -> bool {
        match self.choice {
            CrashChoice::LoseAll => false,
            CrashChoice::KeepAll => true,
            CrashChoice::LoseOne(lost) => index != lost,
            CrashChoice::Seed(_) => {
                // SplitMix64.
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (z ^ (z >> 31)) & 1 == 1
            }
        }
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}
