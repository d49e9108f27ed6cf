//! The file of rules: read whole, replaced whole.
//!
//! ```text
//!   lock FILE.lock ─► read ─► change ─► write another, flush ─► rename ─► flush the folder
//! ```
//!
//! Tokens are kept as SHA-256 only. Keys to sign with are kept as they are, because an HMAC needs
//! them: so the file is this user's alone, and one that others can read is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::rule::{Kept, Rule, Rules};
use crate::unfinished::{CannotWrite, Unfinished};

const VERSION: u32 = 1;
/// More than anybody needs; a file that is not ours is not read to its end.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    rules: Vec<Kept>,
}

/// By what a file is known to be another one than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, i64, i64);

/// The stamp of the file as it is now.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some(Stamp(found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Reads it; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Rules>, String> {
    let cannot = |why: &dyn std::fmt::Display| {
        format!("the file of rules {} cannot be used: {why}", path.display())
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(cannot(&e)),
    };
    let found = file.metadata().map_err(|e| cannot(&e))?;
    if found.mode() & 0o077 != 0 {
        return Err(cannot(&"others can read or write it; `chmod 600` makes it this user's alone"));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(cannot(&format_args!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|e| cannot(&e))?;
    // What the reader would quote of it may be a secret: only where it is wrong is told.
    let whole: Whole = serde_json::from_slice(&text).map_err(|e| {
        cannot(&format_args!("it is not JSON of the expected form at line {}", e.line()))
    })?;
    if whole.version != VERSION {
        let version = whole.version;
        return Err(cannot(&format_args!(
            "it has version {version}, this program reads {VERSION}"
        )));
    }
    let rules = whole.rules.into_iter().map(Rule::try_from).collect::<Result<Vec<_>, _>>();
    let rules = Rules(rules.map_err(|why| cannot(&why))?);
    let mut names: Vec<_> = rules.0.iter().map(|rule| &rule.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(cannot(&"two rules have the same name"));
    }
    let mut certificates: Vec<_> = rules.0.iter().flat_map(|rule| &rule.certificates).collect();
    certificates.sort_unstable();
    if let Some(pair) = certificates.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = pair[0];
        return Err(cannot(&format_args!("the certificate name {name:?} stands in it twice")));
    }
    Ok(Some(rules))
}

/// Reads it, changes it and writes it, while no other program of this kind does.
pub(crate) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Rules) -> Result<T, String>,
) -> Result<T, String> {
    let cannot =
        |e: io::Error| format!("the file of rules {} cannot be written: {e}", path.display());
    let _lock = lock(path).map_err(cannot)?;
    let mut rules = read(path)?.unwrap_or_default();
    let changed = change(&mut rules)?;
    let whole = Whole { version: VERSION, rules: rules.0.iter().map(Kept::from).collect() };
    let mut text = serde_json::to_vec_pretty(&whole).map_err(|e| cannot(e.into()))?;
    text.push(b'\n');
    replace(path, &text).map_err(cannot)?;
    Ok(changed)
}

/// Held until it is dropped. The lock has a file of its own: the other one is replaced.
fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600).open(name)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Puts a file of this user's alone in the place of another, or there is the old one still.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let replace = || {
        let mut file = Unfinished::beside(path)?;
        file.write(bytes)?;
        file.finish(path)
    };
    replace().map_err(|cannot: CannotWrite| cannot.error)
}
