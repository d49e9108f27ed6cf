//! Which process speaks, in words that are the same on both sides of a Unix socket.
//!
//! ```text
//! 4c5a5f3e-… 4711 830512     the machine's boot, the process id, when the process began
//! ```
//!
//! The kernel tells a server the process that *connected*, which may be one that only passes on what
//! others say: a tunnel, a proxy. So a client says which process it is, and a server believes it if
//! the one that connected is described in the same words. The id is the one that the process has in
//! its own namespace; the beginning is the 22nd field of `/proc/PID/stat`, in ticks since the boot.

use std::fs::read_to_string;

/// This process. Empty where the kernel does not say.
pub fn own() -> String {
    described("self").unwrap_or_default()
}

/// The process with this id, or `self`; `None` if there is none, or it is not shown.
pub(crate) fn described(pid: &str) -> Option<String> {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(format!("{} {} {}", boot.trim(), inner_pid(&status)?, began(&stat)?))
}

/// Its id in the innermost namespace, which is the one it knows itself.
fn inner_pid(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

fn began(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may be anything.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_described_in_its_own_words_whoever_describes_it() {
        let own = own();
        assert_eq!(described(&std::process::id().to_string()).as_ref(), Some(&own));
        assert_eq!(own.split(' ').nth(1), Some(&*std::process::id().to_string()));
        let other = described("1").expect("every namespace has a first process");
        assert_ne!(other, own);
        assert_eq!(described("4194305"), None, "more than there can be");
    }

    #[test]
    fn in_a_container_the_inner_id_counts_and_no_name_can_deceive() {
        let status = "Name:\ta\nPid:\t4711\nNSpid:\t4711\t12\t7\nThreads:\t1\n";
        assert_eq!(inner_pid(status), Some(7));
        let rest: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(began(&format!("4711 (a) b (c) {}", rest.join(" "))), Some(22));
        assert_eq!(began("4711 (a) S 1"), None);
    }
}
