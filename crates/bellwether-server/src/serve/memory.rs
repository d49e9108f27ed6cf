//! How much memory this process may have, and the store of it.

use crate::config::Config;

/// No store works with less.
const BYTES_MIN: u64 = 1 << 20;
/// The largest request must have a chance: twelve mebibytes over the wire, in as many steps.
const ASKS_BYTES_MIN: u64 = 16 << 20;
/// Where nobody says how much there is.
const BYTES_UNKNOWN: u64 = 8 << 30;

/// What the store may take: what was set, or six tenths of what this process may have.
pub(crate) fn of_store(config: &Config) -> u64 {
    tenths_or(config.memory_bytes_max.get(), 6).max(BYTES_MIN)
}

/// What requests may take until they are answered: what was set, or two tenths. Answers, connections
/// and the system's own buffers need the rest.
pub(crate) fn of_asks(config: &Config) -> u64 {
    tenths_or(config.asks_bytes_max.get(), 2).max(ASKS_BYTES_MIN)
}

fn tenths_or(set: u64, tenths: u64) -> u64 {
    match set {
        0 => {
            limit(&|path| std::fs::read_to_string(path).ok()).unwrap_or(BYTES_UNKNOWN) / 10 * tenths
        }
        bytes => bytes,
    }
}

/// The smallest limit of this process's control groups, or the machine's memory if that is less.
fn limit(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| of_group(line, read));
    of_groups.chain(of_machine(read)).min()
}

/// The smallest limit of a group and of those that it is in: a line of `/proc/self/cgroup`.
fn of_group(line: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        list if list.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let path = path.trim_end_matches('/');
    let paths = std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
    // No limit is a word, or a number larger than any memory.
    paths.filter_map(|path| read(&format!("{root}{path}/{file}"))?.trim().parse().ok()).min()
}

fn of_machine(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        };
        limit(&read)
    }

    #[test]
    fn the_smallest_limit_counts() {
        let machine = ("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[machine]), Some(16 << 20));
        let group = ("/proc/self/cgroup", "0::/a/b\n");
        let (near, far) = ("/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max");
        assert_eq!(found(&[machine, group, (near, "max\n")]), Some(16 << 20));
        let both = [machine, group, (near, "8388608\n"), (far, "4194304\n")];
        assert_eq!(found(&both), Some(4 << 20));
        assert_eq!(found(&[machine, group, (near, "99999999999\n")]), Some(16 << 20));
    }

    #[test]
    fn the_older_kind_of_groups_is_understood() {
        let group = ("/proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/x\n0::/\n");
        let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
        assert_eq!(found(&[group, limit]), Some(2 << 20));
    }
}
