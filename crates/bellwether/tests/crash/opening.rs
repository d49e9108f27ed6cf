//! One store, one process.

use std::io::{BufRead as _, BufReader};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::Poll;

use bellwether::core::outcome::LeaseState;
use bellwether::journal::JournalFault;
use bellwether::{Error, QueueSettings, Ttl};

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

/// Whoever stops waiting for a lease in the moment it is granted gives it back, also if the store
/// is closed in the next: nobody knows its id, so nobody else ever could.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_nobody_took_is_given_back_before_the_store_is_closed() {
    let folder = Folder::new("untaken");
    let mut untaken = 0;
    for polls in (1..=120).map(|nth| nth * 4) {
        let bw = open(&folder.path).open().await.unwrap();
        let lease = bw.lease("leader").unwrap();
        let mut acquire = Box::pin(lease.acquire(Ttl::Infinite));
        let mut granted = None;
        for _ in 0..polls {
            if let Poll::Ready(grant) = poll_once(&mut acquire).await {
                granted = Some(grant.unwrap());
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(acquire);
        match granted {
            Some(grant) => lease.release(grant.id).await.unwrap(),
            None => untaken += 1,
        }
        bw.close().await;
        let bw = open(&folder.path).open().await.unwrap();
        let info = bw.lease("leader").unwrap().info().await.unwrap();
        let state = info.map(|info| info.state);
        assert_ne!(state, Some(LeaseState::Leased), "after {polls} polls");
        bw.close().await;
    }
    assert!(untaken > 10, "only {untaken} of them were left early");
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
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
