//! Files of this machine that only the latest term may write.
//!
//! Check, write and flush happen under one lock of the kernel (`flock`), which goes with the
//! process, however that ends. A leader that is frozen inside holds the lock: its successor waits
//! until it was thawed or killed, and what it then finishes was begun before the successor wrote.
//!
//! The term is kept in a file beside, and is flushed before the first write under it. The lock is
//! the machine's own: on a network file system it holds as far as that one's `flock` does. All
//! calls block; in async code call them through `spawn_blocking`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use super::terms::{replace, sync_parent, with_suffix};
use super::{FenceError, FileTerms};
use crate::elector::Fence;

/// Why a file was not written.
pub type Error = FenceError<io::Error>;

/// One file. Beside `PATH` there are `PATH.fence`, which holds the terms, and `PATH.fence.lock`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("bellwether-fenced-{}", std::process::id()));
/// # let leadership = |term| bellwether::Fence {
/// #     election: bellwether::LeaseName::new("report").unwrap(), term: bellwether::Term(term) };
/// use bellwether::fencing::file::FencedFile;
///
/// let report = FencedFile::new(&path);
/// let (old, new) = (leadership(7), leadership(8));
/// report.replace(&old, b"by the old leader")?;
/// report.replace(&new, b"by the new one")?;
/// assert!(report.append(&old, b" and again by the old one").is_err());
/// assert_eq!(std::fs::read(&path)?, b"by the new one");
/// # for end in ["", ".fence", ".fence.lock"] {
/// #     std::fs::remove_file(format!("{}{end}", path.display()))?;
/// # }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: PathBuf,
    terms: FileTerms,
}

impl FencedFile {
    /// The file at this path; its folder must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { terms: FileTerms::new(with_suffix(&path, ".fence")), path }
    }

    /// Writes the whole file anew. Readers see the old one or the new one, never a mixture.
    pub fn replace(&self, fence: &Fence, bytes: &[u8]) -> Result<(), Error> {
        let _inside = self.terms.enter(fence)?;
        replace(&self.path, bytes).map_err(FenceError::Fault)
    }

    /// Adds to the file's end. If that fails the file is cut back to what it was; a power cut in
    /// the middle may leave a part.
    pub fn append(&self, fence: &Fence, bytes: &[u8]) -> Result<(), Error> {
        let _inside = self.terms.enter(fence)?;
        append(&self.path, bytes).map_err(FenceError::Fault)
    }
}

/// The files of one folder under one fence: whoever writes one of them with a later term shuts
/// the others too. The folder holds `.fence` and `.fence.lock` besides.
#[derive(Clone, Debug)]
pub struct FencedDir {
    path: PathBuf,
    terms: FileTerms,
}

impl FencedDir {
    /// The folder at this path, which must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { terms: FileTerms::new(path.join(".fence")), path }
    }

    /// As [`FencedFile::replace`], for the file of this name.
    pub fn replace(&self, fence: &Fence, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.at(fence, name, |path| replace(path, bytes))
    }

    /// As [`FencedFile::append`], for the file of this name.
    pub fn append(&self, fence: &Fence, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.at(fence, name, |path| append(path, bytes))
    }

    /// Removes the file of this name.
    pub fn remove(&self, fence: &Fence, name: &str) -> Result<(), Error> {
        self.at(fence, name, |path| {
            fs::remove_file(path)?;
            sync_parent(path)
        })
    }

    fn at(
        &self,
        fence: &Fence,
        name: &str,
        write: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), Error> {
        let mut parts = Path::new(name).components();
        let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None)
            if part.to_str() == Some(name));
        if !plain || name.starts_with(".fence") {
            let why = format!(
                "{name:?} is no name for a file here: it must be one name without folders that \
                 does not begin with .fence"
            );
            return Err(FenceError::Fault(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let _inside = self.terms.enter(fence)?;
        write(&self.path.join(name)).map_err(FenceError::Fault)
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let before = file.metadata()?.len();
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // The caller hears of the failure itself; this only spares readers the half of it.
        let _ = file.set_len(before);
    }
    written?;
    // Made just now, perhaps: then its name is not flushed yet.
    if before == 0 { sync_parent(path) } else { Ok(()) }
}
