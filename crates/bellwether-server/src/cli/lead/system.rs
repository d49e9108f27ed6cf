//! What the kernel does for whoever must not leave a process behind.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use bellwether::core::time::BootTime;
use bellwether::{Clock, core};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, kill_process_group, wait,
};

/// This program itself, also when its file was replaced or removed since it was started.
pub(crate) fn this_program() -> Command {
    let mut command = Command::new(path_of_this_program());
    std::os::unix::process::CommandExt::arg0(&mut command, "bellwether");
    command
}

/// Where it can be started from, by this process.
pub(super) fn path_of_this_program() -> PathBuf {
    #[cfg(target_os = "linux")]
    return "/proc/self/exe".into();
    #[cfg(not(target_os = "linux"))]
    std::env::current_exe().unwrap_or_else(|_| "bellwether".into())
}

/// From here on this process is killed when the thread that started it ends, and after `exec` so is
/// what it became, unless that runs with other rights.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before we asked.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// From here on descendants whose parent dies become children of this process, and none of them can
/// get away from it.
pub(super) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Takes leave of every child that has died. `None` when there is no child left, alive or dead.
pub(super) fn reap(mut each: impl FnMut(Pid, WaitStatus)) -> Option<()> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => each(pid, status),
            Err(Errno::INTR) => {}
            Ok(None) => return Some(()),
            Err(_) => return None,
        }
    }
}

/// Kills the group and every child of ours. The children of those become ours when they have died,
/// so this is repeated until `reap` says that none is left. Nobody else can be hit: a child's number is
/// not given to another process before we have reaped it.
pub(super) fn kill_all(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for child in children() {
        let _ = kill_process(child, Signal::KILL);
    }
}

/// Children of this process, adopted ones too; none where there is no `/proc`.
fn children() -> Vec<Pid> {
    let us = getpid().as_raw_nonzero().get();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // `PID (NAME) STATE PARENT …`, and a name may hold anything.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent.and_then(|parent| parent.parse().ok()) == Some(us)
    };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_ours).filter_map(Pid::from_raw).collect()
}

/// The boot clock.
pub(in crate::cli) fn boot() -> BootTime {
    let core::time::Now { boot, .. } = Clock::System.now();
    boot
}

/// Wakes its process at a time of the boot clock; at once if the machine slept past it.
#[cfg(target_os = "linux")]
pub(super) struct Alarm {
    timer: std::sync::Arc<std::os::fd::OwnedFd>,
    rung: std::sync::Arc<tokio::sync::Notify>,
}

#[cfg(target_os = "linux")]
impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        let alarm = Self { timer: timer.into(), rung: std::sync::Arc::default() };
        let (timer, rung) = (alarm.timer.clone(), alarm.rung.clone());
        // Sleeps in the kernel; whoever is late is told only once.
        std::thread::Builder::new().name("alarm".into()).spawn(move || {
            while matches!(rustix::io::read(&timer, &mut [0; 8]), Ok(_) | Err(Errno::INTR)) {
                rung.notify_one();
            }
        })?;
        Ok(alarm)
    }

    /// Ready at `at`, or earlier if what was set before has just been reached.
    pub(super) async fn at(&self, at: BootTime) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let (seconds, ms) = (at.0 / 1000, at.0 % 1000);
        // All zeros would be never.
        let it_value = Timespec {
            tv_sec: seconds.min(u64::from(u32::MAX)).cast_signed(),
            tv_nsec: (ms * 1_000_000).max(1).cast_signed(),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        self.rung.notified().await;
        Ok(())
    }
}

/// Without timers on such a clock it looks at the clock now and then.
#[cfg(not(target_os = "linux"))]
pub(super) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn at(&self, at: BootTime) -> io::Result<()> {
        while boot() < at {
            let ms = boot().ms_until(at).min(100);
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        }
        Ok(())
    }
}
