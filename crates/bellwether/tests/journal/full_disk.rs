//! A full disk is back-pressure, not failure (D10).

use bellwether::journal::file::{Fault, FileOptions, SimDisk};
use bellwether::journal::{Journal as _, JournalFault, Pressure};

use crate::world::{Driver, open, open_with, tiny};

/// Fills the disk until the reserve is used up.
fn fill(driver: &mut Driver) -> (usize, usize) {
    let (mut at_ease, mut under_pressure) = (0, 0);
    for _ in 0..10_000 {
        driver.jobs().unwrap();
        match driver.journal.pressure() {
            Pressure::None => at_ease += 1,
            Pressure::Low | Pressure::Full => under_pressure += 1,
        }
        match driver.append(900) {
            Ok(()) => driver.flush().unwrap(),
            Err(JournalFault::Full { .. }) => return (at_ease, under_pressure),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn senders_are_refused_first_settling_goes_on_and_work_resumes() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(100 << 10));
    let (mut driver, _) = Driver::open(&disk).unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    let (at_ease, under_pressure) = fill(&mut driver);
    assert!(at_ease > 20 && under_pressure > 12, "{at_ease} {under_pressure}");
    assert_eq!(driver.journal.pressure(), Pressure::Full);
    assert!(matches!(driver.append(900), Err(JournalFault::Full { .. })), "and it stays so");
    driver.append(1).unwrap_or_else(|fault| assert!(matches!(fault, JournalFault::Full { .. })));

    disk.set_capacity(Some(400 << 10));
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    driver.append(900).unwrap();
    driver.flush().unwrap();
    let (_, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(recovered.frames, driver.appended);
}

#[test]
fn a_snapshot_on_a_full_disk_gives_space_back() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(100 << 10));
    let (mut driver, _) = Driver::open(&disk).unwrap();
    while driver.journal.pressure() == Pressure::None {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.flush().unwrap();
    assert!(driver.journal.wants_snapshot(), "a snapshot would free units");
    // Nothing is wanted any more, so the snapshot is small and fits the room kept for it.
    driver.journal.snapshot_begin().unwrap();
    driver.journal.snapshot_block(Box::new(crate::world::block(1, &[7; 600])));
    driver.journal.snapshot_end();
    driver.jobs().unwrap();
    driver.journal.reclaim(&|_| 0);
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    for _ in 0..30 {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.flush().unwrap();
    let (journal, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(journal.report().snapshot, Some(1));
    assert_eq!(recovered.frames.keys().last(), driver.appended.keys().last());
}

#[test]
fn little_space_refuses_senders_and_leaves_all_of_it_to_those_who_settle() {
    const FREE_BYTES_MIN: u64 = 200 << 10;
    let disk = SimDisk::new();
    let options = || FileOptions { free_bytes_min: FREE_BYTES_MIN, ..tiny() };
    let (mut driver, _) = Driver::open_with(&disk, options()).unwrap();
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    // Somebody else fills the disk. It is noticed when somebody looks.
    disk.set_capacity(Some(disk.used_bytes() + FREE_BYTES_MIN / 2));
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    driver.journal.look_for_space();
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::Low);
    // Many times what is kept ready for a disk that is full.
    for _ in 0..50 {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
        assert_eq!(driver.journal.pressure(), Pressure::Low);
    }
    driver.flush().unwrap();
    let (journal, _) = open_with(&disk.kill(), options()).unwrap();
    assert_eq!(journal.pressure(), Pressure::Low, "from the start");

    disk.fail_at(0, Fault::Eio);
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::Low, "a look that fails changes nothing");
    disk.set_capacity(None);
    driver.jobs().unwrap();
    assert_eq!(driver.journal.pressure(), Pressure::None);
    let (_, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(recovered.frames, driver.appended);
}

#[test]
fn a_full_disk_opens() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(100 << 10));
    let (mut driver, _) = Driver::open(&disk).unwrap();
    fill(&mut driver);
    // Not even the reserve is left, but a little space for the smallest unit.
    let disk = disk.kill();
    disk.set_capacity(Some(disk.used_bytes() + (8 << 10)));
    let (mut again, recovered) = Driver::open(&disk).unwrap();
    assert_eq!(recovered.frames, driver.appended);
    assert_eq!(again.journal.pressure(), Pressure::Full);
    again.append(100).unwrap();
    again.flush().unwrap();

    // With no byte left there is nothing to build on, and the fault says so.
    let disk = disk.kill();
    disk.set_capacity(Some(disk.used_bytes()));
    assert!(matches!(open(&disk), Err(JournalFault::Full { .. })));
    disk.set_capacity(None);
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.frames, again.appended);
}
