//! Where a resource of one process keeps the terms it has seen.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bellwether_core::name::{LeaseName, Term};
use rustix::fs::FlockOperation;

use super::{FenceError, Fenced};
use crate::elector::Fence;

/// Remembers the latest term of every election it was shown.
pub trait TermStore: Send + Sync + 'static {
    /// Refuses a term that is not the latest; records one that is later than those before, durably
    /// as far as this store is durable, before it returns. May block.
    fn admit(&self, fence: &Fence) -> Result<(), FenceError<io::Error>>;
}

/// Terms in memory: forgotten when the process ends. Enough where the resource ends with it.
#[derive(Debug, Default)]
pub struct MemoryTerms(Mutex<BTreeMap<LeaseName, Term>>);

impl TermStore for MemoryTerms {
    fn admit(&self, fence: &Fence) -> Result<(), FenceError<io::Error>> {
        let mut terms = self.0.lock().expect("nobody panics with it");
        rise(&mut terms, fence)?;
        Ok(())
    }
}

/// Terms in a file, one `TERM ELECTION` a line, replaced as a whole and flushed when a term
/// rises. Any number of threads and processes of one machine may use the same one.
#[derive(Clone, Debug)]
pub struct FileTerms {
    path: PathBuf,
}

impl FileTerms {
    /// At this path; made with the first term, and beside it a file of the same name with `.lock`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// As [`TermStore::admit`], and until what is returned is dropped nobody else is let in.
    pub(super) fn enter(&self, fence: &Fence) -> Result<Inside, FenceError<io::Error>> {
        let inside = Inside::wait(&with_suffix(&self.path, ".lock")).map_err(FenceError::Fault)?;
        let mut terms = self.read().map_err(FenceError::Fault)?;
        if rise(&mut terms, fence)? {
            let lines: Vec<_> = terms.iter().map(|(name, term)| format!("{term} {name}")).collect();
            let text = lines.join("\n") + "\n";
            replace(&self.path, text.as_bytes()).map_err(FenceError::Fault)?;
        }
        Ok(inside)
    }

    fn read(&self) -> io::Result<BTreeMap<LeaseName, Term>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => return Err(e),
        };
        let line = |line: &str| {
            let (term, election) = line.split_once(' ')?;
            Some((LeaseName::new(election).ok()?, Term(term.parse().ok()?)))
        };
        // A fence that cannot be read must not open.
        text.lines().map(line).collect::<Option<_>>().ok_or_else(|| {
            let path = self.path.display();
            let why = format!("{path} is damaged: every line must be a term, a space, an election");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }
}

impl TermStore for FileTerms {
    fn admit(&self, fence: &Fence) -> Result<(), FenceError<io::Error>> {
        self.enter(fence).map(drop)
    }
}

/// Whether the term is later than those before; it is then the latest.
fn rise(terms: &mut BTreeMap<LeaseName, Term>, fence: &Fence) -> Result<bool, Fenced> {
    match terms.get(&fence.election) {
        Some(&newest) if newest > fence.term => Err(Fenced::new(fence, newest)),
        Some(&newest) if newest == fence.term => Ok(false),
        _ => {
            terms.insert(fence.election.clone(), fence.term);
            Ok(true)
        }
    }
}

/// The lock, held. The file it is on stays: one that is removed and made again is two locks.
#[derive(Debug)]
pub(super) struct Inside(File);

impl Inside {
    fn wait(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
        Ok(Self(file))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // In so many words: a child that is just being started has the file open as well. If it
        // fails, the lock goes with the file.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// The file is the old one or the new one at every moment, and the new one for good on return.
/// Callers hold the lock, so that nobody else uses the name of the file in the making.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut making = OsString::from(".fence-new-");
    making.push(name);
    let making = path.with_file_name(making);
    let written = (|| {
        let mut file = File::create(&making)?;
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&making, path)
    })();
    if written.is_err() {
        // Of no use to anybody; the next one begins it anew.
        let _ = fs::remove_file(&making);
    }
    written?;
    sync_parent(path)
}

/// Flushes the folder that the file is in: its name is there.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
