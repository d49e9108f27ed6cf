//! One store, one process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use bellwether::journal::JournalFault;
use bellwether::{Error, QueueSettings};

use crate::store::{QUEUE, SESSIONS, open};

/// A folder that is removed if the test passed, and left to look at if it did not.
pub(crate) struct Folder {
    pub(crate) path: String,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("bellwether-crash-{name}-{}", std::process::id());
        Self { path: std::env::temp_dir().join(name).display().to_string() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the store is left in {}", self.path);
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes the store a child works on. Locks outlast any life here: the parent decides when they run
/// out.
pub(crate) async fn create(folder: &str) {
    let bellwether = open(folder).open().await.unwrap();
    let settings = QueueSettings { lock_ms: 300_000, ..QueueSettings::default() };
    bellwether.create_queue(QUEUE, settings.clone()).await.unwrap();
    let settings = QueueSettings { sessions: true, ..settings };
    bellwether.create_queue(SESSIONS, settings).await.unwrap();
    bellwether.close().await;
}

/// Starts the program that is to be killed.
pub(crate) fn start_child(folder: &str, life: u32) -> Child {
    Command::new(env!("CARGO_BIN_EXE_crash_child"))
        .args([folder, &life.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// A second process is refused while the first lives, by name; not a moment longer.
#[test]
fn a_second_process_is_refused_while_the_first_lives() {
    let folder = Folder::new("opening");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(create(&folder.path));
    for life in 0..3 {
        let mut child = start_child(&folder.path, life);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let opened = lines.by_ref().find(|line| line.as_ref().is_ok_and(|l| l == "fact open"));
        assert!(opened.is_some(), "the child did not open its store");
        let drain = std::thread::spawn(move || lines.map_while(Result::ok).count());
        for _ in 0..3 {
            let refused = runtime.block_on(open(&folder.path).open()).unwrap_err();
            let Error::Fault(JournalFault::InUse { path, holder }) = &refused else {
                panic!("{refused:?}")
            };
            assert_eq!(*path, folder.path);
            assert!(holder.contains(&format!("pid {}", child.id())), "{holder}");
            let words = refused.to_string();
            assert!(words.contains("is open in another process"), "{words}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = runtime.block_on(open(&folder.path).open()).unwrap();
        runtime.block_on(opened.close());
        drain.join().unwrap();
    }
}
