//! Names of files in a journal's folder.

use std::io;
use std::path::Path;

/// What a name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A unit with frames.
    Unit(u64),
    /// A snapshot.
    Snapshot(u64),
    /// A blank unit, all zeros behind the header.
    Zero(u64),
    /// A blank unit that still holds the frames of an earlier use.
    Spare(u64),
    /// Bytes that recovery cut off.
    Cut,
    /// Left behind by work that a crash interrupted.
    Litter,
    /// Not ours, or not data.
    Other,
}

pub(super) const LOCK: &str = "lock";
pub(super) const ROOM: &str = "snapshot.room";

impl Name {
    pub(super) fn parse(name: &str) -> Self {
        let numbered = |suffix: &str| {
            let digits = name.strip_suffix(suffix)?;
            (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
        };
        if let Some(n) = numbered(".log") {
            Self::Unit(n)
        } else if let Some(n) = numbered(".snapshot") {
            Self::Snapshot(n)
        } else if let Some(n) = numbered(".zero") {
            Self::Zero(n)
        } else if let Some(n) = numbered(".spare") {
            Self::Spare(n)
        } else if name.starts_with("cut-") && name.strip_suffix(".bin").is_some() {
            Self::Cut
        } else if name.strip_suffix(".tmp").is_some() {
            Self::Litter
        } else {
            Self::Other
        }
    }
}

/// Whether a folder holds a store; one that is not there holds none. Touches nothing.
pub fn has_store(dir: &Path) -> io::Result<bool> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if matches!(Name::parse(&name.to_string_lossy()), Name::Unit(_) | Name::Snapshot(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn unit(number: u64) -> String {
    format!("{number:016x}.log")
}

pub(super) fn snapshot(number: u64) -> String {
    format!("{number:016x}.snapshot")
}

pub(super) fn zero(id: u64) -> String {
    format!("{id:016x}.zero")
}

pub(super) fn spare(unit: u64) -> String {
    format!("{unit:016x}.spare")
}

pub(super) fn cut(unit: u64, offset: u32) -> String {
    format!("cut-{unit:016x}-{offset:08x}.bin")
}

pub(super) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}
