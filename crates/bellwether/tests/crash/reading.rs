//! Contents that cannot be read: for a moment, for good, because of the disk or of their bytes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwether::core::command::Disposition;
use bellwether::core::time::Now;
use bellwether::journal::file::SimDisk;
use bellwether::{Bellwether, Delivery, Open, QueueSettings, VirtualClock};

use crate::driver::Driver;
use crate::opening::Folder;

/// Longer than a window onto the journal, so that each is read for itself.
const BODY_BYTES: usize = 300 << 10;
const FAILURES: u32 = 5;

fn unit_path(number: u64) -> PathBuf {
    Path::new("/store").join(format!("{number:016x}.log"))
}

fn store_with_messages(disk: &SimDisk) -> Driver {
    let mut driver = Driver::open(disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    driver.create_queue();
    driver.send(&[vec![b'a'; 900]]);
    driver
}

/// M7: a read that fails in passing is repeated, and nobody hears of it.
#[test]
fn a_read_that_fails_in_passing_is_repeated() {
    for failures in 0..3 {
        let disk = SimDisk::new();
        let mut driver = store_with_messages(&disk);
        disk.fail_reads(failures);
        let contents = driver.peek_contents();
        assert!(contents.iter().all(Result::is_ok), "{failures} failures: {contents:?}");
    }
}

/// M7: one that goes on failing is reported in the system's words, and tried anew the next time.
#[test]
fn a_read_that_goes_on_failing_is_reported() {
    let disk = SimDisk::new();
    let mut driver = store_with_messages(&disk);
    disk.fail_reads(u32::MAX);
    let contents = driver.peek_contents();
    let [Err(what)] = &contents[..] else { panic!("{contents:?}") };
    assert!(what.contains("os error 5") && what.contains(".log"), "{what}");
    disk.fail_reads(0);
    assert!(driver.peek_contents()[0].is_ok());
    assert!(driver.shard.fault().is_none());
}

/// Live contents are carried out of old units that hold little else. One that lies behind damage
/// cannot be, and is then left alone, instead of being looked for again and again.
#[test]
fn a_damaged_unit_is_looked_through_once() {
    let disk = SimDisk::new();
    let mut driver = Driver::open(&disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    driver.create_queue();
    for _ in 0..140 {
        driver.send(&[vec![b'a'; 900]]);
    }
    let path = unit_path(2);
    let mut bytes = disk.files()[&path].clone();
    bytes[6 << 10] ^= 1;
    disk.put(&path, &bytes);
    // One message in seven stays, in every unit some: all of them are sparse.
    for (nth, token) in driver.receive(200).into_iter().enumerate() {
        if nth % 7 != 0 {
            driver.settle(token, Disposition::Complete);
        }
    }
    for _ in 0..60 {
        driver.send(&[vec![b'b'; 900]]);
        for token in driver.receive(1) {
            driver.settle(token, Disposition::Complete);
        }
    }
    for _ in 0..10 {
        driver.turn();
    }
    let calls = disk.calls();
    for _ in 0..10 {
        driver.turn();
    }
    assert_eq!(disk.calls() - calls, 0, "an idle store goes on reading");
    let left = |number: u64| disk.files().contains_key(&unit_path(number));
    assert!(left(2), "what cannot be carried stays where it is");
    assert!(!left(1) && !left(3), "{:?}", disk.files().keys());
    let (read, unread): (Vec<_>, Vec<_>) =
        driver.peek_contents().into_iter().partition(Result::is_ok);
    assert_eq!((read.len(), unread.len()), (20, 0), "the damage is not in a content: {unread:?}");
}

/// A store of one message in a unit that nobody writes to any more, and that unit's file.
async fn cold_message(folder: &Folder, clock: &VirtualClock) -> (Bellwether, PathBuf) {
    let open = || {
        let open = Open::new(format!("file:{}", folder.path)).clock(clock.clone());
        open.body_cache_bytes_max(0).open()
    };
    let bellwether = open().await.unwrap();
    let queue = bellwether.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send(vec![b'x'; BODY_BYTES]).await.unwrap();
    // That it failed before, and for other reasons, does not count.
    for _ in 0..FAILURES {
        receive(&bellwether).await.unwrap().abandon().await.unwrap();
    }
    bellwether.close().await;
    let unit = Path::new(&folder.path).join("0000000000000001.log");
    (open().await.unwrap(), unit)
}

async fn receive(bellwether: &Bellwether) -> Option<Delivery> {
    bellwether.queue("orders").unwrap().receive().one().await.unwrap()
}

async fn pass_a_second(bellwether: &Bellwether, clock: &VirtualClock) {
    // An answer leaves when all that was asked for before, or became due, can be seen.
    bellwether.queues().await.unwrap();
    clock.advance(Duration::from_secs(1));
    bellwether.queues().await.unwrap();
}

/// M7: a message that cannot be read for a while comes later, whole, and is no dead letter.
#[tokio::test]
async fn a_message_that_cannot_be_read_for_a_while_comes_later() {
    let (folder, clock) = (Folder::new("reading-later"), VirtualClock::new());
    let (bellwether, unit) = cold_message(&folder, &clock).await;
    let away = unit.with_extension("away");
    std::fs::rename(&unit, &away).unwrap();
    for _ in 0..2 {
        assert!(receive(&bellwether).await.is_none());
        // It waits a little: the next one who asks is not sent against the same wall.
        assert!(receive(&bellwether).await.is_none());
        pass_a_second(&bellwether, &clock).await;
    }
    std::fs::rename(&away, &unit).unwrap();
    let delivery = receive(&bellwether).await.expect("it can be read again");
    assert_eq!((delivery.body().len(), delivery.deliveries()), (BODY_BYTES, FAILURES + 3));
    delivery.complete().await.unwrap();
    bellwether.close().await;
}

/// M7: what stays unreadable is set aside and says why; its bytes are kept.
#[tokio::test]
async fn a_message_that_stays_unreadable_is_set_aside_with_its_reason() {
    let (folder, clock) = (Folder::new("reading-never"), VirtualClock::new());
    let (bellwether, unit) = cold_message(&folder, &clock).await;
    let mut bytes = std::fs::read(&unit).unwrap();
    let body = bytes.windows(8).position(|bytes| bytes == [b'x'; 8]).unwrap();
    bytes[body] ^= 1;
    std::fs::write(&unit, &bytes).unwrap();
    for _ in 0..3 {
        assert!(receive(&bellwether).await.is_none());
        pass_a_second(&bellwether, &clock).await;
    }
    let dead = bellwether.queue("orders").unwrap().dead_letters();
    let [letter] = &dead.peek(bellwether::SequenceNumber(0), 10).await.unwrap()[..] else {
        panic!("one dead letter")
    };
    assert_eq!(letter.dead_letter_reason(), Some("Unreadable"));
    let why = letter.dead_letter_description().unwrap();
    assert!(why.contains("checksum"), "{why}");
    assert_eq!(letter.message().unwrap_err(), why);
    bellwether.close().await;
}
