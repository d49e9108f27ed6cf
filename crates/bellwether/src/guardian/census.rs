//! Who is left of a process that has died: what a process that is not its ancestor can prove.
//!
//! ```text
//!   before:  init ── … ── the process ─┬─ a ── b        after:  init ── … ─┬─ a ── b
//!                 └─ others            └─ guardian                ├ others  └─ guardian
//! ```
//!
//! While it lives, every descendant of the process hangs below it, because it adopts the orphans
//! among them. So whoever does *not* hang below it at that time is none of its descendants, for ever:
//! an *innocent*, known by its number and the time it was started. When the process dies, its
//! children pass to its reaper, as the guardian itself does, which so knows who that is. From then on:
//!
//! 1. Whoever is alive and no innocent is *left of it*, unless an innocent other than the reaper stands
//!    between it and the reaper. What the reaper adopted or started since the last look is held to
//!    be left of it, too: that is unsure, and unsure means no.
//! 2. A look at `/proc` goes by growing numbers, and who is started during it has a greater one; so a
//!    descendant that starts another and ends is followed. Numbers begin again some day: therefore
//!    two looks in a row must find nobody.
//! 3. An innocent is believed only if the process had not begun to end when all was read: what it
//!    lets go of when it ends would look innocent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::process::{getpid, getppid};

/// Of a process that has begun to end (`PF_EXITING`).
const IS_ENDING: u64 = 0x4;
/// No line of parents is longer; one that seems to be was read while it changed.
const PARENTS_MAX: usize = 4096;

/// One process, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    pid: i32,
    parent: i32,
    /// In ticks since the machine was started.
    started: u64,
    flags: u64,
    is_dead: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Census {
    us: i32,
    main: Seen,
    innocents: BTreeMap<i32, u64>,
    /// Who adopts what the process leaves; more than one if that one has died, too.
    reapers: BTreeSet<i32>,
    /// The number that was given last, as of the last complete look.
    newest: Option<String>,
}

impl Census {
    /// Of the process with this number. Says why if nothing can be proved here.
    pub(super) fn new(pid: i32) -> Result<Self, String> {
        let us = getpid().as_raw_nonzero().get();
        let ourselves = std::fs::read_link("/proc/self").ok();
        if ourselves.and_then(|link| link.to_str()?.parse().ok()) != Some(us) {
            return Err("there is no /proc of this namespace, which says who is left".into());
        }
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        if hides(&mounts) {
            return Err("/proc hides the processes of others (hidepid), who may be left".into());
        }
        if pid == 1 {
            return Err(
                "process 1 takes its guardian along when it dies; start it under an init, \
                        as `docker run --init` does"
                    .into(),
            );
        }
        let main = look_at(pid).ok_or("it has ended")?;
        let (innocents, reapers) = (BTreeMap::new(), BTreeSet::new());
        let mut census = Self { us, main, innocents, reapers, newest: None };
        if census.look().map_err(|error| format!("cannot read /proc: {error}"))? {
            Ok(census)
        } else {
            Err("it ends".into())
        }
    }

    /// Looks who is there while the process lives; whether it did all the time.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        // Last of it: the number that the kernel has given last.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let newest = load.split_whitespace().last().map(ToOwned::to_owned);
        if newest.is_some() && newest == self.newest {
            return Ok(true);
        }
        let numbers = numbers()?;
        let unknown = |pid: &&i32| !self.innocents.contains_key(*pid);
        let strangers: BTreeMap<i32, Seen> =
            numbers.iter().filter(unknown).filter_map(|pid| Some((*pid, look_at(*pid)?))).collect();
        let found: Vec<Seen> =
            strangers.values().filter(|seen| self.is_apart(seen, &strangers)).copied().collect();
        let main = look_at(self.main.pid).filter(|main| main.started == self.main.started);
        if main.is_none_or(|main| main.is_dead || main.flags & IS_ENDING != 0) {
            return Ok(false);
        }
        let there: BTreeSet<i32> = numbers.into_iter().collect();
        self.innocents.retain(|pid, _| there.contains(pid));
        self.innocents.extend(found.into_iter().map(|seen| (seen.pid, seen.started)));
        self.newest = newest;
        Ok(true)
    }

    /// Whether this one does not hang below the process.
    fn is_apart(&self, seen: &Seen, strangers: &BTreeMap<i32, Seen>) -> bool {
        let mut seen = *seen;
        for _ in 0..PARENTS_MAX {
            if seen.pid == self.main.pid || seen.parent == self.main.pid {
                return false;
            }
            if seen.parent == 0 {
                return true;
            }
            if self.innocents.contains_key(&seen.parent) {
                // The number may have been given to somebody else.
                return look_at(seen.parent).is_some_and(|parent| self.is_innocent(&parent));
            }
            match strangers.get(&seen.parent) {
                Some(parent) if parent.started <= seen.started => seen = *parent,
                // It has ended meanwhile: the next look will tell.
                _ => return false,
            }
        }
        false
    }

    fn is_innocent(&self, seen: &Seen) -> bool {
        self.innocents.get(&seen.pid) == Some(&seen.started)
    }

    /// Whether somebody may be left of the process, now that it has died.
    pub(super) fn is_anybody_left(&mut self) -> bool {
        let reaper = parent();
        self.reapers.insert(reaper);
        let Ok(numbers) = numbers() else { return true };
        let all: BTreeMap<i32, Seen> =
            numbers.into_iter().filter_map(|pid| Some((pid, look_at(pid)?))).collect();
        // The reaper itself has died meanwhile: what it had passes on to the next one.
        reaper != parent() || all.values().any(|seen| self.may_be_left(seen, &all))
    }

    fn may_be_left(&self, seen: &Seen, all: &BTreeMap<i32, Seen>) -> bool {
        if seen.is_dead || seen.pid == self.us || self.is_innocent(seen) {
            return false;
        }
        let mut above = *seen;
        for _ in 0..PARENTS_MAX {
            if above.parent == 0 {
                return false;
            }
            if self.reapers.contains(&above.parent) {
                return !is_guardian(seen.pid);
            }
            match all.get(&above.parent) {
                Some(parent) if self.is_innocent(parent) => return false,
                Some(parent) => above = *parent,
                None => return true,
            }
        }
        true
    }
}

/// The reaper, once whoever started us has died.
fn parent() -> i32 {
    getppid().map_or(0, |parent| parent.as_raw_nonzero().get())
}

/// Another guardian of the same process: it waits as we do, and we must not wait for each other.
fn is_guardian(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(super::ARGUMENT.as_bytes())
}

/// Every process there is, by growing numbers.
fn numbers() -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

fn look_at(pid: i32) -> Option<Seen> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `PID (NAME) STATE PARENT …`, and a name may hold anything.
fn parse(pid: i32, stat: &str) -> Option<Seen> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |nth: usize| fields.get(nth)?.parse::<u64>().ok();
    let is_over = matches!(*fields.first()?, "Z" | "X" | "x");
    Some(Seen {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        flags: number(6)?,
        // The first thread may be over and others go on.
        is_dead: is_over && number(17)? <= 1,
        started: number(19)?,
    })
}

/// Whether processes of others cannot be seen.
fn hides(mounts: &str) -> bool {
    let mut here = mounts.lines().filter(|line| line.split(' ').nth(1) == Some("/proc"));
    let options = here.next_back().and_then(|line| line.split(' ').nth(3)).unwrap_or_default();
    let hidden = options.split(',').find_map(|option| option.strip_prefix("hidepid="));
    hidden.is_some_and(|how| how != "0" && how != "off")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: i32 = 50;
    const REAPER: i32 = 10;

    fn seen(pid: i32, parent: i32) -> Seen {
        Seen { pid, parent, started: u64::try_from(pid).unwrap(), flags: 0, is_dead: false }
    }

    fn table(all: &[Seen]) -> BTreeMap<i32, Seen> {
        all.iter().map(|seen| (seen.pid, *seen)).collect()
    }

    /// Beside the process are `init`, its reaper, and a program of somebody else.
    fn census() -> Census {
        let innocents = [(1, 1), (REAPER, 10), (20, 20)].into();
        let reapers = [REAPER].into();
        Census { us: 60, main: seen(MAIN, REAPER), innocents, reapers, newest: None }
    }

    fn left(all: &[Seen]) -> Vec<i32> {
        let (census, all) = (census(), table(all));
        let left = all.values().filter(|seen| census.may_be_left(seen, &all));
        left.map(|seen| seen.pid).collect()
    }

    #[test]
    fn who_hangs_below_the_process_is_not_apart() {
        let strangers = table(&[seen(MAIN, REAPER), seen(60, MAIN), seen(61, 60), seen(62, 99)]);
        let census = census();
        for seen in strangers.values() {
            assert!(!census.is_apart(seen, &strangers), "{seen:?}");
        }
        let strangers = table(&[seen(30, 0), seen(31, 30)]);
        assert!(strangers.values().all(|seen| census.is_apart(seen, &strangers)));
        // Who has the number of its parent now was started after it.
        let strangers = table(&[seen(30, 0), Seen { started: 7, ..seen(31, 30) }]);
        assert!(!census.is_apart(&strangers[&31], &strangers));
    }

    #[test]
    fn what_it_left_to_its_reaper_is_left_and_what_others_started_is_not() {
        let beside = [seen(1, 0), seen(REAPER, 1), seen(20, REAPER), seen(60, REAPER)];
        assert_eq!(left(&beside), [0; 0]);
        let child_and_grandchild = [&beside[..], &[seen(70, REAPER), seen(71, 70)]].concat();
        assert_eq!(left(&child_and_grandchild), [70, 71]);
        let of_others = [&beside[..], &[seen(80, 20), seen(81, 80)]].concat();
        assert_eq!(left(&of_others), [0; 0]);
        let of_somebody_who_ended = [&beside[..], &[seen(90, 89)]].concat();
        assert_eq!(left(&of_somebody_who_ended), [90], "unsure means no");
        let dead = [&beside[..], &[Seen { is_dead: true, ..seen(70, REAPER) }]].concat();
        assert_eq!(left(&dead), [0; 0]);
        let number_given_again =
            [&beside[..2], &[Seen { started: 99, ..seen(20, REAPER) }]].concat();
        assert_eq!(left(&number_given_again), [20]);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b) Z 3 7 7 0 -1 4228 0 0 0 0 0 0 0 0 20 0 2 0 812 0 0 0";
        let seen = parse(7, stat).unwrap();
        assert_eq!((seen.parent, seen.started, seen.flags), (3, 812, 4228));
        assert!(!seen.is_dead, "it has a thread that goes on");
        assert!(parse(7, &stat.replace(" 20 0 2 ", " 20 0 1 ")).unwrap().is_dead);
        assert_eq!(parse(7, "7 (a) R"), None);
        let us = getpid().as_raw_nonzero().get();
        assert_eq!(look_at(us).unwrap().parent, parent());
    }

    #[test]
    fn a_proc_that_hides_is_noticed() {
        let line = |options: &str| format!("proc /proc proc rw,nosuid{options},relatime 0 0\n");
        assert!(!hides(&line("")) && !hides(&line(",hidepid=0")) && !hides(&line(",hidepid=off")));
        assert!(hides(&line(",hidepid=2")) && hides(&line(",hidepid=invisible")));
    }
}
