//! D10: a full disk refuses senders and nobody else, and work resumes by itself.

use bellwether::Error;
use bellwether::core::command::{Command, Disposition};
use bellwether::core::settings::QueueSettings;
use bellwether::core::time::Now;
use bellwether::journal::file::SimDisk;

use crate::driver::{Driver, assert_kept, queue};

const BODY: usize = 900;

fn on_a_small_disk(bytes: u64) -> (SimDisk, Driver) {
    let disk = SimDisk::new();
    disk.set_capacity(Some(bytes));
    let mut driver = Driver::open(&disk, Now::new(1_600_000_000_000, 5_000)).unwrap();
    let settings = Box::new(QueueSettings::default());
    driver.ask(Command::CreateQueue { queue: queue(), settings }, Vec::new()).unwrap();
    (disk, driver)
}

/// Sends until the disk is full; says how many were accepted.
fn fill(driver: &mut Driver) -> usize {
    let before = driver.told.sent.len();
    for _ in 0..10_000 {
        let refused = driver.told.refused;
        driver.send(&[vec![b'x'; BODY]]);
        if driver.told.refused > refused {
            return driver.told.sent.len() - before;
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn settling_goes_on_and_makes_room() {
    let (disk, mut driver) = on_a_small_disk(200 << 10);
    let sent = fill(&mut driver);
    assert!(sent > 40, "{sent}");
    let refused = driver.told.refused;
    for token in driver.receive(20) {
        driver.settle(token, Disposition::Complete);
    }
    assert_eq!(driver.told.completed.len(), 20, "settled while the disk was full");
    assert_eq!((driver.told.refused, driver.told.faults), (refused, 0));
    // Everything consumed: the space comes back without anybody's help.
    while driver.told.completed.len() < sent {
        for token in driver.receive(20) {
            driver.settle(token, Disposition::Complete);
        }
    }
    for _ in 0..200 {
        driver.turn();
    }
    let again = fill(&mut driver);
    assert!(again > 10, "only {again} after {sent} were consumed");
    assert!(driver.shard.fault().is_none());
    disk.set_capacity(None);
    assert_kept(&disk.kill(), &driver.told, driver.now.plus_ms(1_000_000), "filled twice");
}

#[test]
fn space_that_comes_back_is_used() {
    let (disk, mut driver) = on_a_small_disk(200 << 10);
    fill(&mut driver);
    disk.set_capacity(Some(800 << 10));
    for _ in 0..10 {
        driver.turn();
    }
    assert!(fill(&mut driver) > 100);
    assert!(driver.shard.fault().is_none());
    disk.set_capacity(None);
    assert_kept(&disk.kill(), &driver.told, driver.now.plus_ms(1_000_000), "made room");
}

#[test]
fn the_refusal_says_that_it_will_pass() {
    let (_, mut driver) = on_a_small_disk(200 << 10);
    fill(&mut driver);
    let error = driver.last_refusal.take().unwrap();
    let Error::Refused(refusal) = error else { panic!("{error}") };
    assert!(refusal.retry(), "{refusal}");
    assert!(refusal.to_string().contains("disk is full"), "{refusal}");
}
