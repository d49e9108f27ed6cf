//! What this machine is, and what a process uses of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::report::Report;

pub(crate) fn describe(report: &mut Report, folder: &Path) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown");
    report.fact("processor", model.trim_start_matches([' ', '\t', ':']));
    report.fact("cores", std::thread::available_parallelism().map_or(0, usize::from));
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
            folder.starts_with(at).then(|| (at.len(), format!("{kind} on {device}")))
        })
        .max();
    report.fact("file system", mount.map_or_else(|| "unknown".into(), |(_, text)| text));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    report.fact("kernel", kernel.trim());
    report.fact("load before", fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    resident_bytes_of(std::process::id())
}

/// Resident memory of a process.
pub(crate) fn resident_bytes_of(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes of all files in a folder, as the disk counts them.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.blocks() * 512).sum()
}

/// Empties the page cache. False if that is not allowed here.
pub(crate) fn drop_caches() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Lets this process open as many files as it may.
pub(crate) fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
}

/// What all cores together have done since boot: ticks of the clock at work, and all.
pub(crate) fn busy_and_all() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    // Of these the fourth and the fifth are idle; the last two are counted before.
    let all: u64 = ticks.iter().take(8).sum();
    (all - ticks.iter().skip(3).take(2).sum::<u64>(), all)
}

/// What the threads of a process do from some moment on.
pub(crate) struct Work {
    pid: u32,
    /// By thread: nanoseconds on a core, and how often it was put on one.
    seen: BTreeMap<String, (u64, u64)>,
    done: (u64, u64),
}

impl Work {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, seen: threads(pid), done: (0, 0) }
    }

    /// Counts what was done since the last look. What a thread did since then that has ended is lost.
    pub(crate) fn look(&mut self) {
        let now = threads(self.pid);
        for (thread, (ns, turns)) in &now {
            let before = self.seen.get(thread).copied().unwrap_or_default();
            self.done.0 += ns - before.0;
            self.done.1 += turns - before.1;
        }
        self.seen = now;
    }

    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.done.0)
    }

    /// How often a thread began to run.
    pub(crate) fn wakes(&self) -> u64 {
        self.done.1
    }
}

/// Of each thread of a process, what the scheduler says of it.
fn threads(pid: u32) -> BTreeMap<String, (u64, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of_thread = |task: fs::DirEntry| {
        // One that has just ended has none.
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (on_core, _waiting, turns) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((task.file_name().into_string().ok()?, (on_core, turns)))
    };
    tasks.flatten().filter_map(of_thread).collect()
}
