//! What a journal does on a good day.

use std::path::Path;
use std::sync::Arc;

use bellwether::journal::file::{CrashChoice, SimDisk, State, check};
use bellwether::journal::{Flush, Journal, JournalFault};
use bellwether_core::content::Place;

use crate::world::{DIR, Driver, block, open, payload, run_jobs, tiny};

fn files(disk: &SimDisk, suffix: &str) -> Vec<String> {
    let names = disk.files().into_keys().map(|p| p.display().to_string());
    names.filter(|name| name.ends_with(suffix)).collect()
}

#[test]
fn what_was_appended_comes_back_in_order() {
    let disk = SimDisk::new();
    let (mut driver, empty) = Driver::open(&disk).unwrap();
    assert!(empty.frames.is_empty());
    for i in 0..200 {
        driver.append(i * 7 % 900 + 1).unwrap();
    }
    driver.flush().unwrap();
    driver.journal.close().unwrap();
    assert!(matches!(driver.append(1), Err(JournalFault::Closed { .. })));
    assert!(files(&disk, ".log").len() > 3, "the journal rolled over");

    let (journal, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.frames, driver.appended);
    assert_eq!(journal.report().incarnation, 2);
    assert_eq!(journal.report().frames, 201, "200 frames and the closing mark");
    assert!(journal.report().cut.is_empty());
}

#[test]
fn a_prepared_position_is_where_the_payload_lies() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for len in [1, 8, 500, 8000, 12_000] {
        let at = driver.journal.prepare(len).unwrap();
        driver.append(len).unwrap();
        let place = Place { unit: at.unit, offset: at.payload_offset, len: len as u32 };
        let read = driver.journal.reader(at.unit).unwrap().unwrap().read(place).unwrap();
        assert_eq!(read, payload(at.number.0, len));
    }
    let max = driver.journal.frame_bytes_max();
    driver.append(max).unwrap();
    assert!(matches!(driver.append(max + 1), Err(JournalFault::TooLarge { .. })));
    driver.append(1).unwrap();
}

#[test]
fn a_snapshot_stands_in_for_the_units_before_it() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    assert!(!driver.journal.wants_snapshot());
    while !driver.journal.wants_snapshot() {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.flush().unwrap();
    driver.snapshot().unwrap();
    assert!(!driver.journal.wants_snapshot());
    let before = files(&disk, ".log").len();
    driver.journal.reclaim(&|_| 0);
    driver.jobs().unwrap();
    assert!(files(&disk, ".log").len() < before);
    assert!(driver.journal.reader(1).unwrap().is_none());
    driver.append(10).unwrap();
    driver.flush().unwrap();

    let (journal, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(recovered.frames, driver.appended);
    assert!(recovered.blocks > 0 && recovered.replayed.len() < recovered.frames.len());
    assert_eq!(journal.report().snapshot, Some(1));
}

#[test]
fn as_many_blanks_are_kept_as_are_written_between_two_snapshots() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for _ in 0..150 {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.snapshot().unwrap();
    driver.journal.reclaim(&|_| 0);
    driver.jobs().unwrap();
    let spares = files(&disk, ".spare").len();
    assert!(spares > 8, "{spares}: the next snapshot comes after many units");

    // Less is waiting now, so the next one comes sooner.
    driver.journal.snapshot_begin().unwrap();
    driver.journal.snapshot_block(Box::new(block(1, b"little")));
    driver.journal.snapshot_end();
    driver.flush().unwrap();
    driver.jobs().unwrap();
    for _ in 0..20 {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.journal.snapshot_begin().unwrap();
    driver.journal.snapshot_block(Box::new(block(1, b"little")));
    driver.journal.snapshot_end();
    driver.flush().unwrap();
    driver.jobs().unwrap();
    driver.journal.reclaim(&|_| 0);
    driver.jobs().unwrap();
    let left = files(&disk, ".spare").len() + files(&disk, ".zero").len();
    assert_eq!(left, 2, "of {spares}: 24 KiB are written in two units of 16 KiB");
}

#[test]
fn recycled_units_are_used_again_and_readers_keep_theirs() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    let mut held = None;
    for round in 0..40 {
        let at = driver.journal.prepare(900).unwrap();
        driver.append(900).unwrap();
        driver.jobs().unwrap();
        if round == 12 {
            let place = Place { unit: at.unit, offset: at.payload_offset, len: 900 };
            held = Some((driver.journal.reader(at.unit).unwrap().unwrap(), place, at));
        }
    }
    driver.flush().unwrap();
    driver.snapshot().unwrap();
    driver.journal.reclaim(&|_| 0);
    driver.jobs().unwrap();
    let spares = files(&disk, ".spare");
    assert!(!spares.is_empty() && spares.len() <= 4, "{spares:?}");

    for _ in 0..120 {
        driver.append(900).unwrap();
        driver.jobs().unwrap();
    }
    driver.flush().unwrap();
    assert!(files(&disk, ".spare").len() < spares.len(), "spares are used first");
    let (reader, place, at) = held.unwrap();
    assert!(driver.journal.reader(at.unit).unwrap().is_none());
    assert_eq!(reader.read(place).unwrap(), payload(at.number.0, 900));

    let (_, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(recovered.frames, driver.appended);
}

#[test]
fn a_scan_sees_every_frame_of_a_unit_however_small_the_steps() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for i in 0..40 {
        driver.append(i * 37 % 1500 + 1).unwrap();
    }
    driver.mark().unwrap();
    for step in [1, 700, 4096, 1 << 20] {
        let mut seen = crate::world::Frames::new();
        for unit in 1..=driver.journal.prepare(1).unwrap().unit {
            let mut offset = Some(0);
            while let Some(from) = offset {
                let mut visit = |at: bellwether::journal::Prepared, bytes: &[u8]| {
                    assert_eq!(at.unit, unit);
                    assert!(seen.insert(at.number.0, bytes.to_vec()).is_none());
                };
                offset = driver.journal.scan(unit, from, step, &mut visit).unwrap();
            }
        }
        assert_eq!(seen, driver.appended, "step {step}");
    }
}

#[test]
fn the_sparsest_unit_is_named_when_too_much_is_dead() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for _ in 0..200 {
        driver.append(900).unwrap();
    }
    driver.flush().unwrap();
    driver.snapshot().unwrap();
    let live = |unit: u64| match unit {
        3 => 10,
        2 => 500,
        _ => 0,
    };
    assert_eq!(driver.journal.sparse_unit(&live), Some(3));
    driver.journal.reclaim(&live);
    driver.jobs().unwrap();
    assert!(
        driver.journal.reader(3).unwrap().is_some() && driver.journal.reader(4).unwrap().is_none()
    );
    assert_eq!(driver.journal.sparse_unit(&live), None);
}

#[test]
fn a_second_opener_is_told_who_has_the_store() {
    let disk = SimDisk::new();
    let (mut first, _) = open(&disk).unwrap();
    let fault = open(&disk).unwrap_err();
    assert!(matches!(&fault, JournalFault::InUse { .. }), "{fault}");
    assert!(fault.to_string().contains("pid 1, a test"), "{fault}");
    let looked = check(Arc::new(disk.clone()), Path::new(DIR));
    assert!(matches!(looked, Err(JournalFault::InUse { .. })));
    first.close().unwrap();
    open(&disk).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk).unwrap();
    journal.close().unwrap();
    let path = Path::new(DIR).join(files(&disk, ".log")[0].rsplit('/').next().unwrap());
    let mut bytes = disk.files()[&path].clone();
    bytes[8] = 9;
    let crc = crc32c::crc32c(&bytes[..64]);
    bytes[64..68].copy_from_slice(&crc.to_le_bytes());
    disk.put(&path, &bytes);
    let fault = open(&disk).unwrap_err();
    assert!(matches!(fault, JournalFault::UnknownVersion { found: 9, known: 1, .. }), "{fault}");
}

#[test]
fn a_missing_unit_is_damage() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for _ in 0..60 {
        driver.append(900).unwrap();
    }
    driver.journal.close().unwrap();
    for name in files(&disk, ".log").iter().take(3) {
        let disk = disk.kill();
        bellwether::journal::file::Disk::remove(&disk, Path::new(name)).unwrap();
        let fault = open(&disk).unwrap_err();
        assert!(matches!(&fault, JournalFault::Damaged { file, .. } if file == name), "{fault}");
    }
}

#[test]
fn check_tells_clean_from_torn_from_damaged_and_changes_nothing() {
    let disk = SimDisk::new();
    let look = |disk: &SimDisk| {
        let before = disk.fingerprint(&|_| true);
        let verdict = check(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        assert_eq!(disk.fingerprint(&|_| true), before);
        verdict
    };
    assert!(matches!(look(&disk).state, State::Empty));
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for _ in 0..8 {
        driver.append(600).unwrap();
    }
    driver.flush().unwrap();
    driver.mark().unwrap();
    driver.append(3000).unwrap();
    let killed = disk.kill();
    let verdict = look(&killed);
    assert!(matches!(verdict.state, State::Clean), "{verdict:?}");
    assert_eq!((verdict.frames, verdict.next_frame, verdict.incarnation), (10, 11, 1));

    // The flush of the last frame never came; sectors of it, but not the first, reached the disk.
    let path = Path::new(DIR).join("0000000000000002.log");
    let whole = killed.files()[&path].clone();
    let torn_at = whole.iter().rposition(|b| *b != 0).unwrap() - 2900;
    let mut torn = whole.clone();
    torn[torn_at] ^= 1;
    killed.put(&path, &torn);
    let verdict = look(&killed);
    assert!(matches!(&verdict.state, State::Torn { cut } if cut[0].unit == 2), "{verdict:?}");
    let (journal, recovered) = open(&killed).unwrap();
    assert_eq!(recovered.frames.len(), 8);
    let cut = &journal.report().cut[0];
    let kept = killed.files()[Path::new(cut.file.as_ref().unwrap())].clone();
    assert!(torn.windows(kept.len()).any(|w| w == kept), "the cut bytes are kept");
    drop(journal);

    let mut damaged = whole;
    damaged[5000] ^= 1;
    let killed = disk.kill();
    killed.put(&path, &damaged);
    let verdict = look(&killed);
    let State::Damaged { fault } = verdict.state else { panic!("{verdict:?}") };
    assert!(fault.to_string().contains("0000000000000002.log"), "{fault}");
}

/// A process that crashes again and again does not fill its disk with what was cut off.
#[test]
fn copies_of_what_was_cut_off_are_kept_in_bounds() {
    let mut disk = SimDisk::new();
    let mut newest = None;
    for _ in 0..20 {
        let (mut driver, _) = Driver::open(&disk).unwrap();
        newest = driver.journal.report().cut.first().and_then(|cut| cut.file.clone()).or(newest);
        driver.append(600).unwrap();
        driver.flush().unwrap();
        driver.append(3000).unwrap();
        // Of the last frame everything reaches the disk but its first sector.
        disk = disk.crash(CrashChoice::LoseOne(0), usize::MAX);
    }
    let kept = files(&disk, ".bin");
    assert!((8..=9).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept.last(), newest.as_ref());
}

#[test]
fn a_flush_on_another_thread_covers_what_was_appended_before_it() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    let flusher: Arc<dyn Flush> = driver.journal.flusher();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let thread = std::thread::spawn({
        let (flusher, stop) = (flusher.clone(), stop.clone());
        move || {
            let mut last = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let now = flusher.flush().unwrap().0;
                assert!(now >= last);
                last = now;
            }
        }
    });
    for i in 0..2000 {
        driver.append(i % 400 + 1).unwrap();
        if i % 50 == 0 {
            run_jobs(&mut driver.journal).unwrap();
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    flusher.flush().unwrap();
    let (_, recovered) = open(&disk.kill()).unwrap();
    assert_eq!(recovered.frames, driver.appended);
    assert_eq!(tiny().segment_bytes_max, 16 << 10);
}
