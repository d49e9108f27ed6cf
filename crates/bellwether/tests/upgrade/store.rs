//! Stores that an earlier version left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether::core::message::State;
use bellwether::core::outcome::LeaseState;
use bellwether::core::time::WallTime;
use bellwether::journal::JournalFault;
use bellwether::journal::file::FileOptions;
use bellwether::message::Message;
use bellwether::{
    Bellwether, Error, LeaseId, LeaseRefusal, Open, QueueSettings, Refusal, SequenceNumber, Ttl,
};

use crate::kept;

const FORMATS: std::ops::RangeInclusive<u32> = 1..=1;
/// How the process ended that wrote it.
const ENDS: [&str; 2] = ["killed", "closed"];
/// 1 January 2100.
const FAR: WallTime = WallTime(4_102_444_800_000);
const HOLDER: LeaseId = LeaseId(0x1234);

/// A copy that may be written to; gone at the end.
struct Copy(PathBuf);

impl Copy {
    fn of(from: &Path) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bellwether-upgrade-{}-{number}", std::process::id());
        let copy = Self(std::env::temp_dir().join(name));
        carry(from, &copy.0);
        copy
    }

    fn address(&self) -> String {
        format!("file://{}", self.0.display())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "log")
}

/// What a store consists of, without the lock of whoever has it open.
fn carry(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if is_log(&path) || path.extension().is_some_and(|e| e == "snapshot") {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Something of everything. Sequence numbers of `orders`: 1 completed, 2 a dead letter, 3 deferred,
/// 4 abandoned once, 5 locked, 6 scheduled.
async fn fill(bw: &Bellwether) {
    let settings = QueueSettings { lock_ms: 30_000, deliveries_max: 7, ..QueueSettings::default() };
    let orders = bw.create_queue("orders", settings).await.unwrap();
    for number in 1..=5 {
        let order = Message::new(format!("order {number}"))
            .id(format!("id-{number}"))
            .subject("coffee")
            .content_type("text/plain")
            .property("cups", number)
            .property("hot", true);
        orders.send(order).await.unwrap();
    }
    orders.send(Message::new("later").scheduled_at(FAR)).await.unwrap();
    let mut taken = orders.receive().max(5).many().await.unwrap().into_iter();
    let mut next = || taken.next().unwrap();
    next().complete().await.unwrap();
    next().dead_letter("no milk", "the fridge is empty").await.unwrap();
    next().defer().await.unwrap();
    next().abandon().await.unwrap();
    next().keep();
    let settings = QueueSettings { sessions: true, ..QueueSettings::default() };
    let chats = bw.create_queue("chats", settings).await.unwrap();
    chats.send(Message::new("hello").session("ann")).await.unwrap();
    let session = chats.accept_session().named("ann").await.unwrap();
    session.set_state(Some("greeted".into())).await.unwrap();
    session.close().await.unwrap();
    let lease = bw.lease("migration").unwrap().metadata("held for good");
    lease.acquire_as(HOLDER, Ttl::Infinite).await.unwrap();
}

/// What [`fill`] left is there, and the store works.
async fn check(bw: &Bellwether, format: &str) {
    let orders = bw.queue("orders").unwrap();
    let info = orders.info().await.unwrap();
    assert_eq!((info.settings.lock_ms, info.settings.deliveries_max), (30_000, 7), "{format}");
    let seen = orders.peek(SequenceNumber(1), 100).await.unwrap();
    let numbers: Vec<_> = seen.iter().map(|message| message.sequence().0).collect();
    assert_eq!(numbers, [3, 4, 5, 6], "{format}");
    assert!(matches!(seen[0].state(), State::Deferred));
    assert!(matches!(seen[2].state(), State::Locked(_)), "its receiver gets a full lock again");
    assert!(matches!(seen[3].state(), State::Scheduled { due: FAR }));
    let ready = orders.receive().one().await.unwrap().unwrap();
    assert_eq!((ready.sequence().0, ready.deliveries()), (4, 2), "{format}");
    assert_eq!((ready.text(), ready.id.as_deref()), (Some("order 4"), Some("id-4")));
    assert_eq!(ready.content_type.as_deref(), Some("text/plain"));
    assert_eq!(ready.properties["cups"], 4.into());
    assert_eq!(ready.properties["hot"], true.into());
    ready.complete().await.unwrap();
    let deferred = orders.receive_deferred([SequenceNumber(3)]).await.unwrap();
    assert_eq!(deferred[0].text(), Some("order 3"));
    for delivery in deferred {
        delivery.complete().await.unwrap();
    }
    let dead = orders.dead_letters().peek(SequenceNumber(0), 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].dead_letter_reason(), Some("no milk"));
    assert_eq!(dead[0].dead_letter_description(), Some("the fridge is empty"));
    let chats = bw.queue("chats").unwrap();
    let session = chats.accept_session().next().await.unwrap().unwrap();
    assert_eq!(session.id().as_str(), "ann");
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"greeted"[..]));
    session.close().await.unwrap();
    let lease = bw.lease("migration").unwrap();
    let info = lease.info().await.unwrap().unwrap();
    assert_eq!((info.state, info.id), (LeaseState::Leased, Some(HOLDER)));
    assert_eq!(info.metadata, "held for good");
    let refused = lease.acquire(Duration::from_secs(1)).await.unwrap_err();
    let held = matches!(&refused, Error::Refused(Refusal::Lease(LeaseRefusal::Held { .. })));
    assert!(held, "{refused:?}");
    lease.release(HOLDER).await.unwrap();
    let grant = lease.acquire(Duration::from_secs(60)).await.unwrap();
    assert!(grant.term > info.term, "terms only grow");
    assert_eq!(orders.send("one more").await.unwrap(), SequenceNumber(7));
}

async fn write(folder: &Path, end: &str) {
    // Small units, so that little is kept.
    let options = |snapshot_after_bytes| FileOptions {
        segment_bytes_max: 32 << 10,
        segment_bytes_first: 32 << 10,
        snapshot_after_bytes,
        ..FileOptions::default()
    };
    let scratch = Copy(folder.with_extension("new"));
    let open = |after| Open::new(scratch.address()).file_options(options(after)).open();
    let mut bw = open(1 << 40).await.unwrap();
    fill(&bw).await;
    if end == "closed" {
        bw.close().await;
        // A second life, which takes a snapshot of all that.
        bw = open(1).await.unwrap();
        let ticks = bw.create_queue("ticks", QueueSettings::default()).await.unwrap();
        let is_snapshot = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().path().extension().is_some_and(|e| e == "snapshot")
        };
        while !fs::read_dir(&scratch.0).unwrap().any(is_snapshot) {
            ticks.send("tick").await.unwrap();
        }
        bw.close().await;
    }
    let _ = fs::remove_dir_all(folder);
    carry(&scratch.0, folder);
    bw.close().await;
}

#[tokio::test]
async fn a_store_of_every_format_that_is_read_is_opened_and_served() {
    if std::env::var_os("BELLWETHER_REWRITE_GOLDEN").is_some() {
        for end in ENDS {
            write(&kept(&format!("store-{}-{end}", FORMATS.end())), end).await;
        }
    }
    for format in FORMATS {
        for end in ENDS {
            let name = format!("store-{format}-{end}");
            let copy = Copy::of(&kept(&name));
            let bw = Bellwether::open(copy.address()).await.unwrap();
            check(&bw, &name).await;
            bw.close().await;
            let again = Bellwether::open(copy.address()).await.unwrap();
            let info = again.queue("orders").unwrap().info().await.unwrap();
            assert_eq!((info.totals.sent, info.totals.completed), (7, 3), "{name}");
            again.close().await;
        }
    }
}

/// Nothing of it is touched, so the newer program goes on where it was.
#[tokio::test]
async fn a_store_of_a_format_to_come_is_refused_and_left_alone() {
    let copy = Copy::of(&kept("store-1-closed"));
    let read = || {
        let files = fs::read_dir(&copy.0).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some());
        let mut files: Vec<_> = files.map(|path| (fs::read(&path).unwrap(), path)).collect();
        files.sort_by(|a, b| a.1.cmp(&b.1));
        files
    };
    let (mut newest, path) = read().into_iter().rfind(|(_, path)| is_log(path)).unwrap();
    // The format's number in the head of a unit, and the head's checksum.
    newest[8] = 9;
    let crc = crc32c::crc32c(&newest[..64]);
    newest[64..68].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, newest).unwrap();
    let before = read();
    let fault = Bellwether::open(copy.address()).await.unwrap_err();
    let Error::Fault(fault) = &fault else { panic!("{fault:?}") };
    assert!(matches!(fault, JournalFault::UnknownVersion { found: 9, .. }), "{fault}");
    assert!(fault.to_string().contains("use the newer program"), "{fault}");
    assert!(read() == before, "a file was changed");
}
