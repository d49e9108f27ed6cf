//! Whether the command gets on with its work: it touches a file, in whatever way.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use bellwether::core::time::BootTime;

use super::super::human::ms;
use super::system::boot;

/// The file, and when it was last seen to have been touched. Removed in the end.
#[derive(Debug)]
pub(super) struct Progress {
    path: PathBuf,
    seen: Seen,
    at: BootTime,
    limit_ms: u64,
}

/// A file that was touched, written or replaced looks different. No clock is compared with it.
type Seen = (i64, i64, u64, u64);

impl Progress {
    /// From here on the command must touch the file within the limit, again and again.
    pub(super) fn new(limit: Duration) -> io::Result<Self> {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
        let mut chance = [0; 16];
        getrandom::getrandom(&mut chance).map_err(|e| io::Error::other(e.to_string()))?;
        let path = folder.join(format!("bellwether-progress-{:032x}", u128::from_ne_bytes(chance)));
        // Nobody else's file, and nobody else's to touch.
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let seen = look(&file.and_then(|file| file.metadata()).map_err(named)?);
        Ok(Self { path, seen, at: boot(), limit_ms: ms(limit) })
    }

    pub(super) fn path(&self) -> OsString {
        self.path.clone().into()
    }

    /// Looks at the file; whether it was touched within the limit.
    pub(super) fn goes_on(&mut self) -> bool {
        let now = boot();
        if let Ok(seen) = fs::metadata(&self.path).map(|metadata| look(&metadata))
            && seen != self.seen
        {
            (self.seen, self.at) = (seen, now);
        }
        now < self.at.plus_ms(self.limit_ms)
    }
}

fn look(metadata: &fs::Metadata) -> Seen {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino())
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_touches_is_no_progress_and_is_removed_in_the_end() {
        let mut progress = Progress::new(Duration::ZERO).unwrap();
        let path = progress.path.clone();
        assert!(!progress.goes_on(), "the limit is over at once");
        progress.limit_ms = 3_600_000;
        assert!(progress.goes_on());
        let before = progress.seen;
        fs::write(&path, "x").unwrap();
        assert!(progress.goes_on());
        assert_ne!(progress.seen, before, "it was seen");
        drop(progress);
        assert!(!path.exists());
    }
}
