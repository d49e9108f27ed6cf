//! Files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use bellwether::Fence;
use bellwether::conformance::fencing::{self, FencedResource};
use bellwether::fencing::file::{Error, FencedDir, FencedFile};
use bellwether::fencing::{FenceError, FileTerms, TermStore as _};

use crate::{ELECTION, fence};

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-fencing-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One record a line; opened anew for every write, as by other processes.
struct Lines(PathBuf);

impl FencedResource for Lines {
    type Fault = io::Error;

    async fn append(&self, fence: &Fence, record: &str) -> Result<(), Error> {
        let (file, line) = (FencedFile::new(&self.0), format!("{record}\n"));
        let fence = fence.clone();
        tokio::task::spawn_blocking(move || file.append(&fence, line.as_bytes())).await.unwrap()
    }

    async fn records(&self) -> Vec<String> {
        fs::read_to_string(&self.0).unwrap().lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_late_write_is_refused() {
    let folder = Folder::new();
    let lines = Lines(folder.0.join("lines"));
    // Nothing but the files is kept from call to call: every one is a restart.
    fencing::a_late_write_is_refused(&lines, ELECTION, async || ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_never_go_down() {
    let folder = Folder::new();
    let lines = Lines(folder.0.join("lines"));
    fencing::terms_never_go_down(Arc::new(lines), ELECTION).await;
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let path = folder.0.join("report");
    let report = FencedFile::new(&path);
    report.replace(&fence(7), b"a long report of the old leader").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    report.replace(&fence(8), b"short").unwrap();
    assert_eq!(report.replace(&fence(7), b"late").unwrap_err().fenced().unwrap().newest.0, 8);
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(folder.names(), ["report", "report.fence", "report.fence.lock"]);
}

#[test]
fn one_fence_is_around_all_files_of_a_folder() {
    let folder = Folder::new();
    let files = FencedDir::new(&folder.0);
    files.replace(&fence(7), "a", b"1").unwrap();
    files.append(&fence(7), "a", b"2").unwrap();
    files.replace(&fence(8), "b", b"3").unwrap();
    assert!(files.append(&fence(7), "a", b"late").unwrap_err().fenced().is_some());
    assert!(files.remove(&fence(7), "a").unwrap_err().fenced().is_some());
    assert_eq!(fs::read(folder.0.join("a")).unwrap(), b"12");
    files.remove(&fence(8), "a").unwrap();
    assert_eq!(folder.names(), [".fence", ".fence.lock", "b"]);
    for wrong in ["", ".", "..", "a/b", "/a", "a/", "./a", ".fence", ".fence.lock"] {
        match files.replace(&fence(8), wrong, b"") {
            Err(FenceError::Fault(e)) => assert_eq!(e.kind(), io::ErrorKind::InvalidInput),
            other => panic!("{wrong:?}: {other:?}"),
        }
    }
}

#[test]
fn elections_do_not_fence_each_other_and_a_damaged_fence_stays_shut() {
    let folder = Folder::new();
    let path = folder.0.join("terms");
    let terms = FileTerms::new(&path);
    let other = Fence { election: bellwether::LeaseName::new("other").unwrap(), ..fence(3) };
    terms.admit(&fence(7)).unwrap();
    terms.admit(&other).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("7 {ELECTION}\n3 other\n"));
    assert!(terms.admit(&fence(6)).unwrap_err().fenced().is_some());
    fs::write(&path, "7").unwrap();
    let Err(FenceError::Fault(why)) = terms.admit(&fence(9)) else { panic!("it was let in") };
    assert!(why.to_string().contains("damaged"), "{why}");
}
