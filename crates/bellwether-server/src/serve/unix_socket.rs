//! A Unix socket as a file: nobody else's to open from the moment it is there, never left behind
//! by a clean stop, and never taken away from a living server.
//!
//! It is made in a folder of its own that only this user may enter, and moved to its place when its
//! mode is right. The move also replaces the file of a server that died.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

/// A server that is alive takes a connection within this.
const TAKES_MAX: Duration = Duration::from_secs(1);

/// The file of a socket on which this process listens.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and number, by which it is known to be ours.
    id: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`, or says why not.
    pub(super) async fn listen(path: &Path) -> Result<(UnixListener, Self), String> {
        let cannot = |why: &dyn std::fmt::Display| {
            format!(
                "cannot listen on the Unix socket {}: {why}; name another with --unix-socket, or \
                 do without (--unix-socket none)",
                path.display()
            )
        };
        if let Some(why) = who_is_there(path).await {
            return Err(cannot(&why));
        }
        Self::make(path).map_err(|e| cannot(&e))
    }

    fn make(path: &Path) -> io::Result<(UnixListener, Self)> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let workshop = parent.unwrap_or(Path::new(".")).join(format!(".s{}", std::process::id()));
        // Of a process that died and had our number.
        let _ = fs::remove_dir_all(&workshop);
        DirBuilder::new().mode(0o700).create(&workshop)?;
        let made = Self::make_in(&workshop, path);
        fs::remove_dir_all(&workshop)?;
        made
    }

    fn make_in(workshop: &Path, path: &Path) -> io::Result<(UnixListener, Self)> {
        let made = workshop.join("s");
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        let id = id_of(&made)?;
        fs::rename(&made, path)?;
        Ok((listener, Self { path: path.to_owned(), id }))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless another one has taken its place.
    pub(super) fn remove(self) {
        if id_of(&self.path).is_ok_and(|id| id == self.id)
            && let Err(e) = fs::remove_file(&self.path)
        {
            tracing::warn!(error = %e, path = %self.path.display(), "the socket stays behind");
        }
    }
}

fn id_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Who or what must not be replaced.
async fn who_is_there(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.file_type().is_socket() {
        return Some("there is something else of that name".into());
    }
    match tokio::time::timeout(TAKES_MAX, UnixStream::connect(path)).await {
        Ok(Err(e)) if e.kind() == io::ErrorKind::ConnectionRefused => None,
        Ok(Err(e)) => Some(e.to_string()),
        Ok(Ok(_)) | Err(_) => Some("another server listens there".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("bw-{name}-{}.sock", std::process::id()))
    }

    #[tokio::test]
    async fn what_a_dead_server_left_is_replaced_and_a_living_one_is_not() {
        let path = place("stale");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (listener, file) = SocketFile::listen(&path).await.unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else's");
        UnixStream::connect(&path).await.unwrap();
        let said = SocketFile::listen(&path).await.unwrap_err();
        for words in ["another server", path.to_str().unwrap(), "--unix-socket"] {
            assert!(said.contains(words), "{said}");
        }
        drop(listener);
        file.remove();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_not_ours_stays() {
        let path = place("file");
        fs::write(&path, "something else").unwrap();
        let said = SocketFile::listen(&path).await.unwrap_err();
        assert!(said.contains("something else of that name"), "{said}");
        fs::remove_file(&path).unwrap();
        let (_listener, file) = SocketFile::listen(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "somebody else's").unwrap();
        file.remove();
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
