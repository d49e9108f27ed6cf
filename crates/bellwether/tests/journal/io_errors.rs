//! Every call of a run fails once, in every way (D9).

use bellwether::journal::file::{CrashChoice, Fault, SimDisk};
use bellwether::journal::{Journal as _, JournalFault};

use crate::world::{Driver, assert_sound, open};

/// Runs the workload on a disk that fails once, and goes on as an engine would.
fn run(disk: &SimDisk) -> Option<(Driver, Result<(), JournalFault>)> {
    let (mut driver, _) = Driver::open(disk).ok()?;
    let mut result = driver.workload();
    if matches!(result, Err(JournalFault::Full { .. })) {
        result = driver.append(10).and_then(|()| driver.flush());
    }
    Some((driver, result))
}

#[test]
fn nothing_is_called_durable_after_a_failure_and_nothing_durable_is_lost() {
    let disk = SimDisk::new();
    run(&disk).unwrap().1.unwrap();
    let calls = disk.calls();
    let mut broken = 0;
    for k in 0..calls {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            let disk = SimDisk::new();
            disk.fail_at(k, fault);
            let (appended, durable) = match run(&disk) {
                None => Default::default(),
                Some((mut driver, result)) => {
                    let durable = driver.durable;
                    if let Err(JournalFault::Broken { .. }) = result {
                        broken += 1;
                        assert_ne!(fault, Fault::ShortWrite);
                        let flusher = driver.journal.flusher();
                        assert!(driver.append(10).is_err(), "call {k}, {fault:?}");
                        assert!(flusher.flush().is_err(), "call {k}, {fault:?}");
                        assert_eq!(flusher.flushed().0, durable, "call {k}, {fault:?}");
                        assert!(driver.journal.close().is_err());
                    } else if let Err(other) = result {
                        panic!("call {k}, {fault:?}: {other}");
                    }
                    (driver.appended, durable)
                }
            };
            let all = appended.keys().last().copied().unwrap_or(0);
            // Started again on a healed disk, and after a power cut on top of that.
            let healed = disk.kill();
            let cut = disk.crash(CrashChoice::LoseAll, 0);
            let (mut journal, recovered) = open(&healed).unwrap();
            assert_sound(&mut journal, &recovered, &appended, durable, all);
            let (_, second) = open(&healed.crash(CrashChoice::LoseAll, 0)).unwrap();
            assert_eq!(second.frames, recovered.frames, "call {k}, {fault:?}");
            let (mut journal, recovered) = open(&cut).unwrap();
            assert_sound(&mut journal, &recovered, &appended, durable, all);
        }
    }
    println!("{calls} calls, each failing in 3 ways; {broken} runs ended broken");
    assert!(broken > calls / 4);
}
