//! In what a process is dressed up: its clocks and its network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands before a program's name, and what a candidate is told besides.
#[derive(Clone, Debug, Default)]
pub struct Guise {
    /// Programs that become the next one, with their arguments.
    pub before: Vec<String>,
    /// Flags for a candidate.
    pub flags: Vec<String>,
}

impl Guise {
    /// In a network of its own.
    pub fn in_network(name: &str) -> Self {
        Self { before: words(&["ip", "netns", "exec", name]), flags: Vec::new() }
    }

    /// With a boot clock that is ahead by so much, as on another machine.
    pub fn ahead(seconds: u64) -> Self {
        let seconds = seconds.to_string();
        let before = words(&["unshare", "--time", "--boottime", &seconds]);
        let tried =
            Command::new(&before[0]).args(&before[1..]).args(["cat", "/proc/uptime"]).output();
        let said = tried.ok().map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned());
        let first = said.as_deref().and_then(|said| said.split('.').next()?.parse::<u64>().ok());
        assert!(
            first.is_some_and(|up| up >= seconds.parse().unwrap()),
            "a time namespace is needed: root, Linux 5.11 or later, and `unshare --time` \
             (util-linux); it said {said:?}"
        );
        Self { before, flags: words(&["--ahead-s", &seconds]) }
    }

    /// With clocks that all run at this rate.
    pub fn at_rate(rate: &str) -> Self {
        let fake = format!("FAKETIME=+0 x{rate}");
        let before = words(&["env", &preload(), &fake, "NO_FAKE_STAT=1"]);
        Self { before, flags: words(&["--rate", rate]) }
    }

    /// With a wall clock that can be set by writing to `file`; the boot clock stays the machine's.
    pub fn with_wall_clock(file: &Path) -> Self {
        let file = format!("FAKETIME_TIMESTAMP_FILE={}", file.display());
        let fixed = ["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1", "NO_FAKE_STAT=1"];
        let before = [words(&["env", &preload(), &file]), words(&fixed)].concat();
        Self { before, flags: Vec::new() }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn preload() -> String {
    format!("LD_PRELOAD={}", faketime().display())
}

/// The library that stands in for the C library's clocks; our program asks those.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let paths = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let mut found = paths.filter(|path| path.exists());
    found.next().expect("libfaketime is needed (Debian's package libfaketime)")
}
