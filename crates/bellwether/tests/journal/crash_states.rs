//! Recovers from every point of a recorded run, with many choices of what a power cut kept (D1,
//! S2, S3, S4).

use std::collections::HashSet;
use std::path::Path;

use bellwether::journal::Journal as _;
use bellwether::journal::file::{CrashChoice, SimDisk, TraceOp};

use crate::world::{Driver, Frames, Note, assert_sound, open};

const STATES_MIN: usize = 50_000;

/// One recorded run: the disk it began on, what was done to it, and the frames it appended.
struct Run {
    base: SimDisk,
    trace: Vec<TraceOp>,
    appended: Frames,
}

/// From an empty disk: a life that is killed, one that is closed, one that goes on.
fn from_nothing() -> Run {
    let base = SimDisk::new();
    let disk = base.kill();
    disk.record();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.workload().unwrap();
    drop(driver);
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.append(2000).unwrap();
    driver.append(20).unwrap();
    driver.journal.close().unwrap();
    drop(driver);
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.append(600).unwrap();
    driver.flush().unwrap();
    driver.append(90).unwrap();
    Run { base, trace: disk.take_trace(), appended: driver.appended }
}

/// From a disk that lost power: the second life cuts a torn tail and uses its numbers again.
fn from_torn() -> Run {
    let disk = SimDisk::new();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.workload().unwrap();
    for i in 0..12 {
        driver.append(i * 90 + 11).unwrap();
    }
    let names = disk.pending_names();
    let torn = (0..1000).map(|seed| disk.crash(CrashChoice::Seed(seed), names)).find(|torn| {
        let (journal, _) = open(&torn.kill()).unwrap();
        !journal.report().cut.is_empty()
    });
    let base = torn.unwrap();
    let disk = base.kill();
    disk.record();
    let (mut driver, _) = Driver::open(&disk).unwrap();
    driver.workload().unwrap();
    Run { base, trace: disk.take_trace(), appended: driver.appended }
}

fn choices(pending: usize, names: usize, seeds: u64, round: u64) -> Vec<(CrashChoice, usize)> {
    let mut all = Vec::new();
    for kept in 0..=names {
        if round == 0 {
            all.push((CrashChoice::LoseAll, kept));
            all.push((CrashChoice::KeepAll, kept));
        }
    }
    if round == 0 {
        all.extend((0..pending).map(|one| (CrashChoice::LoseOne(one), names)));
    }
    if pending > 1 {
        let seeds = round * seeds..(round + 1) * seeds;
        all.extend(seeds.map(|seed| (CrashChoice::Seed(seed), seed as usize % (names + 1))));
    }
    all
}

/// Recovers from one state, and looks at it from all sides.
fn examine(state: &SimDisk, run: &Run, durable: u64, appending: u64, deep: bool) {
    if deep {
        state.record();
    }
    let before = deep.then(|| state.kill());
    let (mut journal, recovered) = open(state).unwrap();
    let built_on = journal.flusher().flushed().0;
    let trace = state.take_trace();
    // What recovery replayed is acted upon, so it must survive the next power cut.
    let again = state.crash(CrashChoice::LoseAll, 0);
    let (twice, second) = open(&again).unwrap();
    assert_eq!(second.frames, recovered.frames, "recovering twice is not recovering once");
    assert_eq!(twice.flusher().flushed().0, built_on);
    assert_sound(&mut journal, &recovered, &run.appended, durable, appending);
    let Some(disk) = before else { return };

    // A power cut during recovery.
    let step = (trace.len() / 5).max(1);
    for (i, op) in trace.iter().enumerate() {
        disk.apply(op);
        if i % step == 0 {
            let choice = CrashChoice::Seed(i as u64);
            let nested = disk.crash(choice, i % (disk.pending_names() + 1));
            let (mut journal, recovered) = open(&nested).unwrap();
            assert_sound(&mut journal, &recovered, &run.appended, durable, appending);
        }
    }
    // A life after the cut.
    drop(twice);
    let (mut driver, _) = Driver::open(&again).unwrap();
    for i in 0..12 {
        driver.append(1200 + i).unwrap();
    }
    driver.flush().unwrap();
    driver.append(700).unwrap();
    for choice in [CrashChoice::LoseAll, CrashChoice::Seed(durable)] {
        let (mut journal, recovered) = open(&again.crash(choice, 0)).unwrap();
        let (durable, all) = (driver.durable, driver.durable + 1);
        assert_sound(&mut journal, &recovered, &driver.appended, durable, all);
    }
}

fn sweep(run: &Run, seen: &mut HashSet<u64>, round: u64, seeds: u64) {
    let disk = run.base.kill();
    let (mut durable, mut appending) = (0, 0);
    {
        // What the run began with was durable before it.
        let (journal, recovered) = open(&run.base.kill()).unwrap();
        durable = durable.max(journal.flusher().flushed().0);
        appending = appending.max(recovered.frames.keys().last().copied().unwrap_or(0));
    }
    for op in &run.trace {
        disk.apply(op);
        if let TraceOp::Note(note) = op {
            match Note::of(*note) {
                Note::Appending(number) => appending = appending.max(number),
                Note::Durable(number) => durable = durable.max(number),
            }
            continue;
        }
        for (choice, names) in choices(disk.pending_len(), disk.pending_names(), seeds, round) {
            let state = disk.crash(choice, names);
            if seen.insert(state.fingerprint(&counts)) {
                examine(&state, run, durable, appending, seen.len().is_multiple_of(64));
            }
        }
    }
}

/// Half-made blanks are not what this is about.
fn counts(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "log" || e == "snapshot" || e == "spare")
}

#[test]
fn every_crash_state_recovers_what_was_durable() {
    let runs = [from_nothing(), from_torn()];
    let mut seen = HashSet::new();
    let mut round = 0;
    while seen.len() < STATES_MIN {
        for run in &runs {
            sweep(run, &mut seen, round, 24);
        }
        round += 1;
        assert!(round < 40, "only {} distinct states", seen.len());
    }
    let steps: usize = runs.iter().map(|run| run.trace.len()).sum();
    println!("{} distinct crash states of {steps} steps, {round} rounds", seen.len());
}
