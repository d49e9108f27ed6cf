//! Bits flip at rest: every flip is found, or changes nothing (S1).

use bellwether::journal::file::SimDisk;
use bellwether::journal::{Journal as _, JournalFault};

use crate::world::{Driver, open};

#[test]
fn a_flipped_bit_is_named_or_harmless() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.workload().unwrap();
    drop(driver);
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.append(1500).unwrap();
    driver.append(30).unwrap();
    driver.journal.close().unwrap();
    let (want, files) = (driver.appended, disk.files());
    drop(driver.journal);

    let (mut found, mut harmless) = (0, 0);
    for (path, bytes) in &files {
        let name = path.display().to_string();
        let ends = [".log", ".snapshot"].iter().any(|e| name.ends_with(e));
        if !ends {
            continue;
        }
        let last = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        for byte in (0..80).chain((80..last).step_by(11)) {
            let bit = 1 << (byte % 8);
            let mut flipped = bytes.clone();
            flipped[byte] ^= bit;
            let flipped_disk = disk.kill();
            flipped_disk.put(path, &flipped);
            match open(&flipped_disk) {
                Ok((_, recovered)) => {
                    assert_eq!(recovered.frames, want, "{name}, byte {byte}");
                    harmless += 1;
                }
                Err(JournalFault::Damaged { file, .. }) => {
                    assert_eq!(file, name, "byte {byte}");
                    found += 1;
                }
                Err(other) => panic!("{name}, byte {byte}: {other}"),
            }
        }
    }
    println!("{found} flips found, {harmless} harmless");
    assert!(found > 1000);
}

#[test]
fn a_flip_in_a_durable_frame_is_damage_even_at_the_end() {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    for _ in 0..5 {
        driver.append(100).unwrap();
    }
    driver.flush().unwrap();
    driver.mark().unwrap();
    let files = disk.files();
    let (path, bytes) =
        files.iter().find(|(p, _)| p.display().to_string().ends_with("1.log")).unwrap();
    for byte in (4096..4096 + 5 * 136).filter(|byte| byte % 136 != 4096 % 136 + 132) {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 0x10;
        let disk = disk.kill();
        disk.put(path, &flipped);
        match open(&disk) {
            Err(JournalFault::Damaged { file, .. }) => assert!(file.ends_with("1.log")),
            Ok((_, recovered)) => assert_eq!(recovered.frames, driver.appended, "byte {byte}"),
            Err(other) => panic!("{other}"),
        }
    }
}
