//! D9: every call to the disk fails once, below a whole engine.

use bellwether::core::time::Now;
use bellwether::journal::file::{CrashChoice, Fault, SimDisk};

use crate::driver::{Driver, Told, assert_kept};

#[test]
fn no_answer_is_given_for_what_a_failing_disk_did_not_keep() {
    let start = Now::new(1_600_000_000_000, 5_000);
    let disk = SimDisk::new();
    let mut driver = Driver::open(&disk, start).unwrap();
    driver.workload();
    assert_eq!((driver.told.faults, driver.told.refused), (0, 0));
    assert!(driver.told.sent.len() == 132 && driver.told.completed.len() > 30);
    let files = disk.files();
    let snapshots = files.keys().filter(|path| path.extension().is_some_and(|e| e == "snapshot"));
    let first = std::path::Path::new("/store/0000000000000001.log");
    // The workload passes through everything: snapshots, and units that are given back.
    assert!(snapshots.count() == 1 && !files.contains_key(first), "{:?}", files.keys());
    let calls = disk.calls();
    let later = start.plus_ms(1_000_000);
    assert_kept(&disk.kill(), &driver.told, later, "without a fault");
    let (mut broken, mut full) = (0, 0);
    for k in 0..calls {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            let what = format!("call {k} of {calls}, {fault:?}");
            let disk = SimDisk::new();
            disk.fail_at(k, fault);
            let told = match Driver::open(&disk, start) {
                // It says so and opens nothing.
                Err(_) => Told::default(),
                Ok(mut driver) => {
                    driver.workload();
                    broken += usize::from(driver.shard.fault().is_some());
                    full += usize::from(driver.told.refused > 0);
                    driver.told
                }
            };
            // Started again on a disk that is well, after a kill and after a power cut.
            assert_kept(&disk.kill(), &told, later, &what);
            let cut = disk.crash(CrashChoice::LoseAll, 0);
            assert_kept(&cut, &told, later, &format!("{what}, then a power cut"));
        }
    }
    println!("{calls} calls, each failing in 3 ways: {broken} runs broken, {full} refused senders");
    assert!(broken > calls as usize / 4);
}
